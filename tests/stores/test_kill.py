"""`kill -9` in the middle of writes: nothing acknowledged is lost, and the file is sound."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from offprompt.protocols import run
from offprompt.records import GetSlot, Scope, SlotHistory
from offprompt.service.maintenance import doctor
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock

WRITER = Path(__file__).parent / "writer.py"
NAMES = 20


def write_and_kill(path: Path, user: str, lines: int, spin: int) -> list[int]:
    """The numbers that a writer acknowledged before it was killed, some instructions after `lines` of them."""
    process = subprocess.Popen([sys.executable, str(WRITER), str(path), user, "-1"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline() for _ in range(lines)]
    sum(range(spin))
    process.kill()
    acknowledged += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    return [int(line.split()[0]) for line in acknowledged if line.endswith("\n")]


def value_of(number: int) -> dict[str, object]:
    return {"number": number, "text": "值" * (number % 300)}


def play(path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - when to kill, seeded
    for number in range(rounds):
        scope = Scope(user=f"u{number}")
        written = write_and_kill(path, f"u{number}", chance.randrange(0, 60), chance.randrange(0, 200_000))
        assert written == list(range(len(written)))
        store = SqliteStore(path, clock=MovedClock())
        report = doctor(store)
        assert report.is_sound, report
        for name in range(min(NAMES, len(written))):
            last = written[-1] - (written[-1] - name) % NAMES
            slot = run(store, GetSlot(scope, f"slot{name}"))
            assert slot is not None
            # One more write may have been stored than was said.
            stored = last if slot.value == value_of(last) else last + NAMES
            assert slot.value == value_of(stored)
            assert stored <= written[-1] + 1
            assert run(store, SlotHistory(scope, f"slot{name}"))[-1].value == slot.value
        store.close()


def test_nothing_acknowledged_is_lost_in_10_kills(tmp_path: Path) -> None:
    play(tmp_path / "agent.db", 10, seed=7)


def test_a_kill_while_the_file_is_made(tmp_path: Path) -> None:
    chance = random.Random(3)  # noqa: S311 - when to kill, seeded
    for number in range(5):
        path = tmp_path / f"{number}" / "agent.db"
        process = subprocess.Popen([sys.executable, str(WRITER), str(path), "u", "-1"], stdout=subprocess.DEVNULL)
        while not path.exists():
            assert process.poll() is None
        sum(range(chance.randrange(0, 100_000)))
        process.kill()
        process.wait()
        store = SqliteStore(path, clock=MovedClock())
        assert doctor(store).is_sound
        store.close()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_in_100_kills(tmp_path: Path) -> None:
    play(tmp_path / "agent.db", 100, seed=11)
