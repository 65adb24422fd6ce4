"""`offprompt copy`: what it says, in both languages, and that a killed one goes on."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import offprompt
from offprompt.records.tables import TABLES
from offprompt.testing.portable_suite import rows_of
from tests.cli.conftest import Run
from tests.stores.schemas import schema_url


def filled(path: Path) -> None:
    with offprompt.open(path) as memory:
        for number in range(40):
            scope = memory.scope(user=f"用户 {number}")
            scope.write("城市", f"城 {number}")
            scope.remember(f"I moved to place {number} in May 2026.")


def test_a_copy_says_what_was_copied(run: Run, store: Path, tmp_path: Path) -> None:
    run("write city 上海 --user alice")
    ran = run(f"copy {store} {tmp_path}/b.db")
    assert ran.code == 0, ran.err
    table, last = ran.out.rsplit("\n", 2)[:2]
    assert last == f"copied and compared: 3 rows, {tmp_path}/b.db"
    assert [line.split()[:2] for line in table.splitlines()[-3:]] == [
        ["slots", "1"],
        ["versions", "1"],
        ["events", "1"],
    ]
    assert run(f"read city --user alice --url {tmp_path}/b.db").out == "上海\n"
    ran = run(f"copy {store} sqlite:///{tmp_path}/c.db --json")
    assert ran.document["tables"]["slots"]["rows"] == 1
    assert len(ran.document["tables"]["slots"]["sha256"]) == 64
    assert (ran.document["resumed"], ran.document["rows"]) == (False, 3)
    ran = run(f"copy {store} {tmp_path}/d.db --lang zh")
    assert ran.out.endswith(f"已复制并核对: 3 行, {tmp_path}/d.db\n")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("copy {store} {store}", 2, "is source and target"),
        ("copy {folder}/none.db {folder}/b.db", 3, "there is no store at"),
        ("copy {store} redis://:secret@cache", 2, "memories=agent.db slots=redis://:***@cache"),
        ("copy {store} {folder}/full.db", 2, "is not empty (slots, versions, events)"),
        ("copy {store} mysql://x", 4, "the engine 'mysql' is not known"),
        ("copy {store}", 2, "Missing argument 'TO'"),
    ],
)
def test_what_cannot_be_copied_is_said(run: Run, store: Path, tmp_path: Path, line: str, code: int, said: str) -> None:
    run("write city 上海 --user alice")
    run(f"write city 上海 --user alice --url {tmp_path}/full.db")
    ran = run(line.format(store=store, folder=tmp_path))
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_an_index_of_vectors_beside_the_target_is_filled(run: Run, tmp_path: Path) -> None:
    filled(tmp_path / "a.db")
    target = f"memories={tmp_path}/b.db vectors=qdrant:///{tmp_path}/vectors"
    ran = run(f"copy {tmp_path}/a.db '{target}' --json")
    assert ran.code == 0, ran.err
    assert ran.document["vectors"] >= 40
    with offprompt.open(target) as memory:
        recalled = memory.scope(user="用户 7").recall("where did they move?")
        assert (recalled.hits[0].text, recalled.degraded) == ("I moved to place 7 in May 2026.", "")


KILLED = """
import os, sys
from importlib import import_module
from offprompt.cli import main
module, name = sys.argv[4].split(":")
engine = getattr(import_module(module), name)
left = int(sys.argv[3])
for name in ("put_rows", "set_note"):
    def call(self, *given, real=getattr(engine, name), **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)
        done = real(self, *given, **named)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)
        return done
    setattr(engine, name, call)
from offprompt.service import copying
copying.PAGE = 7
sys.exit(main(["copy", sys.argv[1], sys.argv[2]]))
"""
ENGINES = {"sqlite": "offprompt.stores.sqlite:SqliteStore", "postgres": "offprompt.stores.postgres:PostgresStore"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_that_was_killed_goes_on(engine: str, run: Run, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source, chance = tmp_path / "a.db", random.Random(7)  # noqa: S311 - draws places to kill at
    filled(source)
    for number in range(3):
        step = chance.randrange(4, 100)
        with ExitStack() as closing:
            target = str(tmp_path / f"b{number}.db")
            if engine == "postgres":
                target = closing.enter_context(schema_url(request.getfixturevalue("postgres_server")))
            command = [sys.executable, "-c", KILLED, str(source), target, str(step), ENGINES[engine]]
            assert subprocess.run(command, capture_output=True, check=False).returncode == -9, step
            assert "is not finished" in run(f"doctor --url {target}").out
            ran = run(f"copy {source} {target}")
            assert ran.code == 0, ran.err
            assert "went on with a copy that was broken off" in ran.out
            with offprompt.open(source) as old, offprompt.open(target) as new:
                for table in TABLES:
                    assert rows_of(new.parts.main, table) == rows_of(old.parts.main, table)
