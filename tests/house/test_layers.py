"""Imports point down the layers, siblings never import each other, one file per third-party SDK."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict

from tests.house.tree import imports, module, relative, sources, tree

LEVELS = {
    "errors": 0,
    "records": 1,
    "config": 1,
    "protocols": 2,
    "stores": 3,
    "indexes": 3,
    "models": 3,
    "wire": 3,
    "recall": 3,
    "privacy": 3,
    "service": 4,
    "client": 4,
    "bootstrap": 5,
    "compat": 6,
    "cli": 9,
    "rest": 7,
    "gateway": 8,
    "mcp": 8,
    "integrations": 8,
}
BESIDE = {"", "testing", "__main__"}
"""The package itself (lazy) and the test kit may import any layer below the entrances, which may import them."""

BELOW_ENTRANCES = 5

MANY_FILES = {
    *("typer", "rich", "pytest", "hypothesis", "msgspec", "numpy", "httpx", "uvicorn"),
    *("langchain_core", "pydantic"),
}
"""The tools that more than one file of a layer is written in; every other library has one file that wraps it."""


def layer(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_imports_point_down_and_never_sideways() -> None:
    wrong: list[str] = []
    for path in sources():
        own = layer(module(path))
        if own in BESIDE:
            continue
        for name, line, _ in imports(path):
            other = layer(name)
            if not name.startswith("offprompt") or other == own:
                continue
            if LEVELS.get(other, BELOW_ENTRANCES) >= LEVELS[own]:
                wrong.append(f"{relative(path)}:{line} imports {name}")
    assert wrong == []


def test_every_folder_has_its_place_in_the_layers() -> None:
    assert {layer(module(path)) for path in sources()} <= LEVELS.keys() | BESIDE


def test_nothing_imports_an_entrance_but_the_way_in() -> None:
    entrances = {name for name, level in LEVELS.items() if level > BELOW_ENTRANCES}
    wrong = [
        f"{relative(path)}:{line} imports {name}"
        for path in sources()
        if layer(module(path)) not in entrances | {"__main__"}
        for name, line, _ in imports(path)
        if name.startswith("offprompt.") and layer(name) in entrances
    ]
    assert wrong == []


def test_a_third_party_library_is_imported_in_one_file() -> None:
    users: dict[str, set[str]] = defaultdict(set)
    for path in sources():
        for name, _, for_types in imports(path):
            top = name.partition(".")[0]
            if not for_types and top not in sys.stdlib_module_names | MANY_FILES | {"offprompt"}:
                users[top].add(relative(path))
    users["platformdirs"] -= {"src/offprompt/models/tokenizers.py"}  # its own cache folder, below bootstrap
    assert {top: sorted(files) for top, files in users.items() if len(files) > 1} == {}


def test_no_relative_imports() -> None:
    wrong = [
        f"{relative(path)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert wrong == []
