"""The worker does what waits, one of many at a time, and a killed one is followed by the next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import BackendError
from offprompt.protocols import apply
from offprompt.records import Unindexed
from offprompt.service import worker
from offprompt.service.checkup import checkup
from offprompt.service.worker import JOBS, LEASE_S, Ran, Worker, last_runs
from offprompt.testing import MovedClock

DAY = 86400.0


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def memory(clock: MovedClock, tmp_path: Path) -> Iterator[offprompt.Offprompt]:
    with offprompt.open(tmp_path / "agent.db", clock=clock, archive_after_days=30) as opened:
        yield opened


def ran(memory: offprompt.Offprompt, **given: Any) -> dict[str, Ran]:
    return {one.job: one for one in Worker(memory.parts, **given).run()}


def test_a_round_does_every_job_and_notes_it(memory: offprompt.Offprompt, clock: MovedClock) -> None:
    memory.scope(user="alice").write("brief", "晚点", ttl_s=10)
    assert [one.name for one in checkup(memory.parts).findings if one.name.startswith("worker")] == ["worker"]
    clock.move(20)
    done = ran(memory)
    assert list(done) == list(JOBS)
    assert done["sweep"] == Ran("sweep", clock.now(), 1)
    assert last_runs(memory.parts.main) == list(done.values())
    clock.move(5)
    said = {one.name: one for one in checkup(memory.parts).findings if one.name.startswith("worker")}
    assert said["worker sweep"].what == "ran 5 s ago, 1 done"
    assert ran(memory)["sweep"].done == 0


def test_what_was_long_unused_is_archived_and_comes_back(memory: offprompt.Offprompt, clock: MovedClock) -> None:
    alice = memory.scope(user="alice")
    old = alice.remember("I adore the opera house of Sydney.")[0].name
    alice.remember("我每天早上喝绿茶。", pinned=True)
    recalled = alice.remember("My dog is called Rex.")[0].name
    clock.move(29 * DAY)
    alice.remember("The meeting room is on the third floor.")
    assert alice.recall("what is the dog called?").hits[0].memory.memory_id == recalled
    memory.parts.memories.flush()
    assert ran(memory)["archive"].done == 0
    clock.move(2 * DAY)
    assert ran(memory)["archive"].done == 1
    assert "opera" not in " ".join(hit.text for hit in alice.recall("opera house of Sydney").hits)
    assert [one.memory_id for one in alice.memories.list(states=("archived",)).memories] == [old]
    alice.memories.update(old, archived=False)
    assert alice.recall("opera house of Sydney").hits[0].memory.memory_id == old
    assert ran(memory)["archive"].done == 0


def test_pages_of_a_scope_are_all_looked_at(
    memory: offprompt.Offprompt, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PAGE", 2)
    for number in range(5):
        memory.scope(user="alice").remember(f"Fact number {number} of the list.")
    memory.scope(user="bob", app="other").remember("Bob likes tea.")
    clock.move(31 * DAY)
    assert ran(memory)["archive"].done == 6


def test_memories_without_a_vector_get_one(clock: MovedClock, tmp_path: Path) -> None:
    with offprompt.open(tmp_path / "agent.db", clock=clock, embedder="none") as memory:
        memory.scope(user="alice").remember(["I moved to Lisbon.", "我养了一只狗。"])
    with offprompt.open(tmp_path / "agent.db", clock=clock) as memory:
        assert ran(memory)["embeddings"].done == 2
        embedder = memory.parts.memories.kit.embedder
        assert embedder is not None
        assert apply(memory.parts.main, Unindexed(embedder.name)) == []


def test_a_job_is_one_workers_until_its_lease_is_over(memory: offprompt.Offprompt, clock: MovedClock) -> None:
    other = memory.parts.coordinator
    assert other.lease("job sweep", "a worker that was killed", seconds=LEASE_S) is not None
    clock.move(LEASE_S - 1)
    assert ran(memory)["sweep"].skipped
    clock.move(1)
    assert not ran(memory)["sweep"].skipped
    assert other.lease("job sweep", "next", seconds=LEASE_S) is not None


def test_many_at_once_share_the_jobs(tmp_path: Path, clock: MovedClock) -> None:
    with offprompt.open(tmp_path / "agent.db", clock=clock) as memory:
        for number in range(30):
            memory.scope(user=f"u{number}").write("brief", number, ttl_s=1)
        clock.move(2)
        found: list[Ran] = []
        threads = [threading.Thread(target=lambda: found.extend(Worker(memory.parts).run())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(one.done for one in found if one.job == "sweep") == 30
        assert [one.error for one in found if one.error] == []


def test_an_error_ends_its_job_only_and_is_said(
    memory: offprompt.Offprompt, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_parts: object) -> Iterator[int]:
        yield 3
        raise BackendError("the disk is gone; bring it back")

    monkeypatch.setattr(worker, "JOBS", {"sweep": broken, **{name: JOBS[name] for name in JOBS if name != "sweep"}})
    done = ran(memory)
    assert done["sweep"] == Ran("sweep", clock.now(), 3, "the disk is gone; bring it back")
    assert done["archive"].error == ""
    finding = next(one for one in checkup(memory.parts).findings if one.name == "worker sweep")
    assert (finding.state, finding.what) == ("warn", "ran 0 s ago, 3 done, stopped by: the disk is gone; bring it back")


def test_a_store_that_fails_stops_nothing_but_the_job(
    memory: offprompt.Offprompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_given: object, **_named: object) -> None:
        raise BackendError("no answer; try again")

    with monkeypatch.context() as patch:
        patch.setattr(memory.parts.main, "set_note", away)
        assert {one.error for one in ran(memory).values()} == {"no answer; try again"}
    assert {one.error for one in ran(memory).values()} == {""}


def test_stop_ends_behind_the_slice(memory: offprompt.Offprompt, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, slices = threading.Event(), list[int]()

    def long(_parts: object) -> Iterator[int]:
        for number in range(10):
            slices.append(number)
            if number == 2:
                stop.set()
            yield 1

    monkeypatch.setattr(worker, "JOBS", {"sweep": long, "archive": long})
    assert [one.done for one in Worker(memory.parts, stop=stop).run()] == [3]
    assert slices == [0, 1, 2]
    assert memory.parts.coordinator.lease("job sweep", "next", seconds=1) is not None
