"""Conformance: memories with what is derived from them, by id; facts by what they are about."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from offprompt.protocols import MemoryStore, apply
from offprompt.records import LoadMemories, QueueVectors, Scope, WaitingVectors
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite
from offprompt.testing.memory_kit import added, derived, forget, get, home, new_id, texts


class MemoryLoads(Suite):
    """What recall loads without loading a scope."""

    def test_memories_come_with_what_is_derived_in_the_order_of_the_ids(
        self, store: MemoryStore, clock: MovedClock
    ) -> None:
        name = new_id()
        first = added(store, "a", memory_id=name, indexed=derived(name))
        second, hidden = added(store, "b", BOB), added(store, "c")
        over = added(store, "d", expires_at=clock.now() + 1)
        added(store, "e", Scope("other", user="bob"))
        forget(store, hidden.memory_id)
        clock.move(1)
        names = (second.memory_id, hidden.memory_id, "m_unknown", name, over.memory_id, second.memory_id)
        pairs = apply(store, LoadMemories("default", names))
        assert pairs == [(second, None), (get(store, hidden.memory_id), None), (first, derived(name))]
        assert apply(store, LoadMemories("other", names)) == []
        assert apply(store, LoadMemories("default", ())) == []

    def test_a_list_may_hold_only_what_says_what_it_is_about(self, store: MemoryStore) -> None:
        added(store, "a")
        home(store, "Porto", 1.0)
        home(store, "Lisbon", 2.0)
        assert texts(store, about=True) == ["lives in Lisbon"]
        assert texts(store, ALICE, about=True, within="subtree", states=("superseded",)) == ["lives in Porto"]

    def test_nothing_waits_where_no_index_lies_outside(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        apply(store, QueueVectors("default", (memory.memory_id,)))
        assert apply(store, WaitingVectors()) == ()
