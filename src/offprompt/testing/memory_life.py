"""Conformance: memories that change, are hidden, removed, expire; what is derived from them; events."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from typing import Any

import pytest

from offprompt.errors import ConflictError, LimitError, NotFoundError, UsageError
from offprompt.protocols import MemoryStore, apply
from offprompt.records import (
    MAX_MEMORY_CHARS,
    Event,
    IndexMemories,
    LogMemoryEvents,
    Measured,
    MeasureMemories,
    MemoryScopes,
    Scope,
    ScopeRevisions,
    Unindexed,
    UseMemories,
)
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite
from offprompt.testing.memory_kit import (
    add,
    added,
    all_states,
    derived,
    erase,
    forget,
    found,
    get,
    home,
    new_id,
    outcomes,
    page,
    restore,
    sweep,
    texts,
    update,
)

DAY = 86400.0


class MemoryLife(Suite):
    """All other ops."""

    def test_an_update_changes_what_it_names(self, store: MemoryStore, clock: MovedClock) -> None:
        memory = added(store, "a", metadata={"x": 1, "y": 2}, tags=("t",), event_at=5.0)
        clock.move(3)
        now = update(store, memory.memory_id, text="b", digest="b", metadata={"x": None, "z": 3}, actor="bob")
        assert (now.text, now.digest, now.metadata, now.version) == ("b", "b", {"y": 2, "z": 3}, 2)
        assert (now.tags, now.event_at, now.updated_at) == (("t",), 5.0, clock.now())
        assert outcomes(store, memory.memory_id) == [(1, "a", "added"), (2, "b", "updated")]
        now = update(store, memory.memory_id, tags=(), importance=0.9, pinned=True, event_at=None, expires_at=9e9)
        assert (now.tags, now.importance, now.pinned, now.event_at, now.expires_at) == ((), 0.9, True, None, 9e9)
        assert now.version == 2

    def test_an_update_that_changes_nothing_leaves_no_trace(self, store: MemoryStore) -> None:
        memory = added(store, "a", metadata={"x": 1})
        assert update(store, memory.memory_id, text="a", metadata={"x": 1}) == memory
        assert len(outcomes(store, memory.memory_id)) == 1

    def test_an_update_may_ask_for_the_version(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        update(store, memory.memory_id, text="b", digest="b", if_version=1)
        with pytest.raises(ConflictError, match="has version 2, not 1"):
            update(store, memory.memory_id, text="c", digest="c", if_version=1)

    def test_an_update_of_what_cannot_be_changed_is_an_error(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        rome = home(store, "Rome", 1).memory
        home(store, "Oslo", 2)
        assert rome is not None
        cases: list[tuple[type[Exception], str, str, dict[str, Any]]] = [
            (NotFoundError, "no such memory", new_id(), {}),
            (NotFoundError, "no such memory", memory.memory_id, {"scope": BOB}),
            (NotFoundError, "newer one stands", rome.memory_id, {}),
            (ConflictError, "tool's output", memory.memory_id, {"trust": "tool"}),
            (UsageError, "says nothing", memory.memory_id, {"text": " "}),
            (LimitError, "characters", memory.memory_id, {"text": "x" * (MAX_MEMORY_CHARS + 1)}),
            (UsageError, "not JSON", memory.memory_id, {"metadata": {"x": float("inf")}}),
        ]
        for kind, says, memory_id, changes in cases:
            with pytest.raises(kind, match=says):
                update(store, memory_id, changes.pop("scope", ALICE), **{"text": "b", "digest": "b", **changes})
        forget(store, memory.memory_id)
        with pytest.raises(NotFoundError, match="it was forgotten"):
            update(store, memory.memory_id, text="b", digest="b")

    def test_a_new_time_puts_an_attribute_in_order(self, store: MemoryStore) -> None:
        home(store, "Rome", 10)
        oslo = home(store, "Oslo", 20).memory
        assert oslo is not None
        assert update(store, oslo.memory_id, event_at=5.0).state == "superseded"
        assert texts(store) == ["lives in Rome"]

    def test_archived_is_out_of_recall_and_comes_back(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        assert update(store, memory.memory_id, archived=True).state == "archived"
        assert texts(store) == []
        assert texts(store, states=("archived",)) == ["a"]
        assert page(store).rows == ()
        forget(store, memory.memory_id)
        restore(store, memory.memory_id)
        assert all_states(store) == {"a": "archived"}
        assert update(store, memory.memory_id, archived=False).state == "live"
        assert [outcome for _, _, outcome in outcomes(store, memory.memory_id)] == [
            "added",
            "archived",
            "forgotten",
            "restored",
            "restored",
        ]

    def test_a_forget_hides_and_can_be_undone(self, store: MemoryStore, clock: MovedClock) -> None:
        one, two = added(store, "one"), added(store, "two")
        assert forget(store, one.memory_id, two.memory_id, one.memory_id, new_id()) == 2
        assert forget(store, one.memory_id) == 0
        assert texts(store) == []
        assert outcomes(store, one.memory_id) == [(1, "", "added"), (1, "", "forgotten")]
        clock.move(7 * DAY - 1)
        assert restore(store, one.memory_id) == 1
        assert texts(store) == ["one"]
        assert restore(store, one.memory_id) == 0
        clock.move(1)
        assert restore(store, two.memory_id) == 0

    def test_a_forget_of_another_scope_or_by_a_tool_does_nothing(self, store: MemoryStore) -> None:
        memory = added(store, "a")
        assert forget(store, memory.memory_id, scope=BOB) == 0
        with pytest.raises(ConflictError, match="let the user ask"):
            forget(store, memory.memory_id, trust="tool")
        assert texts(store) == ["a"]
        forget(store, memory.memory_id)
        assert restore(store, memory.memory_id, scope=BOB) == 0

    def test_what_comes_back_stands_where_it_stood(self, store: MemoryStore) -> None:
        rome, oslo = home(store, "Rome", 10).memory, home(store, "Oslo", 20).memory
        assert rome is not None
        assert oslo is not None
        forget(store, rome.memory_id, oslo.memory_id)
        restore(store, rome.memory_id)
        assert texts(store) == []
        restore(store, oslo.memory_id)
        assert texts(store) == ["lives in Oslo"]

    def test_an_erase_removes_every_trace(self, store: MemoryStore) -> None:
        one = added(store, "one", op_key="k", indexed=None)
        apply(store, IndexMemories(ALICE, (derived(one.memory_id),)))
        add(store, "two", ALICE.narrow(agent="x"))
        assert erase(store, one.memory_id, scope=BOB) == 0
        assert erase(store, one.memory_id, new_id()) == 1
        assert get(store, one.memory_id) is None
        assert outcomes(store, one.memory_id) == []
        assert page(store).rows == ()
        assert add(store, "another", op_key="k").outcome == "added"
        assert erase(store) == 1
        assert texts(store, within="subtree") == ["two"]
        assert erase(store, within="subtree") == 1
        assert texts(store, within="subtree") == []

    def test_what_expired_is_not_there(self, store: MemoryStore, clock: MovedClock) -> None:
        now = clock.now()
        brief = added(store, "brief", expires_at=now + 10)
        add(store, "pinned", expires_at=now + 10, pinned=True)
        clock.move(9)
        assert texts(store) == ["brief", "pinned"]
        clock.move(1)
        assert texts(store) == ["pinned"]
        assert texts(store, expired=True) == ["brief"]
        assert get(store, brief.memory_id) is None
        assert forget(store, brief.memory_id) == 0
        assert [memory.text for memory, _ in page(store).rows] == ["pinned"]
        assert add(store, "brief").outcome == "added"
        assert sweep(store) == 1
        assert sweep(store) == 0
        assert texts(store) == ["pinned", "brief"]

    def test_a_sweep_takes_what_was_hidden_long_ago(self, store: MemoryStore, clock: MovedClock) -> None:
        forget(store, added(store, "a").memory_id)
        clock.move(DAY)
        assert sweep(store) == 0
        clock.move(6 * DAY)
        assert sweep(store, app="other") == 0
        assert sweep(store) == 1

    def test_a_sweep_takes_idle_users_but_nothing_pinned(self, store: MemoryStore, clock: MovedClock) -> None:
        now = clock.now()
        used = added(store, "alice's", updated_at=now)
        add(store, "bob's", BOB, updated_at=now)
        add(store, "bob's pinned", BOB, updated_at=now, pinned=True)
        add(store, "for all", Scope(shared=True), updated_at=now)
        clock.move(DAY)
        apply(store, UseMemories(ALICE, {used.memory_id: 1}))
        assert sweep(store, idle_before=now + 1) == 1
        assert texts(store, BOB) == ["bob's pinned"]
        assert texts(store) == ["alice's"]
        assert texts(store, Scope(shared=True)) == ["for all"]

    def test_uses_are_counted(self, store: MemoryStore, clock: MovedClock) -> None:
        one, two = added(store, "one"), added(store, "two", BOB)
        clock.move(5)
        apply(store, UseMemories(ALICE, {one.memory_id: 2, two.memory_id: 1, new_id(): 1}))
        apply(store, UseMemories(ALICE, {one.memory_id: 1}))
        used = get(store, one.memory_id)
        assert used is not None
        assert (used.uses, used.used_at) == (3, clock.now())

    def test_pages_tell_what_changed(self, store: MemoryStore) -> None:
        one, two = added(store, "one"), added(store, "two")
        first = page(store)
        assert ([memory.text for memory, _ in first.rows], first.whole) == (["one", "two"], True)
        same = page(store, after=first.revision)
        assert (same.revision, same.whole, same.rows, same.gone) == (first.revision, False, (), ())
        update(store, one.memory_id, text="uno", digest="uno")
        forget(store, two.memory_id)
        more = page(store, after=first.revision)
        assert ([memory.text for memory, _ in more.rows], more.gone, more.whole) == (["uno"], (two.memory_id,), False)
        erase(store, one.memory_id)
        after = page(store, after=more.revision)
        assert (after.rows, after.whole) == ((), True)
        assert page(store, after=after.revision).whole is False
        assert page(store, BOB) == page(store, BOB, after=0)

    def test_revisions_are_of_exact_scopes(self, store: MemoryStore) -> None:
        agent = ALICE.narrow(agent="x")
        add(store, "a")
        add(store, "b", agent)
        add(store, "c", agent)
        assert apply(store, ScopeRevisions((ALICE, agent, BOB))) == (1, 2, 0)

    def test_what_is_derived_is_kept_with_its_version(self, store: MemoryStore) -> None:
        one = added(store, "one")
        assert page(store).rows[0][1] is None
        assert [memory.text for memory in apply(store, Unindexed("e"))] == ["one"]
        before = page(store).revision
        assert apply(store, IndexMemories(ALICE, (derived(one.memory_id), derived(new_id())))) == 1
        assert [pair[1] for pair in page(store, after=before).rows] == [derived(one.memory_id)]
        assert apply(store, Unindexed("e")) == []
        assert [memory.text for memory in apply(store, Unindexed("other"))] == ["one"]
        update(store, one.memory_id, text="uno", digest="uno")
        assert page(store).rows[0][1] is None
        assert apply(store, IndexMemories(ALICE, (derived(one.memory_id),))) == 0
        update(store, one.memory_id, text="un", digest="un", indexed=derived(one.memory_id, embedder=""))
        assert page(store).rows[0][1] == derived(one.memory_id, version=3, embedder="")
        assert [memory.text for memory in apply(store, Unindexed("e"))] == ["un"]

    def test_what_is_derived_stays_when_metadata_change(self, store: MemoryStore) -> None:
        one = added(store, "one")
        apply(store, IndexMemories(ALICE, (derived(one.memory_id),)))
        update(store, one.memory_id, metadata={"note": "新"})
        assert page(store).rows[0][1] == derived(one.memory_id, version=2)
        assert apply(store, Unindexed("e")) == []

    def test_the_unindexed_come_page_by_page_and_live_ones_only(self, store: MemoryStore, clock: MovedClock) -> None:
        memories = [added(store, f"t{n}") for n in range(4)]
        add(store, "bob's", BOB)
        add(store, "brief", expires_at=clock.now() + 1)
        forget(store, memories[1].memory_id)
        clock.move(1)
        first = apply(store, Unindexed("e", ALICE, limit=2))
        assert [memory.text for memory in first] == ["t0", "t2"]
        rest = apply(store, Unindexed("e", ALICE, after=first[-1].memory_id))
        assert [memory.text for memory in rest] == ["t3"]
        assert len(apply(store, Unindexed("e"))) == 4

    def test_scopes_that_hold_memories_are_listed(self, store: MemoryStore) -> None:
        agent, other = ALICE.narrow(agent="x"), Scope("other", user="u")
        for scope in (ALICE, ALICE, agent, other):
            add(store, f"{scope} {new_id()}", scope)
        forget(store, found(store)[0].memory_id)
        assert apply(store, MemoryScopes()) == [(ALICE, 1), (agent, 1), (other, 1)]
        assert apply(store, MemoryScopes(ALICE)) == [(ALICE, 1), (agent, 1)]

    def test_what_an_app_has_is_measured(self, store: MemoryStore) -> None:
        assert apply(store, MeasureMemories("default")) == Measured(0, 0)
        add(store, "one", ALICE)
        first = apply(store, MeasureMemories("default"))
        assert (first.count, first.bytes > 100) == (1, True)
        add(store, "一" * 1000, ALICE.narrow(agent="x"))
        add(store, "elsewhere", Scope("other", user="u"))
        both = apply(store, MeasureMemories("default"))
        assert (both.count, both.bytes - first.bytes > 3000) == (2, True)
        forget(store, found(store)[0].memory_id)
        assert apply(store, MeasureMemories("default")).count == 1

    def test_each_change_leaves_one_event_without_a_text(self, store: Any, clock: MovedClock) -> None:
        memory = added(store, "canary", actor="bob")
        add(store, "canary")
        update(store, memory.memory_id, text="canary two", digest="2")
        forget(store, memory.memory_id)
        restore(store, memory.memory_id)
        erase(store, memory.memory_id)
        forget(store, added(store, "canary").memory_id)
        clock.move(8 * DAY)
        sweep(store)
        apply(store, LogMemoryEvents((Event(clock.now(), ALICE, "memory.recall", name="q"),)))
        events = store.events(op="memory.")
        assert [event.op.partition(".")[2] for event in events] == [
            "add",
            "add",
            "update",
            "forget",
            "restore",
            "erase",
            "add",
            "forget",
            "sweep",
            "recall",
        ]
        assert [event.name for event in events[:6]] == [memory.memory_id] * 6
        assert (events[0].actor, events[0].bytes, events[2].version) == ("bob", 6, 2)
        assert "canary" not in repr(events)
