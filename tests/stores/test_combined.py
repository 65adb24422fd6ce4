"""Slots on a Redis server, all the rest in a file: one log of events, each event once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from offprompt.errors import BackendError
from offprompt.protocols import SlotStore, apply, run
from offprompt.records import Event, GetSlot, LogMemoryEvents, Scope
from offprompt.stores import combined
from offprompt.stores.combined import CombinedSlots
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.redis import RedisStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE, forget, put
from offprompt.testing.suites import SlotStoreSuite
from tests import servers
from tests.servers import Server, redis_url


@pytest.fixture
def url(valkey_server: Server) -> str:
    return f"{redis_url(valkey_server)}?prefix=c{uuid.uuid4().hex[:12]}"


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def log(clock: MovedClock, tmp_path: Path) -> Iterator[SqliteStore]:
    log = SqliteStore(tmp_path / "agent.db", clock=clock)
    yield log
    log.close()


@pytest.fixture
def store(clock: MovedClock, url: str, log: SqliteStore) -> Iterator[CombinedSlots]:
    store = CombinedSlots(RedisStore(url, clock=clock), log)
    yield store
    store.close()


class TestSlots(SlotStoreSuite):
    """SlotStore."""


def test_it_has_its_role(store: CombinedSlots) -> None:
    assert isinstance(store, SlotStore)


def test_one_log_has_the_events_of_slots_and_memories(store: CombinedSlots, log: SqliteStore) -> None:
    put(store, "城市", "里斯本")
    apply(log, LogMemoryEvents((Event(5.0, ALICE, "memory.recall"),)))
    run(store, GetSlot(ALICE, "城市", touch=True))
    assert [event.op for event in store.events(scope=ALICE)] == ["memory.recall", "slot.write", "slot.read"]
    forget(store, "城市")
    assert [event.op for event in store.events()][3:] == ["slot.forget"]
    assert [event.seq for event in store.events()] == [1, 2, 3, 4]
    assert store.slots.log_page(0) == []


def test_a_server_that_comes_back_empty_has_a_log_of_its_own(log: SqliteStore, clock: MovedClock) -> None:
    """Those that had it open, and those that open it now, move its events under one name."""
    with servers.running(servers.valkey("--appendonly", "no")) as server:
        before = CombinedSlots(RedisStore(redis_url(server), clock=clock), log)
        put(before, "a", 1)
        assert before.move_events() == 1
        server.kill()
        server.start()
        put(before, "a", 2)
        now = CombinedSlots(RedisStore(redis_url(server), clock=clock), log)
        assert before.slots.log_id == now.slots.log_id
        assert (now.move_events(), before.move_events()) == (1, 0)
        assert [event.version for event in now.events()] == [1, 1]
        now.close()
        before.close()


def test_what_doctor_finds_is_said_to_be_of_the_slots(store: CombinedSlots) -> None:
    put(store, "a", 1)
    found = {finding.name: finding.what for finding in store.check()}
    assert found["slots events"] == "1 events wait to be moved to the log of the memories' engine"
    assert all(name.startswith("slots ") for name in found)


def test_events_that_nobody_reads_do_not_pile_up(store: CombinedSlots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined, "MOVED_AFTER", 5)
    for turn in range(12):
        put(store, "a", turn)
    assert len(store.slots.log_page(0)) == 2


def test_a_write_does_not_fail_because_the_log_is_away(
    url: str, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combined, "MOVED_AFTER", 1)
    store = CombinedSlots(RedisStore(url, clock=clock), Away(clock))
    assert put(store, "a", 1).version == 1
    with pytest.raises(BackendError):
        store.events()
    store.close()


class Away(InProcessStore):
    """It takes no notes."""

    def set_note(self, name: str, text: str | None, *, was: str | None, events: Sequence[Event] = ()) -> bool:  # noqa: ARG002 - it never gets there
        raise BackendError("away")


class Dying(SqliteStore):
    """Its process is killed when the events are stored, and the slots' engine does not know it yet."""

    def set_note(self, name: str, text: str | None, *, was: str | None, events: Sequence[Event] = ()) -> bool:
        super().set_note(name, text, was=was, events=events)
        raise KeyboardInterrupt


def test_a_killed_mover_leaves_each_event_once(url: str, log: SqliteStore, clock: MovedClock, tmp_path: Path) -> None:
    slots = RedisStore(url, clock=clock)
    put(slots, "a", 1)
    put(slots, "b", 2)
    dying = Dying(tmp_path / "agent.db", clock=clock)
    with pytest.raises(KeyboardInterrupt):
        CombinedSlots(slots, dying).move_events()
    assert len(slots.log_page(0)) == 2
    put(slots, "c", 3)
    store = CombinedSlots(slots, log)
    assert store.move_events() == 1
    assert [event.name for event in store.events()] == ["a", "b", "c"]
    dying.close()
    store.close()


def test_many_movers_move_each_event_once(url: str, clock: MovedClock, tmp_path: Path) -> None:
    moved: list[int] = []

    def move(number: int) -> None:
        log = SqliteStore(tmp_path / "agent.db", clock=clock)
        store = CombinedSlots(RedisStore(url, clock=clock), log)
        for name in range(10):
            put(store, f"n{number}.{name}", name, Scope(user=f"u{number}"))
            moved.append(store.move_events())
        store.close()
        log.close()

    threads = [threading.Thread(target=move, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log: Any = SqliteStore(tmp_path / "agent.db", clock=clock)
    names = [event.name for event in log.events()]
    assert sorted(names) == sorted(f"n{number}.{name}" for number in range(4) for name in range(10))
    assert sum(moved) == 40
    log.close()
