"""Reindex: vectors of another embedder while recalls go on, and after a `kill -9` the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import offprompt
from offprompt.service.checkup import checkup
from offprompt.service.maintenance import doctor
from offprompt.service.reindexing import BATCH
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from tests.service.test_memories_recall import Letters, fill, hits, opened

ALL = 2 * BATCH + 88


class Fewer(Letters):
    """Letters in vectors of another size."""

    dimension = 32


def test_recalls_go_on_while_another_embedder_takes_over(clock: MovedClock) -> None:
    store = InProcessStore(clock)
    old = opened(store, clock, Letters("old")).scope(user="a").memories
    fill(old, *(f"note {number} of the boat" for number in range(ALL - 1)), "红色的自行车")
    memories = opened(store, clock, Fewer("new")).scope(user="a").memories
    told: list[tuple[int, str]] = []

    def ask(done: int) -> None:
        found = memories.recall("红色的自行车 boat", floor=0.0, top_k=1000)
        assert len(found) == ALL
        told.append((done, found.degraded.partition(" memories")[0]))

    ask(0)
    assert memories.reindex(progress=ask).done == ALL
    assert told == [(0, str(ALL)), (BATCH, str(ALL - BATCH)), (2 * BATCH, "88"), (ALL, "")]
    memories.remember("a cat", derive="none")
    assert hits(memories, "act", floor=0.0)[0] == "a cat"
    assert len(old.recall("boat", top_k=1000)) == ALL - 1


PROGRAM = """
import sys, offprompt
with offprompt.open(sys.argv[1], embedder="use") as mem:
    mem.scope(user="a").memories.reindex(progress=lambda done: print(done, flush=True))
"""


def test_a_reindex_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with offprompt.open(path, embedder="none") as mem:
        mem.scope(user="a").remember([f"第 {number} 号 note" for number in range(ALL)], derive="none")
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [int(process.stdout.readline())]
    process.kill()
    said += map(int, process.stdout.read().split())
    process.stdout.close()
    process.wait()
    with offprompt.open(path, embedder="use") as mem:
        assert doctor(mem.parts.slots).is_sound
        memories = mem.scope(user="a").memories
        # One more batch may have been stored than was said.
        assert ALL - memories.reindex().done in (said[-1], said[-1] + BATCH)
        assert memories.recall("note 7").degraded == ""


def test_doctor_says_what_has_no_vector_and_reindex_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with offprompt.open(path, embedder="none") as mem:
        mem.scope(user="a").remember(["红色的自行车", "a red bicycle"], derive="none")
        assert [one for one in checkup(mem.parts).findings if one.name == "embedder"] == []
    with offprompt.open(path) as mem:
        (found,) = [one for one in checkup(mem.parts).findings if one.name == "embedder"]
        assert (found.state, found.what.partition(" of ")[0]) == ("warn", "2 memories have no vector")
        assert "reindex" in found.way_out
        mem.scope(user="a").memories.reindex()
        assert [one for one in checkup(mem.parts).findings if one.name == "embedder"] == []


def test_doctor_says_that_an_embedder_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with offprompt.open(path, embedder="none") as mem:
        mem.scope(user="a").remember("a red bicycle", derive="none")
    with offprompt.open(path, embedder="openai:m/8", embedder_url="http://127.0.0.1:9/v1") as mem:
        (found,) = [one for one in checkup(mem.parts).findings if one.name == "embedder"]
        assert (found.state, "have no vector" in found.what or "127.0.0.1" in found.what) == ("warn", True)
