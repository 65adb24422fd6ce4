"""Many users of one Redis server at once; what it holds, and for how long."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offprompt.protocols import run
from offprompt.records import EraseSlots, GetSlot, ListSlots, PutSlot, Scope, SlotQuery, SweepSlots
from offprompt.stores import redis as redis_module
from offprompt.stores.redis import RedisStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE, BOB, erase, forget, get, history, names_of, put, restore, sweep, value_of
from tests.servers import redis_url

HERE = Path(__file__).parent


@pytest.fixture(params=["redis_server", "valkey_server"])
def url(request: pytest.FixtureRequest) -> str:
    return f"{redis_url(request.getfixturevalue(request.param))}?prefix=u{uuid.uuid4().hex[:12]}"


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(url: str, clock: MovedClock) -> Iterator[RedisStore]:
    store = RedisStore(url, clock=clock, busy_timeout_s=20)
    yield store
    store.close()


def test_4_processes_count_one_slot_up_together(url: str, store: RedisStore) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, str(HERE / "redis_writer.py"), url]
    programs = [subprocess.Popen([*command, f"u{n}", "40"], stdout=pipe, stderr=pipe, text=True) for n in range(4)]
    said = [program.communicate() for program in programs]
    assert [error for _, error in said] == [""] * 4
    counted = [int(line) for output, _ in said for line in output.splitlines()]
    assert sorted(counted) == list(range(1, 161))
    assert value_of(store, "数", Scope(shared=True)) == 160
    assert [version.version for version in history(store, "own0", Scope(user="u3"))] == list(range(1, 9))
    assert len(store.events(op="slot.write")) == 320


def test_threads_that_write_one_scope_all_get_through(store: RedisStore) -> None:
    def work(number: int) -> None:
        for turn in range(10):
            store.batch([PutSlot(ALICE, f"n{number}", turn, "by_handle"), PutSlot(BOB, "last", number, "by_handle")])
            run(store, GetSlot(ALICE, f"n{number}", touch=True))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.flush()
    slots = run(store, ListSlots(SlotQuery(ALICE, "exact")))
    assert [(slot.version, slot.uses) for slot in slots] == [(10, 10)] * 6
    last = get(store, "last", BOB)
    assert last is not None
    assert last.version == 60
    assert len(store.events(op="slot.read")) == 60


def test_a_fork_takes_no_waiting_uses_along(store: RedisStore) -> None:
    put(store, "a", 1)
    get(store, "a", touch=True)
    child = os.fork()
    if child == 0:
        code = 1  # The child must not run the rest of the test session.
        try:
            slot = get(store, "a", touch=True)
            put(store, "b", 2)
            store.close()
            code = 0 if slot is not None and slot.uses == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    put(store, "c", 3)
    slot = get(store, "a")
    assert slot is not None
    assert (slot.uses, names_of(store)) == (2, ["a", "b", "c"])


def test_a_slot_is_alive_by_its_users_clock_alone(store: RedisStore, clock: MovedClock) -> None:
    put(store, "a", "值", ttl_s=60)
    put(store, "b", 1, ttl_s=60, sliding=True)
    clock.move(59.5)
    assert get(store, "b", touch=True) is not None
    clock.move(0.5)
    assert (get(store, "a"), value_of(store, "b")) == (None, 1)
    clock.move(-30)
    assert value_of(store, "a") == "值"
    clock.move(-(10 * 365 * 86400))
    assert names_of(store) == ["a", "b"]
    clock.move(20 * 365 * 86400)
    assert names_of(store) == []
    clock.move(-(10 * 365 * 86400))
    assert value_of(store, "a") == "值"


def test_the_server_removes_no_slot_by_itself(store: RedisStore) -> None:
    put(store, "a", 1, ttl_s=0.5)
    put(store, "a", 2)
    forget(store, "a")
    call = store._server.call
    keys = [key for key in call("KEYS", f"{store._keys.prefix}:*") if b":writer:" not in key]
    assert {call("PTTL", key) for key in keys} == {-1}


def test_a_sweep_goes_in_steps_and_leaves_the_rest(
    store: RedisStore, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_module, "SWEPT_AT_ONCE", 3)
    for number in range(7):
        put(store, f"n{number}", number, Scope(user=f"u{number}"), ttl_s=60)
    put(store, "kept", 1, ttl_s=600)
    put(store, "hidden", 1)
    forget(store, "hidden")
    clock.move(60)
    assert sweep(store) == 7
    assert [event.why for event in store.events(op="slot.sweep")] == ["3 slots", "3 slots", "1 slots"]
    assert names_of(store) == ["kept"]
    assert restore(store, "hidden").value == 1
    forget(store, "hidden")
    assert store.batch([SweepSlots(undo_s=0), SweepSlots()]) == [1, 0]


def test_nothing_is_left_of_who_is_erased(store: RedisStore) -> None:
    for scope in (ALICE, ALICE.narrow(session="s{1}/2")):
        put(store, "a", "first", scope, ttl_s=60)
        put(store, "a", "second", scope)
    put(store, "b", 1, BOB)
    forget(store, "a")
    assert erase(store, scope=ALICE, within="subtree") == 2
    assert not [key for key in store._server.call("KEYS", f"{store._keys.prefix}:*") if b"alice" in key]
    members = store._server.call("ZRANGE", store._keys.app("default", "expiry"), 0, -1)
    assert members == []
    assert [finding.state for finding in store.check() if finding.name != "clock"].count("ok") == 7
    assert names_of(store, BOB) == ["b"]


def test_an_agents_slots_are_erased_from_all_its_users(store: RedisStore) -> None:
    for number in range(5):
        put(store, "a", number, Scope(user=f"u{number}", agent="bot"))
        put(store, "a", number, Scope(user=f"u{number}"))
    put(store, "a", 1, Scope(agent="bot"))
    put(store, "a", 1, Scope("other", agent="bot"))
    assert run(store, EraseSlots(Scope(agent="bot"), within="subtree")) == 6
    assert len(run(store, ListSlots(SlotQuery(Scope(shared=True), "subtree")))) == 5


def test_reads_of_one_slot_are_one_round_trip(store: RedisStore) -> None:
    put(store, "a", 1)
    server: Any = store._server
    send, asked = server._send, list[Any]()

    def count(*command: Any) -> Any:
        asked.append(command)
        return send(*command)

    server._send = count
    store._touches.drop(0)
    get(store, "a")
    get(store, "a", touch=True)
    run(store, ListSlots(SlotQuery(ALICE.narrow(agent="x", session="s"))))
    assert len(asked) == 3
    asked.clear()
    put(store, "a", 2)
    assert len(asked) == 2
    server._send = send
