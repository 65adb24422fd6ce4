"""What README and docs say is so: their code runs, their tables are the code's, and nothing is left out."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer.main

import offprompt
from offprompt import errors
from offprompt.cli.call import OPTION_NAMES
from offprompt.cli.program import app
from offprompt.config import OWN_VARIABLES, setting_docs
from offprompt.recall.docs import Weights
from tests.house.tree import ROOT, relative
from tools.blocks import run_page, run_python
from tools.pages import made, walk

PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    ran = run_page(page.read_text(encoding="utf-8"), relative(page), tmp_path)
    assert [f"{relative(page)}:{one.line} {one.code}\n{one.printed}" for one in ran if not one.fits] == []


def test_an_output_that_differs_is_seen() -> None:
    text = "```python\nprint('a')\nprint('b, at 10:31')\n```\n\n```text\na\nb, at …\n```\n"
    assert [ran.fits for ran in run_python(text, "page")] == [True]
    assert [ran.fits for ran in run_python(text.replace("\na\n", "\nA\n"), "page")] == [False]
    assert [ran.fits for ran in run_python(text.replace("b, at …\n", ""), "page")] == [False]


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
    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.OffpromptError)
    ]
    assert len(classes) > 10
    assert [name for name in classes if name not in page or not hasattr(offprompt, name)] == []


def test_every_weight_is_documented() -> None:
    page = (ROOT / "docs" / "ranking.md").read_text(encoding="utf-8")
    assert [item.name for item in fields(Weights) if f"`{item.name}`" not in page] == []


def test_the_page_on_storage_is_that_of_the_format_in_use(tmp_path: Path) -> None:
    with offprompt.open(str(tmp_path / "a.db")) as memory:
        memory.scope(user="alice").write("city", "Lisbon")
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        number = file.execute("PRAGMA user_version").fetchone()[0]
    page = (ROOT / "docs" / "storage-format.md").read_text(encoding="utf-8")
    assert page.partition("\n")[0] == f"# Storage format, version {number}"


def test_links_lead_somewhere() -> None:
    broken = [
        f"{relative(page)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not target.startswith("http") and not (page.parent / target).exists()
    ]
    assert broken == []
