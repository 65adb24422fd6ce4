"""Conformance: memories that are added: stored, merged, superseded, refused."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offprompt.errors import ConflictError, LimitError, UsageError
from offprompt.protocols import MemoryStore, apply
from offprompt.records import MAX_MEMORY_CHARS, AddMemory, GetMemories, ListMemories, MemoryQuery, Scope
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite
from offprompt.testing.memory_kit import (
    add,
    added,
    all_states,
    erase,
    forget,
    found,
    get,
    home,
    memory_of,
    new_id,
    outcomes,
    texts,
)

PLACES = st.lists(
    st.tuples(st.sampled_from(["Rome", "Oslo", "上海"]), st.integers(1, 4), st.sampled_from(["user", "tool"])),
    min_size=1,
    max_size=6,
)
ENDINGS = st.lists(st.tuples(st.sampled_from(["Rome", "Oslo", "上海"]), st.integers(5, 8)), max_size=2)
UNFIT = [HealthCheck.differing_executors, HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_users = itertools.count()


class MemoryAdds(Suite):
    """AddMemory."""

    def test_a_memory_comes_back_as_it_was_given(self, store: MemoryStore) -> None:
        given = memory_of(
            "I moved to 上海 \x00 in May",
            role="user",
            speaker="Alice",
            session="s1",
            order=3,
            source="user",
            event_at=5.5,
            precision="month",
            expires_at=9e9,
            importance=0.75,
            tags=("home", "名"),
            metadata={"a": [1, 2.5, None, {"b": "名"}]},
            created_at=1.5,
            updated_at=1.5,
        )
        assert apply(store, AddMemory(given)).outcome == "added"
        stored = get(store, given.memory_id)
        assert stored == replace(given, revision=1)

    def test_what_is_returned_is_no_live_object(self, store: MemoryStore) -> None:
        metadata: dict[str, Any] = {"list": [1]}
        memory = added(store, "a", metadata=metadata)
        metadata["list"].append(2)
        memory.metadata["list"].append(3)
        again = get(store, memory.memory_id)
        assert again is not None
        assert again.metadata == {"list": [1]}

    def test_the_same_text_is_merged_and_counted(self, store: MemoryStore, clock: MovedClock) -> None:
        first = added(store, "likes tea", tags=("a",), metadata={"x": 1}, importance=0.2, expires_at=9e9)
        clock.move(5)
        more = add(store, "Likes Tea", tags=("b",), metadata={"x": 2, "y": 3}, importance=0.9, pinned=True)
        assert more.outcome == "merged"
        assert more.memory is not None
        assert (more.memory.memory_id, more.memory.text) == (first.memory_id, "likes tea")
        assert (more.memory.repeats, more.memory.importance, more.memory.pinned) == (1, 0.9, True)
        assert (more.memory.tags, more.memory.metadata) == (("a", "b"), {"x": 1, "y": 3})
        assert more.memory.expires_at is None
        assert texts(store) == ["likes tea"]
        assert [outcome for _, _, outcome in outcomes(store, first.memory_id)] == ["added", "merged"]

    def test_it_is_merged_within_its_scope_kind_and_attribute_only(self, store: MemoryStore) -> None:
        add(store, "a")
        assert add(store, "a", BOB).outcome == "added"
        assert add(store, "a", ALICE.narrow(agent="x")).outcome == "added"
        assert add(store, "a", kind="passage").outcome == "added"
        assert add(store, "a", subject="user", attribute="x").outcome == "added"
        assert len(found(store)) == 3

    def test_episodes_are_merged_by_their_key_only(self, store: MemoryStore) -> None:
        first = add(store, "ok", kind="episode", op_key="s1/1")
        again = add(store, "ok", kind="episode", op_key="s1/1")
        assert (first.outcome, again.outcome) == ("added", "merged")
        assert add(store, "ok", kind="episode", op_key="s1/2").outcome == "added"
        assert texts(store) == ["ok", "ok"]

    def test_a_write_that_comes_again_changes_nothing(self, store: MemoryStore) -> None:
        first = added(store, "a", op_key="k")
        again = add(store, "something else", op_key="k")
        assert again.memory == first
        assert texts(store) == ["a"]
        assert add(store, "b", BOB, op_key="k").outcome == "added"

    def test_a_key_leads_to_what_it_was_merged_into(self, store: MemoryStore) -> None:
        first = added(store, "a")
        add(store, "a", op_key="k")
        again = add(store, "b", op_key="k")
        assert again.memory is not None
        assert (again.memory.memory_id, again.memory.repeats) == (first.memory_id, 1)

    def test_it_is_merged_into_a_similar_one_that_is_still_there(self, store: MemoryStore) -> None:
        hidden, other, near = added(store, "hidden"), added(store, "theirs", BOB), added(store, "I like tea")
        about = added(store, "likes tea", subject="user", attribute="likes:tea")
        forget(store, hidden.memory_id)
        ids = (new_id(), hidden.memory_id, other.memory_id, about.memory_id, near.memory_id)
        more = add(store, "tea is what I like", similar=ids)
        assert more.outcome == "merged"
        assert more.memory is not None
        assert (more.memory.memory_id, more.memory.text, more.memory.repeats) == (near.memory_id, "I like tea", 1)
        assert add(store, "tea", similar=ids[:4]).outcome == "added"

    def test_what_is_hidden_takes_nothing_in(self, store: MemoryStore) -> None:
        forget(store, added(store, "a").memory_id)
        assert add(store, "a").outcome == "added"
        assert texts(store) == ["a"]

    def test_the_newer_statement_supersedes(self, store: MemoryStore) -> None:
        rome = home(store, "Rome", 10).memory
        oslo = home(store, "Oslo", 20)
        assert rome is not None
        assert oslo.memory is not None
        assert (oslo.outcome, oslo.replaced) == ("added", (rome.memory_id,))
        old = get(store, rome.memory_id)
        assert old is not None
        assert (old.state, old.state_at, old.superseded_by) == ("superseded", 20, oslo.memory.memory_id)
        assert texts(store) == ["lives in Oslo"]

    def test_an_older_statement_is_superseded_at_once(self, store: MemoryStore) -> None:
        home(store, "Oslo", 20)
        late = home(store, "Rome", 10)
        assert (late.outcome, late.replaced) == ("superseded", ())
        assert texts(store) == ["lives in Oslo"]

    def test_an_older_statement_that_comes_again_is_counted(self, store: MemoryStore) -> None:
        rome = home(store, "Rome", 10).memory
        home(store, "Oslo", 20)
        again = home(store, "Rome", 10)
        assert rome is not None
        assert again.memory is not None
        assert (again.outcome, again.memory.memory_id, again.memory.repeats) == ("superseded", rome.memory_id, 1)
        for other in (home(store, "Rome", 15), home(store, "Rome", 10, trust="tool")):
            assert other.memory is not None
            assert other.memory.memory_id != rome.memory_id
        assert home(store, "Rome", 30).outcome == "added"
        assert texts(store) == ["lives in Rome"]

    def test_only_what_is_contradicted_is_touched(self, store: MemoryStore) -> None:
        home(store, "Rome", 10)
        add(store, "works in Rome", subject="user", attribute="work", event_at=1.0)
        add(store, "Jack lives in Rome", subject="jack", attribute="home", event_at=1.0)
        add(store, "Rome is warm", event_at=1.0)
        home(store, "Rome", 5, scope=BOB)
        home(store, "Oslo", 20)
        assert texts(store) == ["works in Rome", "Jack lives in Rome", "Rome is warm", "lives in Oslo"]
        assert texts(store, BOB) == ["lives in Rome"]

    def test_what_ends_another_value_touches_nothing(self, store: MemoryStore) -> None:
        home(store, "Rome", 10)
        home(store, "Oslo", 20)
        late = home(store, "Rome no longer", 30, ends="Rome")
        assert (late.outcome, late.replaced) == ("superseded", ())
        assert texts(store) == ["lives in Oslo"]
        oslo = home(store, "Oslo no longer", 40, ends="oslo")
        assert (oslo.outcome, texts(store)) == ("added", ["lives in Oslo no longer"])

    def test_a_tool_cannot_replace_what_the_user_said(self, store: MemoryStore) -> None:
        home(store, "Rome", 10)
        assert home(store, "Oslo", 20, trust="tool").outcome == "superseded"
        assert texts(store) == ["lives in Rome"]
        assert home(store, "Bonn", 15).outcome == "added"

    def test_what_was_forgotten_does_not_bring_back_what_it_replaced(self, store: MemoryStore) -> None:
        home(store, "Rome", 10)
        oslo = home(store, "Oslo", 20).memory
        assert oslo is not None
        forget(store, oslo.memory_id)
        home(store, "Bonn", 5)
        assert texts(store) == []
        home(store, "Kyiv", 30)
        assert texts(store) == ["lives in Kyiv"]

    @settings(max_examples=40, deadline=None, suppress_health_check=UNFIT)
    @given(PLACES, ENDINGS, st.randoms(use_true_random=False))
    def test_the_order_of_arrival_does_not_matter(
        self, store: MemoryStore, places: Any, endings: Any, chance: Any
    ) -> None:
        said = [(place, at, trust, "") for place, at, trust in places]
        said += [(f"{place} no longer", at, "user", place) for place, at in endings]
        live: list[list[tuple[str, str]]] = []
        for _ in range(3):
            scope = Scope(user=f"order{next(_users)}")
            for place, at, trust, ends in said:
                home(store, place, at, scope=scope, trust=trust, ends=ends)
            live.append([(memory.text, memory.trust) for memory in found(store, scope)])
            chance.shuffle(said)
        assert len(live[0]) == 1
        assert live[0] == live[1] == live[2]

    def test_what_cannot_be_stored_is_refused_and_changes_nothing(self, store: MemoryStore) -> None:
        first = added(store, "a")
        shared = Scope(shared=True)
        wrong = [
            (AddMemory(memory_of("x" * (MAX_MEMORY_CHARS + 1))), LimitError, "20001 characters|20,001"),
            (AddMemory(memory_of(" \n")), UsageError, "says nothing"),
            (AddMemory(memory_of("b", memory_id=first.memory_id)), ConflictError, "already"),
            (AddMemory(memory_of("b", memory_id="other")), UsageError, "m_"),
            (AddMemory(memory_of("b", subject="user")), UsageError, "belong together"),
            (AddMemory(memory_of("b", shared, trust="tool")), ConflictError, "everyone"),
            (AddMemory(memory_of("b", metadata={"a": float("nan")})), UsageError, "not JSON"),
            (AddMemory(memory_of("b", metadata={"a": {1, 2}})), UsageError, "not JSON"),
            (AddMemory(memory_of("b", event_at=float("nan"))), UsageError, "event_at=nan"),
            (AddMemory(memory_of("b", expires_at=float("inf"))), UsageError, "expires_at=inf"),
            (AddMemory(memory_of("b", importance=99.0)), UsageError, "importance=99"),
            (AddMemory(memory_of("b", repeats=-1)), UsageError, "repeats=-1"),
            (AddMemory(memory_of("b", uses=10**30)), UsageError, "uses=1"),
        ]
        for op, kind, says in wrong:
            with pytest.raises(kind, match=says):
                store.apply([AddMemory(memory_of("before")), op])
        assert all_states(store) == {"a": "live"}
        assert found(store, shared) == []

    def test_half_a_character_is_stored_as_a_mark(self, store: MemoryStore) -> None:
        assert added(store, "half \ud83d", speaker="\ud83d").text == "half ?"

    def test_other_apps_and_scopes_are_not_seen(self, store: MemoryStore) -> None:
        theirs = added(store, "a", Scope("other", user="alice@example.com"))
        assert get(store, theirs.memory_id) is None
        assert get(store, theirs.memory_id, "other") == theirs
        shared, agent = Scope(shared=True), ALICE.narrow(agent="x")
        add(store, "for all", shared)
        add(store, "mine", ALICE)
        add(store, "agent's", agent)
        add(store, "bob's", BOB)
        assert texts(store, agent, within="inherit") == ["for all", "mine", "agent's"]
        assert texts(store, ALICE, within="inherit") == ["for all", "mine"]
        assert texts(store, ALICE, within="subtree") == ["mine", "agent's"]
        assert texts(store, ALICE, within="exact") == ["mine"]

    def test_a_batch_sees_its_own_writes_and_is_stored_whole(self, store: MemoryStore) -> None:
        one, two = memory_of("one"), memory_of("two")
        results = store.apply([AddMemory(one), AddMemory(two), GetMemories("default", (two.memory_id, one.memory_id))])
        assert [memory.text for memory in results[2]] == ["two", "one"]
        assert store.apply([]) == []
        with pytest.raises(UsageError, match="is not an op of a MemoryStore"):
            store.apply([AddMemory(memory_of("three")), "nonsense"])  # type: ignore[list-item]
        assert texts(store) == ["one", "two"]

    def test_threads_that_add_the_same_at_once_store_one(self, store: MemoryStore) -> None:
        start = threading.Barrier(6)

        def work() -> None:
            start.wait()
            add(store, "the same")

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (one,) = found(store)
        assert one.repeats == 5

    def test_lists_narrow_and_go_on_page_by_page(self, store: MemoryStore) -> None:
        memories = [added(store, f"t{n}", session=f"s{n % 2}", event_at=float(n)) for n in range(7)]
        ids = [memory.memory_id for memory in memories]
        assert texts(store, session="s1") == ["t1", "t3", "t5"]
        assert texts(store, since=2.0, until=4.0) == ["t2", "t3"]
        assert texts(store, kinds=("passage",)) == []
        assert texts(store, ids=(ids[5], ids[1], "m_gone")) == ["t1", "t5"]
        assert texts(store, limit=3) == ["t0", "t1", "t2"]
        assert texts(store, limit=3, after=ids[2]) == ["t3", "t4", "t5"]
        assert texts(store, limit=0) == []
        several = apply(store, ListMemories(MemoryQuery(ALICE, "inherit", limit=2, after=ids[4])))
        assert [memory.text for memory in several] == ["t5", "t6"]
        erase(store)
        assert found(store) == []
