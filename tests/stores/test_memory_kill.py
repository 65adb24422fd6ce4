"""`kill -9` in the middle of adds: no acknowledged memory is lost, and what is derived fits what is stored."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from offprompt.protocols import apply
from offprompt.records import ListMemories, LoadIndex, Memory, MemoryHistory, MemoryQuery, Scope
from offprompt.service.maintenance import doctor
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from tests.stores.memory_writer import indexed_of, text_of

WRITER = Path(__file__).parent / "memory_writer.py"


def add_and_kill(path: Path, user: str, lines: int, spin: int) -> list[str]:
    """The ids, by number, that a writer acknowledged before it was killed, some instructions after `lines` of them."""
    process = subprocess.Popen([sys.executable, str(WRITER), str(path), user, "-1"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(lines)]
    sum(range(spin))
    process.kill()
    said += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    acknowledged = [line.split() for line in said if line.endswith("\n")]
    assert [(int(number), outcome) for number, outcome, _ in acknowledged] == [
        (number, "added") for number in range(len(acknowledged))
    ]
    return [memory_id for _, _, memory_id in acknowledged]


def stored(store: SqliteStore, scope: Scope) -> list[Memory]:
    """The memories of the scope, after its index page was held against them."""
    rows = apply(store, ListMemories(MemoryQuery(scope, "exact")))
    page = apply(store, LoadIndex(scope))
    assert [memory for memory, _ in page.rows] == rows
    assert [indexed for _, indexed in page.rows] == [indexed_of(row.memory_id, row.text) for row in rows]
    assert page.revision == max((row.revision for row in rows), default=0)
    return rows


def play(path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - when to kill, seeded
    for number in range(rounds):
        scope = Scope(user=f"u{number}")
        ids = add_and_kill(path, f"u{number}", chance.randrange(0, 60), chance.randrange(0, 200_000))
        store = SqliteStore(path, clock=MovedClock())
        report = doctor(store)
        assert report.is_sound, report
        rows = stored(store, scope)
        assert [row.memory_id for row in rows][: len(ids)] == ids
        # One more may have been stored than was said.
        assert len(rows) - len(ids) in (0, 1)
        assert [row.text for row in rows] == [text_of(f"u{number}", at) for at in range(len(rows))]
        for row in rows:
            assert [one.text for one in apply(store, MemoryHistory(scope, row.memory_id))] == [row.text]
        store.close()


def test_no_acknowledged_memory_is_lost_in_10_kills(tmp_path: Path) -> None:
    play(tmp_path / "agent.db", 10, seed=7)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_no_acknowledged_memory_is_lost_in_100_kills(tmp_path: Path) -> None:
    play(tmp_path / "agent.db", 100, seed=11)
