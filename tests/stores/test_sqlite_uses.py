"""Uses of slots wait in memory, and reach the file in time."""

from __future__ import annotations

from pathlib import Path

from offprompt.protocols import SlotStore, run
from offprompt.records import EraseSlots, GetSlot
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE, get, put


def uses_of(store: SlotStore, name: str) -> int:
    slot = get(store, name)
    assert slot is not None
    return slot.uses


def test_uses_wait_in_memory_and_long_slides_do_not(tmp_path: Path) -> None:
    path, clock = tmp_path / "agent.db", MovedClock()
    store, other = SqliteStore(path, clock=clock), SqliteStore(path, clock=clock)
    put(store, "v", 1, ttl_s=320, sliding=True)
    clock.move(9)
    read = [*store.batch([GetSlot(ALICE, "v", touch=True)] * 2), get(store, "v", touch=True)]
    assert [slot.uses for slot in read if slot is not None] == [1, 2, 3]
    seen = get(other, "v")
    assert seen is not None
    assert (seen.uses, seen.expires_at) == (0, clock.now() + 311)
    clock.move(1)
    get(store, "v", touch=True)
    seen = get(other, "v")
    assert seen is not None
    assert (seen.uses, seen.used_at, seen.expires_at) == (4, clock.now(), clock.now() + 320)
    store.close()
    other.close()


def test_256_waiting_uses_are_written(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    store, other = (SqliteStore(path, clock=MovedClock()) for _ in range(2))
    put(store, "v", 1)
    for _ in range(255):
        get(store, "v", touch=True)
    assert uses_of(other, "v") == 0
    get(store, "v", touch=True)
    assert uses_of(other, "v") == 256
    get(store, "v", touch=True)
    store.close()
    assert uses_of(other, "v") == 257
    other.close()


def test_waiting_uses_do_not_reach_a_slot_that_began_anew(tmp_path: Path) -> None:
    path, clock = tmp_path / "agent.db", MovedClock()
    store, other = SqliteStore(path, clock=clock), SqliteStore(path, clock=clock)
    put(store, "v", 1, ttl_s=320, sliding=True)
    clock.move(9)
    get(store, "v", touch=True)
    run(other, EraseSlots(ALICE))
    clock.move(1)
    put(other, "v", 2, ttl_s=5)
    assert uses_of(store, "v") == 0
    store.close()
    seen = get(other, "v")
    assert seen is not None
    assert (seen.uses, seen.expires_at) == (0, clock.now() + 5)
    other.close()
