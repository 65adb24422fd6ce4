"""What README and docs say is so: their code runs, their tables are the code's, and nothing is left out."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

import offprompt
from offprompt import errors
from offprompt.cli import app
from offprompt.cli.call import OPTION_NAMES
from offprompt.config import OWN_VARIABLES, setting_docs
from offprompt.testing.scripted import ScriptedModel
from tests.house.tree import ROOT, relative
from tools.pages import made, walk

PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = ("make ", "pip ", "python3 -m venv", ". .venv", "git ", "cd ")


@dataclass(frozen=True)
class Block:
    kind: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in BLOCK.finditer(text)]


def having(kind: str) -> list[Path]:
    return [page for page in PAGES if any(block.kind == kind for block in blocks(page))]


def client() -> Any:
    """What the pages call `client`: a client of OpenAI's shape with a script behind it."""
    return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=ScriptedModel().create)))


def fits(printed: str, shown: str) -> bool:
    """Whether the output is what the page shows; `…` at the end of a line stands for its rest."""
    lines, wanted = printed.rstrip().splitlines(), shown.rstrip().splitlines()
    return len(lines) == len(wanted) and all(
        line.startswith(want.removesuffix("…")) if want.endswith("…") else line.rstrip() == want.rstrip()
        for line, want in zip(lines, wanted, strict=True)
    )


@pytest.mark.parametrize("page", having("python"), ids=relative)
def test_python_blocks_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__", "client": client()}
    found = blocks(page)
    for block, following in zip(found, [*found[1:], Block("", "", 0)], strict=True):
        if block.kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (block.line - 1) + block.code, relative(page), "exec"), names)  # noqa: S102
        if following.kind == "text":
            assert fits(printed.getvalue(), following.code), f"{relative(page)}:{block.line}\n{printed.getvalue()}"


@pytest.mark.parametrize("page", having("console"), ids=relative)
def test_console_blocks_run_and_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OFFPROMPT_")}
    environ |= {"PATH": f"{Path(sys.executable).parent}:{environ['PATH']}", "OFFPROMPT_URL": str(tmp_path / "own.db")}
    for block in blocks(page):
        if block.kind != "console":
            continue
        exported: list[str] = []
        for command, shown in steps(block.code):
            if command.startswith(NOT_RUN):
                continue
            if command.startswith("export "):
                exported.append(command)
                continue
            script = "; ".join([*exported, command])
            ran = subprocess.run(
                ["bash", "-c", script],
                cwd=tmp_path,
                env=environ,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            assert fits(ran.stdout, shown), f"{relative(page)}:{block.line} $ {command}\n{ran.stdout}"


def steps(code: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output shown below it."""
    found: list[tuple[str, str]] = []
    for line in code.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=relative)
def test_made_parts_are_what_the_code_says_now(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert made(text) == text, f"run `make docs`: {relative(page)} is out of date"


def test_every_make_target_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`?\bmake ([a-z]+(?:-[a-z]+)*)`", page.read_text("utf-8"))}
    assert named
    assert named <= targets


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [name for name in setting_docs() if f"`{name}`" not in page] == []
    assert [name for name in OWN_VARIABLES if f"`OFFPROMPT_{name}`" not in page] == []


def test_every_command_and_option_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    root: Any = typer.main.get_command(app)
    lacking = [" ".join(path) for path, _ in walk(root) if f"`offprompt {' '.join(path)}" not in page]
    for path, command in walk(root):
        lacking += [
            f"{' '.join(path)} {option}"
            for one in command.params
            if one.param_type_name == "option" and one.name not in (*OPTION_NAMES, "help")
            for option in one.opts
            if option not in page
        ]
    assert lacking == []


def test_every_error_is_documented() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    classes = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 10
    assert [name for name in classes if name not in page or not hasattr(offprompt, name)] == []


def test_links_lead_somewhere() -> None:
    broken = [
        f"{relative(page)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not target.startswith("http") and not (page.parent / target).exists()
    ]
    assert broken == []
