"""The project's own files, as the house tests look at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "offprompt"
PLACES = ("src", "tests", "tools", "examples", "docs", ".ci", "bench")
TOP_LEVEL = (".md", ".toml", ".txt", ".cfg", ".yaml")


def sources() -> list[Path]:
    """The package's modules."""
    return sorted(PACKAGE.rglob("*.py"))


def code() -> list[Path]:
    """All Python files: package, tests, tools, examples."""
    return sorted(path for place in PLACES for path in (ROOT / place).rglob("*.py"))


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project with its content."""
    places = [path for place in PLACES for path in (ROOT / place).rglob("*") if path.is_file()]
    top = [path for path in ROOT.iterdir() if path.is_file() and path.suffix in TOP_LEVEL]
    for path in sorted([*places, *top, ROOT / "Makefile", ROOT / ".gitignore"]):
        if "__pycache__" not in path.parts and path.suffix not in (".pyc", ".png", ".db"):
            yield path, path.read_text(encoding="utf-8")


def relative(path: Path) -> str:
    """A file's path from the project's root."""
    return path.relative_to(ROOT).as_posix()


def module(path: Path) -> str:
    """A module's dotted name: `offprompt.wire.head`."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    """A file parsed."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> list[tuple[str, int, bool]]:
    """Each imported module, its line, and whether only for types (below `if TYPE_CHECKING`)."""
    for_types = {
        id(inner)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found: list[tuple[str, int, bool]] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, id(node) in for_types) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append((node.module, node.lineno, id(node) in for_types))
    return found
