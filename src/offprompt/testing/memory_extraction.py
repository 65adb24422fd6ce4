"""Conformance: turns that a language model has read, and facts that it puts in the place of others."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import pytest

from offprompt.errors import ConflictError
from offprompt.protocols import MemoryStore, apply
from offprompt.records import PENDING, AddMemory, MarkExtracted, Memory, ScopeRevisions
from offprompt.testing.kit import ALICE, BOB, Suite
from offprompt.testing.memory_kit import add, added, all_states, forget, get, memory_of, outcomes, restore, update


def mark(store: MemoryStore, *turns: Memory, by: str = "extract-1.en") -> None:
    """Note that turns were read as they are here."""
    apply(store, MarkExtracted(ALICE, tuple((turn.memory_id, turn.version) for turn in turns), by))


def turn(store: MemoryStore, text: str) -> Memory:
    """A stored turn."""
    return added(store, text, kind="episode")


class MemoryExtraction(Suite):
    """A turn is read once, with what is made of it, and what it replaces gives way by the rule."""

    def test_a_turn_is_marked_once_and_nothing_else_of_it_changes(self, store: MemoryStore) -> None:
        one = turn(store, "I moved")
        mark(store, one)
        marked = get(store, one.memory_id)
        assert marked is not None
        assert (marked.extracted, marked.version, marked.revision) == ("extract-1.en", one.version, one.revision)
        assert apply(store, ScopeRevisions((ALICE,))) == (one.revision,)
        with pytest.raises(ConflictError, match="meanwhile"):
            mark(store, one)

    def test_what_was_made_of_a_turn_that_was_read_meanwhile_is_not_stored(self, store: MemoryStore) -> None:
        one, two = turn(store, "one"), turn(store, "two")
        mark(store, two)
        marks = MarkExtracted(ALICE, ((one.memory_id, 1), (two.memory_id, 1)), "extract-1.en")
        with pytest.raises(ConflictError):
            store.apply([AddMemory(memory_of("made of both")), marks])
        assert all_states(store) == {"one": "live", "two": "live"}
        assert [row.extracted for row in (get(store, one.memory_id), get(store, two.memory_id)) if row] == [
            "",
            "extract-1.en",
        ]

    def test_a_pending_turn_is_read_later(self, store: MemoryStore) -> None:
        one = turn(store, "one")
        mark(store, one, by=PENDING)
        mark(store, one)
        assert (get(store, one.memory_id) or one).extracted == "extract-1.en"

    def test_only_live_turns_of_the_scope_as_they_were_read(self, store: MemoryStore) -> None:
        hidden, changed, fact, bobs = turn(store, "a"), turn(store, "b"), added(store, "c"), add(store, "d", BOB).memory
        forget(store, hidden.memory_id)
        update(store, changed.memory_id, metadata={"a": 1})
        assert bobs is not None
        for one in (hidden, changed, fact, bobs, memory_of("nowhere")):
            with pytest.raises(ConflictError):
                mark(store, one)

    def test_a_fact_without_an_attribute_gives_way_to_what_replaces_it(self, store: MemoryStore) -> None:
        old = added(store, "works at a bakery", event_at=5.0)
        new = memory_of("works at a school", event_at=9.0)
        done = apply(store, AddMemory(new, replaces=(old.memory_id, "m_none")))
        assert done.replaced == (old.memory_id,)
        was = get(store, old.memory_id)
        assert was is not None
        assert (was.state, was.superseded_by, was.state_at) == ("superseded", new.memory_id, 9.0)
        assert outcomes(store, old.memory_id)[-1] == (1, "works at a bakery", "superseded")
        forget(store, new.memory_id)
        assert all_states(store) == {"works at a bakery": "superseded", "works at a school": "forgotten"}
        restore(store, new.memory_id)
        assert all_states(store)["works at a school"] == "live"

    def test_what_merges_replaces_too(self, store: MemoryStore) -> None:
        old, twin = added(store, "old", event_at=5.0), added(store, "same", event_at=6.0)
        done = apply(store, AddMemory(memory_of("same", event_at=9.0), replaces=(old.memory_id, twin.memory_id)))
        assert (done.outcome, done.replaced) == ("merged", (old.memory_id,))
        assert all_states(store) == {"old": "superseded", "same": "live"}

    def test_the_greater_stays(self, store: MemoryStore) -> None:
        users, later = added(store, "the user's", event_at=1.0), added(store, "later", event_at=50.0)
        topic = added(store, "lives in Oslo", subject="user", attribute="home")
        ids = (users.memory_id, topic.memory_id)
        assert not apply(store, AddMemory(memory_of("a tool's", trust="tool", event_at=90.0), replaces=ids)).replaced
        assert not apply(store, AddMemory(memory_of("before", event_at=2.0), replaces=(later.memory_id,))).replaced
        bobs = added(store, "Bob's", BOB)
        assert not apply(store, AddMemory(memory_of("hers", event_at=99.0), replaces=(bobs.memory_id,))).replaced
        assert set(all_states(store).values()) == {"live"}
