"""`kill -9` at each step of an extraction: it goes on where it was, and does nothing twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import offprompt
from offprompt.service.bound import BoundScope
from offprompt.service.checkup import checkup
from tests.service.extract_victim import BATCH, SAID, facts_of, read
from tests.service.read import FakeReader

ROOT = Path(__file__).parents[2]
BATCHES = len(SAID) // BATCH
STEPS = ["before the answer", "after the answer", "before it is stored", "before the commit", "after the commit"]


def stored(path: Path) -> None:
    with offprompt.open(path, embedder="none") as mem:
        turns = [{"role": "user", "content": text} for text in SAID]
        mem.scope(user="ann", session="s1").remember(turns, derive="none")


def victim(path: Path, where: str, batch: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.service.extract_victim", str(path), where, str(batch)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def check_whole(scope: BoundScope) -> None:
    """Each turn read once, each fact there once, and the log says so."""
    turns = scope.memories.list(kinds=["episode"])
    assert all(turn.extracted for turn in turns)
    facts = scope.memories.list(kinds=["fact"])
    assert sorted(fact.text for fact in facts) == sorted(text for _, text in SAID.values())
    assert {fact.repeats for fact in facts} == {0}
    added = [event.name for event in scope.events(op="extract.add")]
    assert sorted(added) == sorted(fact.memory_id for fact in facts)
    assert sum(int(event.why.split()[0]) for event in scope.events(op="extract.read")) == len(turns)


@pytest.mark.parametrize("batch", [1, BATCHES])
@pytest.mark.parametrize("where", STEPS)
def test_a_kill_at_any_step(tmp_path: Path, where: str, batch: int) -> None:
    path = tmp_path / "agent.db"
    stored(path)
    with victim(path, where, batch) as process:
        assert process.wait(60) == -signal.SIGKILL
    left = BATCHES - batch + (where != "after the commit")
    with offprompt.open(path, embedder="none", extract_turns=BATCH, derive="model") as mem:
        ann, reader = mem.scope(user="ann"), FakeReader([facts_of])
        waiting = next(one.what for one in checkup(mem.parts).findings if one.name == "extraction")
        assert waiting.startswith(f"{left * BATCH} turns wait")
        found = read(ann, reader)
        assert (len(reader.requests), found.read, found.waiting) == (left, left * BATCH, 0)
        check_whole(ann)
        assert checkup(mem.parts).is_sound


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.long)])
def test_kills_at_any_moment(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(6)  # noqa: S311 - when to kill, seeded
    left: list[int] = []
    for number in range(rounds):
        path = tmp_path / f"{number}.db"
        stored(path)
        with victim(path, "nowhere", 0) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            sum(range(chance.randrange(0, 30_000_000)))
            process.kill()
        with offprompt.open(path, embedder="none", extract_turns=BATCH) as mem:
            reader = FakeReader([facts_of])
            read(mem.scope(user="ann"), reader)
            check_whole(mem.scope(user="ann"))
            left.append(len(reader.requests))
    assert len(set(left)) > 1 or rounds < 20


def test_two_processes_at_once_store_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    stored(path)
    with victim(path, "nowhere", 0) as one, victim(path, "nowhere", 0) as other:
        assert [one.wait(60), other.wait(60)] == [0, 0]
    with offprompt.open(path, embedder="none") as mem:
        check_whole(mem.scope(user="ann"))
