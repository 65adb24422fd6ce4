"""Conformance: two ids of one person."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from typing import Any

import pytest

from offprompt.errors import ConflictError, UsageError
from offprompt.protocols import MemoryStore, apply
from offprompt.records import AddMemory, AliasesOf, JoinUsers, Scope, ScopeRevisions, UserOf
from offprompt.testing.kit import ALICE, BOB, Suite
from offprompt.testing.memory_kit import (
    add,
    added,
    all_states,
    derived,
    forget,
    found,
    get,
    home,
    memory_of,
    outcomes,
    page,
    restore,
    texts,
)

OLD = Scope(user="alice@old")


def join(store: MemoryStore, user: str = "alice@old", to: str = str(ALICE.user), **options: Any) -> int:
    """Join two ids."""
    return apply(store, JoinUsers("default", user, to, **options))


class MemoryJoins(Suite):
    """What was one id's is the other's, and stays found."""

    def test_an_id_stands_for_itself_until_it_is_joined(self, store: MemoryStore) -> None:
        assert apply(store, UserOf("default", "alice@old")) == "alice@old"
        assert join(store) == 0
        assert apply(store, UserOf("default", "alice@old")) == ALICE.user
        assert apply(store, UserOf("other", "alice@old")) == "alice@old"
        assert apply(store, AliasesOf("default", str(ALICE.user))) == ("alice@old",)

    def test_memories_move_with_all_that_belongs_to_them(self, store: MemoryStore) -> None:
        memory = memory_of("one", OLD)
        apply(store, AddMemory(memory, derived(memory.memory_id), "key"))
        agents = added(store, "two", OLD.narrow(agent="x"))
        hidden = added(store, "three", OLD)
        forget(store, hidden.memory_id, scope=OLD)
        add(store, "bob's", BOB)
        assert join(store) == 3
        assert (found(store, OLD), texts(store), texts(store, ALICE.narrow(agent="x"))) == ([], ["one"], ["two"])
        assert get(store, agents.memory_id) is not None
        assert [row[1] for row in page(store).rows] == [derived(memory.memory_id)]
        assert outcomes(store, memory.memory_id) == [(1, "one", "added")]
        again = apply(store, AddMemory(memory_of("other words"), None, "key"))
        assert (again.outcome, again.memory) == ("merged", get(store, memory.memory_id))
        assert restore(store, hidden.memory_id) == 1
        assert texts(store, BOB) == ["bob's"]

    def test_readers_of_both_scopes_see_it(self, store: MemoryStore) -> None:
        moved = added(store, "one", OLD)
        add(store, "two")
        old, new = apply(store, ScopeRevisions((OLD, ALICE)))
        join(store)
        assert (page(store, OLD, after=old).whole, page(store, OLD, after=old).rows) == (True, ())
        assert [row[0].memory_id for row in page(store, after=new).rows] == [moved.memory_id]

    def test_the_same_words_are_live_once(self, store: MemoryStore) -> None:
        add(store, "the same")
        twin = added(store, "the same", OLD)
        add(store, "a turn", OLD, kind="episode")
        add(store, "a turn", kind="episode")
        join(store)
        assert texts(store) == ["the same", "a turn", "a turn"]
        assert outcomes(store, twin.memory_id)[-1][2] == "superseded"

    def test_what_is_known_of_one_attribute_is_put_in_order(self, store: MemoryStore) -> None:
        home(store, "Lisbon", 20.0)
        home(store, "Porto", 10.0, scope=OLD)
        home(store, "Faro", 30.0, scope=OLD)
        join(store)
        states = {"lives in Lisbon": "superseded", "lives in Porto": "superseded", "lives in Faro": "live"}
        assert all_states(store) == states

    def test_a_preview_changes_nothing(self, store: Any) -> None:
        add(store, "one", OLD)
        before = len(store.events())
        assert join(store, preview=True) == 1
        assert (texts(store, OLD), texts(store), apply(store, UserOf("default", "alice@old"))) == (
            ["one"],
            [],
            "alice@old",
        )
        assert len(store.events()) == before

    def test_once_more_moves_what_came_meanwhile(self, store: MemoryStore) -> None:
        join(store)
        add(store, "late", OLD)
        assert (join(store), texts(store)) == (1, ["late"])

    def test_ids_are_joined_one_after_the_other(self, store: MemoryStore) -> None:
        add(store, "one", OLD)
        join(store)
        join(store, str(ALICE.user), "alice@new")
        assert apply(store, UserOf("default", "alice@old")) == "alice@new"
        assert apply(store, AliasesOf("default", "alice@new")) == tuple(sorted((str(ALICE.user), "alice@old")))
        assert texts(store, Scope(user="alice@new")) == ["one"]
        assert join(store, "third", "alice@old") == 0
        assert apply(store, UserOf("default", "third")) == "alice@new"

    def test_what_cannot_be_joined_is_refused_and_changes_nothing(self, store: MemoryStore) -> None:
        with pytest.raises(UsageError, match="the same id"):
            join(store, "bob", "bob")
        join(store)
        with pytest.raises(UsageError, match="already"):
            join(store, str(ALICE.user), "alice@old")
        with pytest.raises(ConflictError, match="already"):
            join(store, to="bob")
        assert apply(store, UserOf("default", "alice@old")) == ALICE.user

    def test_an_alias_leaves_one_event_without_a_text(self, store: Any) -> None:
        add(store, "canary", OLD)
        join(store, actor="admin")
        event = store.events(op="memory.alias")[0]
        assert (event.scope, event.name, event.actor, event.why) == (ALICE, "alice@old", "admin", "1 memories")
