"""Stores of every earlier format, as the programs of their time wrote them, are brought forward with all they hold."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.records import MEMORY_STATES, Scope
from offprompt.records.tables import TABLES
from offprompt.stores._sqlite_schema import FORMAT, MIGRATIONS
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from tests.house.tree import ROOT

FORMATS = ROOT / "tests" / "data" / "formats"
EARLIER = tuple(range(1, FORMAT))
WRITTEN_AT = 1_790_000_010.0


def written(number: int, folder: Path) -> Path:
    """A file of a format, as it was."""
    path = folder / f"format_{number}.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript((FORMATS / f"format_{number}.sql").read_text(encoding="utf-8"))
    path.chmod(0o600)
    return path


def rows(path: Path, number: int) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a file in the columns that its format had."""
    with closing(sqlite3.connect(path)) as file, closing(sqlite3.connect(":memory:")) as bare:
        for migration in MIGRATIONS[:number]:
            for statement in migration:
                bare.execute(statement)
        found: dict[str, list[tuple[Any, ...]]] = {}
        for (table,) in bare.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ):
            columns = ", ".join(row[1] for row in bare.execute(f"PRAGMA table_info({table})"))
            found[table] = file.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}").fetchall()  # noqa: S608 - our own names
        return found


def format_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        return int(file.execute("PRAGMA user_version").fetchone()[0])


def test_every_earlier_format_is_kept_as_a_fixture() -> None:
    assert sorted(path.name for path in FORMATS.glob("*.sql")) == [f"format_{number}.sql" for number in EARLIER]


@pytest.mark.parametrize("number", EARLIER)
def test_nothing_of_an_earlier_format_is_lost(number: int, tmp_path: Path) -> None:
    path = written(number, tmp_path)
    before = rows(path, number)
    assert all(before[table] for table in before if table not in ("memory_keys", "aliases"))
    store = SqliteStore(path, clock=MovedClock(WRITTEN_AT))
    assert [one for one in store.check() if one.state == "fail"] == []
    assert {table for table in TABLES if not store.scan(table)} <= TABLES.keys() - before.keys() | {"memory_keys"}
    store.close()
    assert format_of(path) == FORMAT
    assert rows(path, number) == before


@pytest.mark.parametrize("number", EARLIER)
def test_what_an_earlier_program_stored_is_in_use(number: int, tmp_path: Path) -> None:
    with offprompt.open(written(number, tmp_path), clock=MovedClock(WRITTEN_AT)) as memory:
        alice = memory.scope(user="alice@example.com")
        assert alice.read("reply_style") == "concise, English please"
        assert [one.value for one in alice.slots.history("reply_style")] == [
            "concise, 简体中文",
            "concise, English please",
        ]
        assert alice.read("城市") == {"name": "上海", "since": 2026.5}
        assert alice.slots.undo("gone").value == "for a while"
        assert memory.scope(user="bob", app="other").read("long") == "x" * 9000
        assert memory.scope(agent="planner").read("plan") == "第一步"
        if number >= 2:
            assert [place.tool for place in alice.slots.allowed("api_key")] == ["send"]
        if number >= 3:
            texts = [hit.text for hit in alice.recall("豆豆 dog").hits]
            assert "My dog is called 豆豆." in texts
            states = {one.text: one.state for one in alice.memories.list(states=MEMORY_STATES).memories}
            assert states["I moved to Lisbon in May 2026."] == "superseded"
            assert memory.scope(user="bob").recall("tea").hits == ()
        if number >= 4:
            assert memory.scope(user="al").scope == Scope(user="alice@example.com")
            assert memory.scope(user="al").read("nick") == "Al"
        _goes_on(alice)


def _goes_on(alice: offprompt.BoundScope) -> None:
    """The session that an earlier program began has its messages, and takes the next ones."""
    session = alice.session("s1", model="gpt-4o-mini", policy="stub_at_once")
    journal = session.journal()
    messages = [dict(entry.message) for entry in journal if entry.kind != "answer"]
    assert [message["role"] for message in messages][:3] == ["user", "assistant", "user"]
    request = session.prepare([*messages, {"role": "user", "content": "再见"}])
    sent = [message for message in request["messages"] if message["role"] != "system"]
    assert [message["content"] for message in sent[:2]] == [messages[0]["content"], messages[1]["content"]]
    assert len(sent[4]["content"]) < len(messages[4]["content"]) / 3
    assert [entry.seq for entry in session.ledger()] == [1, 2]


KILLED = """
import os, sys
from offprompt.stores import _sqlite_schema as schema
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock

class Statements(tuple):
    def __iter__(self):
        for at, statement in enumerate(tuple.__iter__(self)):
            if at == int(sys.argv[3]):
                os.kill(os.getpid(), 9)
            yield statement
        os.kill(os.getpid(), 9)

steps = list(schema.MIGRATIONS)
steps[int(sys.argv[2])] = Statements(steps[int(sys.argv[2])])
schema.MIGRATIONS = tuple(steps)
SqliteStore(sys.argv[1], clock=MovedClock())
"""


@pytest.mark.parametrize("number", EARLIER)
def test_a_step_that_was_killed_leaves_the_format_before_whole(number: int, tmp_path: Path) -> None:
    path = written(number, tmp_path)
    before, statements = rows(path, number), len(MIGRATIONS[number])
    for at in sorted({1, statements // 2, statements}):
        command = [sys.executable, "-c", KILLED, str(path), str(number), str(at)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == -9
        assert (format_of(path), rows(path, number)) == (number, before)
    SqliteStore(path, clock=MovedClock(WRITTEN_AT)).close()
    assert (format_of(path), rows(path, number)) == (FORMAT, before)
