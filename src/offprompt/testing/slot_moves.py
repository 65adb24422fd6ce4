"""Conformance: slots that move to another id of the same person."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from typing import Any

from offprompt.protocols import SlotStore, run
from offprompt.records import Moved, MoveSlots, Scope, SlotLimits
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite, forget, get, history, names_of, put, restore, value_of

OLD = Scope(user="alice@old")


def move(store: SlotStore, **options: Any) -> Moved:
    """Move the slots of the old id."""
    return run(store, MoveSlots("default", "alice@old", str(ALICE.user), **options))


class SlotMoves(Suite):
    """A slot moves whole, or stays."""

    def test_slots_move_with_versions_and_what_is_hidden(self, store: SlotStore) -> None:
        put(store, "City", "Porto", OLD)
        put(store, "City", "Lisbon", OLD, tags=("t",))
        put(store, "draft", 1, OLD.narrow(session="s"))
        put(store, "gone", 1, OLD)
        forget(store, "gone", OLD)
        put(store, "city", 1, BOB)
        assert move(store) == Moved(("City", "gone", "draft"), ())
        assert names_of(store, OLD, within="subtree") == []
        assert [version.value for version in history(store, "city")] == ["Porto", "Lisbon"]
        slot = get(store, "city")
        assert slot is not None
        assert (slot.scope, slot.version, slot.tags) == (ALICE, 2, ("t",))
        assert value_of(store, "draft", ALICE.narrow(session="s")) == 1
        assert restore(store, "gone").value == 1
        assert put(store, "City", "Faro", if_version=2).version == 3

    def test_a_name_that_is_taken_stays_until_it_is_free(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "City", "Lisbon", OLD)
        put(store, "diet", "none", OLD)
        put(store, "city", "Faro", ttl_s=60)
        assert move(store) == Moved(("diet",), ("City",))
        assert (value_of(store, "city"), value_of(store, "city", OLD)) == ("Faro", "Lisbon")
        clock.move(60)
        assert move(store) == Moved(("City",), ())
        assert value_of(store, "city") == "Lisbon"

    def test_a_split_value_moves_or_stays_with_all_its_parts(self, store: SlotStore) -> None:
        for scope in (OLD, OLD.narrow(agent="x")):
            put(store, "long", None, scope, parts=2)
            put(store, "long.1", "a", scope)
            put(store, "long.2", "b", scope)
        put(store, "long.2", "mine")
        assert move(store) == Moved(("long", "long.1", "long.2"), ("long", "long.1", "long.2"))
        assert names_of(store) == ["long.2"]
        assert names_of(store, ALICE.narrow(agent="x")) == ["long", "long.1", "long.2"]

    def test_a_preview_says_the_same_and_changes_nothing(self, store: Any) -> None:
        put(store, "city", "Lisbon", OLD)
        put(store, "diet", "none", OLD)
        put(store, "city", "Faro")
        before = len(store.events())
        assert move(store, preview=True) == Moved(("diet",), ("city",))
        assert (len(store.events()), names_of(store, OLD)) == (before, ["city", "diet"])

    def test_a_full_scope_takes_them(self, store: SlotStore) -> None:
        limits = SlotLimits(max_slots=1)
        put(store, "a", 1, limits=limits)
        put(store, "b", 1, OLD, limits=limits)
        assert move(store).moved == ("b",)
        assert names_of(store) == ["a", "b"]

    def test_what_is_over_does_not_move(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "a", 1, OLD, ttl_s=60)
        clock.move(60)
        assert move(store) == Moved()

    def test_a_move_leaves_one_event_without_a_value(self, store: Any) -> None:
        put(store, "a", "canary", OLD)
        move(store, actor="admin")
        event = store.events(op="slot.move")[0]
        assert (event.scope, event.name, event.actor, event.why) == (ALICE, "alice@old", "admin", "1 slots")
        assert "canary" not in repr(event)
