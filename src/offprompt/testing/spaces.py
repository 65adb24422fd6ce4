"""Conformance: spaces stand alone in each engine, and what is granted is found with what is one's own."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from typing import Final

from offprompt.protocols import MemoryStore, SlotStore, apply
from offprompt.records import MemoryScopes, Scope, SlotQuery
from offprompt.records.scope import GrantedScope
from offprompt.testing.kit import ALICE, Suite, erase, found, names_of, put, value_of
from offprompt.testing.memory_kit import add, texts
from offprompt.testing.memory_kit import erase as erase_memories

LEGAL: Final = Scope(space="legal")
SHARED: Final = Scope(shared=True)
NOT_IN_IT: Final = (
    SHARED,
    ALICE,
    Scope(user="legal"),
    Scope(agent="legal"),
    Scope(session="legal"),
    Scope(user="legal", agent="legal", session="legal"),
    Scope(space="legal2"),
    Scope(space="法务"),
    Scope("other", space="legal"),
    Scope("other", shared=True),
)
"""Scopes from which what is in the space is not found, and whose records are not found from the space."""


class SlotSpaces(Suite):
    """Slots of a space."""

    def test_a_space_finds_its_own_slots_and_nobody_elses(self, store: SlotStore) -> None:
        put(store, "own", "law", LEGAL)
        for at, scope in enumerate(NOT_IN_IT):
            put(store, f"n{at}", str(scope), scope)
        for scope in NOT_IN_IT:
            for within in ("exact", "inherit"):
                assert LEGAL not in {slot.scope for slot in found(store, SlotQuery(scope, within))}
            if not scope.shared:
                assert LEGAL not in {slot.scope for slot in found(store, SlotQuery(scope, "subtree"))}
        for within in ("exact", "inherit", "subtree"):
            assert [(slot.scope, slot.value) for slot in found(store, SlotQuery(LEGAL, within))] == [(LEGAL, "law")]
        assert (value_of(store, "own", Scope(space="LEGAL")), value_of(store, "own", SHARED)) == ("law", ...)
        assert {event.scope for event in store.events(scope=LEGAL)} == {LEGAL}

    def test_an_erased_space_leaves_the_rest(self, store: SlotStore) -> None:
        put(store, "own", "law", LEGAL)
        for scope in NOT_IN_IT:
            put(store, "n", str(scope), scope)
        assert erase(store, scope=LEGAL, within="subtree") == 1
        assert names_of(store, LEGAL) == []
        assert [value_of(store, "n", scope) for scope in NOT_IN_IT] == [str(scope) for scope in NOT_IN_IT]

    def test_slots_of_what_is_granted_are_found_behind_ones_own(self, store: SlotStore) -> None:
        for scope in (LEGAL, SHARED):
            put(store, "rule", str(scope), scope)
        put(store, "only", "here", LEGAL)
        seen = GrantedScope.of(ALICE, [LEGAL])
        listed = found(store, SlotQuery(seen, "inherit"))
        assert {slot.name: slot.value for slot in listed} == {"rule": "space=legal", "only": "here"}
        put(store, "rule", "mine", seen)
        assert value_of(store, "rule", ALICE) == "mine"
        assert value_of(store, "rule", LEGAL) == "space=legal"


class MemorySpaces(Suite):
    """Memories of a space."""

    def test_a_space_finds_its_own_memories_and_nobody_elses(self, store: MemoryStore) -> None:
        for scope in (LEGAL, *NOT_IN_IT):
            add(store, f"of {scope.app} {scope}", scope)
        own = f"of default {LEGAL}"
        for scope in NOT_IN_IT:
            for within in ("exact", "inherit"):
                assert own not in texts(store, scope, within=within)
            assert (own in texts(store, scope, within="subtree")) is (scope == SHARED)
        for within in ("exact", "inherit", "subtree"):
            assert texts(store, LEGAL, within=within) == [own]
        assert apply(store, MemoryScopes(LEGAL)) == [(LEGAL, 1)]
        assert (LEGAL, 1) in apply(store, MemoryScopes(SHARED))

    def test_an_erased_space_leaves_the_rest(self, store: MemoryStore) -> None:
        for scope in (LEGAL, *NOT_IN_IT):
            add(store, f"of {scope.app} {scope}", scope)
        assert erase_memories(store, scope=LEGAL, within="subtree") == 1
        assert texts(store, LEGAL) == []
        assert [texts(store, scope) for scope in NOT_IN_IT] == [[f"of {scope.app} {scope}"] for scope in NOT_IN_IT]

    def test_memories_of_what_is_granted_are_found_with_ones_own(self, store: MemoryStore) -> None:
        for scope in (LEGAL, ALICE, SHARED, Scope(space="hr")):
            add(store, f"of {scope}", scope)
        assert set(texts(store, GrantedScope.of(ALICE, [LEGAL]), within="inherit")) == {
            f"of {scope}" for scope in (LEGAL, ALICE, SHARED)
        }
        assert set(texts(store, ALICE, within="inherit")) == {f"of {scope}" for scope in (ALICE, SHARED)}
