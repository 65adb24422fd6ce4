"""No file and no function grows past what one sitting can read."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.tree import code, relative, sources, tree

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_files_stay_short() -> None:
    long = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in code()}
    assert {path: lines for path, lines in long.items() if lines > MAX_FILE_LINES} == {}


def test_functions_stay_short() -> None:
    long: list[str] = []
    for path in code():
        for node in functions(path):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            documented = ast.get_docstring(node)
            lines -= len(documented.splitlines()) if documented else 0
            if lines > MAX_FUNCTION_LINES:
                long.append(f"{relative(path)}:{node.lineno} {node.name} has {lines} lines")
    assert long == []


def test_nothing_is_left_undone() -> None:
    undone = ("NotImplemented" + "Error", "TO" + "DO", "FIX" + "ME", "XX" + "X ")
    wrong = [
        f"{relative(path)}:{number}"
        for path in code()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if any(word in line for word in undone)
    ]
    assert wrong == []


REPORTED = tuple(
    f"src/offprompt/{name}.py"
    for name in (
        "service/tool_runs",
        "service/model_calls",
        "service/reranking",
        "service/quick",
        "rest/dispatch",
        "rest/lanes",
    )
)
"""Files in which whatever is raised is kept and told: tools, models and rerankers, which are the application's, and the
requests of a server, which goes on."""


def test_no_broad_except_in_the_package() -> None:
    wrong: list[str] = []
    for path in sources():
        if (
            path.parent.name == "testing" or relative(path) in REPORTED
        ):  # suites gather what threads raised, and report it
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.unparse(node.type) if node.type else ""
                reraises = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
                if caught in ("", "Exception", "BaseException") and not reraises:
                    wrong.append(f"{relative(path)}:{node.lineno} swallows {caught or 'everything'}")
    assert wrong == []


def test_every_package_folder_says_what_lives_there() -> None:
    silent = [relative(path) for path in sources() if path.name == "__init__.py" and not ast.get_docstring(tree(path))]
    assert silent == []
