"""Conformance: what waits for a vector index that lies outside of the store."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from collections.abc import Callable

import pytest

from offprompt.errors import ConflictError
from offprompt.protocols import MemoryStore, apply
from offprompt.records import (
    AddMemory,
    DoneVectors,
    Indexed,
    IndexMemories,
    JoinUsers,
    PendingVectors,
    QueueVectors,
    Scope,
    UseMemories,
    WaitingVectors,
)
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite
from offprompt.testing.memory_kit import added, derived, erase, forget, home, memory_of, restore, sweep, update


def waiting(store: MemoryStore, app: str | None = None) -> list[str]:
    """Ids of what waits."""
    return list(apply(store, WaitingVectors(app)))


def told(store: MemoryStore) -> None:
    """The index has all that waits."""
    assert apply(store, DoneVectors(tuple(apply(store, PendingVectors(limit=10_000))))) == 0
    assert waiting(store) == []


class VectorQueue(Suite):
    """What is waiting in a store with a queue; each change of a memory is followed from its own transaction."""

    def test_what_changes_waits_once_with_what_it_is_now(self, store: MemoryStore) -> None:
        first = added(store, "a")
        second = added(store, "b", indexed=derived("m_" + "9" * 26), memory_id="m_" + "9" * 26)
        update(store, first.memory_id, tags=("t",))
        assert waiting(store) == [second.memory_id, first.memory_id]
        rows = apply(store, PendingVectors())
        assert [row.memory_id for row in rows] == [second.memory_id, first.memory_id]
        assert [row.indexed for row in rows] == [derived(second.memory_id), None]
        assert rows[1].memory is not None
        assert rows[1].memory.tags == ("t",)
        assert apply(store, PendingVectors(limit=1)) == rows[:1]
        told(store)

    @pytest.mark.parametrize("change", ["update", "forget", "restore", "archive", "index", "merge", "queue", "erase"])
    def test_each_change_that_recall_could_see_waits(self, store: MemoryStore, change: str) -> None:
        memory = added(store, "a", indexed=None)
        name = memory.memory_id
        if change == "restore":
            forget(store, name)
        told(store)
        changes: dict[str, Callable[[], object]] = {
            "update": lambda: update(store, name, text="b", digest="b"),
            "forget": lambda: forget(store, name),
            "restore": lambda: restore(store, name),
            "archive": lambda: update(store, name, archived=True),
            "index": lambda: apply(store, IndexMemories(ALICE, (derived(name),))),
            "merge": lambda: added(store, "a"),
            "queue": lambda: apply(store, QueueVectors("default", (name,))),
            "erase": lambda: erase(store, name),
        }
        changes[change]()
        assert waiting(store) == [name]
        assert (apply(store, PendingVectors())[0].memory is None) == (change == "erase")

    def test_what_is_superseded_with_it_waits_too(self, store: MemoryStore) -> None:
        old = home(store, "Porto", 1.0).memory
        told(store)
        new = home(store, "Lisbon", 2.0).memory
        assert old is not None
        assert new is not None
        assert sorted(waiting(store)) == sorted([old.memory_id, new.memory_id])

    def test_what_a_sweep_removes_waits(self, store: MemoryStore, clock: MovedClock) -> None:
        memory = added(store, "a", expires_at=clock.now() + 5)
        told(store)
        clock.move(5)
        apply(store, QueueVectors("default", (memory.memory_id,)))
        assert apply(store, PendingVectors())[0].memory is None
        told(store)
        sweep(store)
        assert waiting(store) == [memory.memory_id]

    def test_what_moves_to_another_user_waits(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        told(store)
        apply(store, JoinUsers("default", "alice@example.com", "bob"))
        row = apply(store, PendingVectors())[0]
        assert (row.memory_id, row.memory and row.memory.scope) == (memory.memory_id, BOB)

    def test_what_is_no_change_of_what_is_found_does_not_wait(self, store: MemoryStore) -> None:
        memory = added(store, "a", op_key="k")
        told(store)
        apply(store, UseMemories(ALICE, {memory.memory_id: 2}))
        update(store, memory.memory_id, text="a")
        added(store, "a", op_key="k")
        erase(store, "m_unknown")
        assert waiting(store) == []

    def test_a_failed_batch_leaves_nothing_waiting(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        told(store)
        with pytest.raises(ConflictError):
            store.apply([QueueVectors("default", (memory.memory_id,)), AddMemory(memory_of("b")), AddMemory(memory)])
        assert waiting(store) == []

    def test_apps_wait_apart(self, store: MemoryStore) -> None:
        other = added(store, "b", Scope("other", user="bob"))
        memory = added(store, "a")
        assert waiting(store) == [other.memory_id, memory.memory_id]
        assert (waiting(store, "other"), waiting(store, "none")) == ([other.memory_id], [])
        assert [row.app for row in apply(store, PendingVectors("other"))] == ["other"]

    def test_what_changed_while_the_index_was_told_goes_on_waiting(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        rows = tuple(apply(store, PendingVectors()))
        update(store, memory.memory_id, text="b", digest="b")
        assert apply(store, DoneVectors(rows)) == 1
        assert waiting(store) == [memory.memory_id]
        told(store)

    def test_two_that_tell_the_index_at_once_lose_no_change(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        slow = tuple(apply(store, PendingVectors()))
        update(store, memory.memory_id, text="b", digest="b")
        told(store)  # by somebody faster, who has the newer text
        assert apply(store, DoneVectors(slow)) == 1, "the slow one may have put the older text over it"
        told(store)
        apply(store, QueueVectors("default", (memory.memory_id,)))
        both = tuple(apply(store, PendingVectors()))
        assert [apply(store, DoneVectors(both)) for _ in range(2)] == [0, 0], "both told the same"
        assert waiting(store) == []

    def test_numbers_are_not_given_out_twice(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        first = apply(store, PendingVectors())[0].seq
        told(store)
        apply(store, QueueVectors("default", (memory.memory_id,)))
        assert apply(store, PendingVectors())[0].seq > first

    def test_a_memory_without_terms_waits_as_it_is(self, store: MemoryStore) -> None:
        memory = added(store, "a", indexed=Indexed("m_" + "8" * 26, 1, b""), memory_id="m_" + "8" * 26)
        assert apply(store, PendingVectors())[0].indexed == Indexed(memory.memory_id, 1, b"")
