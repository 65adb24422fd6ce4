"""Conformance: expiry, sliding, sweep, forget and undo."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import pytest

from offprompt.errors import ConflictError, LimitError, NotFoundError
from offprompt.protocols import SlotStore, run
from offprompt.records import (
    EraseSlots,
    GetSlot,
    ListSecrets,
    Measured,
    MeasureSlots,
    Scope,
    Slot,
    SlotLimits,
    SlotQuery,
)
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import (
    ALICE,
    BOB,
    Suite,
    forget,
    found,
    get,
    history,
    names_of,
    put,
    restore,
    sweep,
    value_of,
)

DAY_S = 86400.0


class SlotLife(Suite):
    """What is over is not there, and what is hidden can be brought back for a while."""

    def test_ttl_ends_at_its_edge(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "v", "a", ttl_s=60)
        clock.move(59.5)
        assert value_of(store, "v") == "a"
        clock.move(0.5)
        assert get(store, "v") is None
        assert get(store, "v", touch=True) is None
        assert names_of(store) == []
        assert history(store, "v") == []
        assert forget(store, "v") is False

    def test_put_over_an_expired_slot_begins_anew(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "V", "a", ttl_s=60, tags=("t",))
        put(store, "V", "b")
        clock.move(60)
        with pytest.raises(ConflictError, match="not there"):
            put(store, "v", "c", if_version=2)
        slot = put(store, "v", "c", if_version=0)
        assert (slot.name, slot.version, slot.tags, slot.expires_at, slot.created_at) == ("v", 1, (), None, clock.now())
        assert [version.value for version in history(store, "v")] == ["c"]

    def test_expired_slots_do_not_count(self, store: SlotStore, clock: MovedClock) -> None:
        for number in range(64):
            put(store, f"s{number}", 1, ttl_s=60)
        clock.move(60)
        put(store, "new", 1)
        assert names_of(store) == ["new"]

    def test_an_expired_write_is_no_replay(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "v", "a", ttl_s=60, op_key="k")
        clock.move(60)
        assert put(store, "v", "b", op_key="k").value == "b"

    def test_touching_reads_slide_the_life(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "v", "a", ttl_s=64, sliding=True)
        clock.move(40)
        assert get(store, "v") is not None
        slot = get(store, "v", touch=True)
        assert slot is not None
        assert slot.expires_at == clock.now() + 64
        clock.move(63)
        assert value_of(store, "v") == "a"
        clock.move(1)
        assert get(store, "v") is None

    def test_small_slides_add_up(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "v", "a", ttl_s=64, sliding=True)
        for _ in range(200):
            clock.move(1)
            assert get(store, "v", touch=True) is not None
        slot = get(store, "v")
        assert slot is not None
        assert (slot.uses, slot.used_at, slot.expires_at) == (200, clock.now(), clock.now() + 64)

    def test_a_life_that_does_not_slide_ends(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "v", "a", ttl_s=64)
        clock.move(40)
        assert get(store, "v", touch=True) is not None
        clock.move(24)
        assert get(store, "v") is None

    def test_sweep_removes_what_is_over(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "short", 1, ttl_s=60)
        put(store, "short", 1, ttl_s=60, scope=Scope("app2", user="x"))
        put(store, "kept", 1)
        put(store, "hidden", 1, scope=BOB)
        forget(store, "hidden", BOB)
        assert sweep(store) == 0
        clock.move(60)
        assert sweep(store, app="app2") == 1
        assert sweep(store) == 1
        clock.move(7 * DAY_S - 61)
        assert sweep(store) == 0
        clock.move(1)
        assert sweep(store) == 1
        assert names_of(store, Scope(shared=True), within="subtree") == ["kept"]

    def test_a_task_is_cleared_whole(self, store: SlotStore, clock: MovedClock) -> None:
        task = ALICE.narrow(session="task-7")
        for name in ("step", "计划", "old"):
            put(store, name, 1, scope=task, ttl_s=60 if name == "old" else None)
        put(store, "name", "Alice")
        forget(store, "step", task)
        clock.move(60)
        assert store.batch([EraseSlots(task, within="subtree")]) == [2]
        assert sweep(store) == 0
        assert names_of(store, within="subtree") == ["name"]

    def test_forget_hides_and_undo_shows(self, store: SlotStore) -> None:
        put(store, "v", "a")
        before = put(store, "v", "b", tags=("t",))
        assert forget(store, "v") is True
        assert forget(store, "v") is False
        assert get(store, "v") is None
        assert names_of(store) == []
        kept = history(store, "v")
        assert [(version.version, version.value, version.outcome) for version in kept] == [
            (1, None, "written"),
            (2, None, "forgotten"),
        ]
        assert restore(store, "v") == before
        assert get(store, "v") == before
        assert [(version.value, version.outcome) for version in history(store, "v")] == [
            ("a", "written"),
            ("b", "restored"),
        ]
        with pytest.raises(NotFoundError, match="'v'"):
            restore(store, "v")

    def test_what_is_hidden_can_be_listed_without_values(self, store: SlotStore) -> None:
        put(store, "v", "secret", scope=ALICE.narrow(session="s"))
        put(store, "w", "shown")
        forget(store, "v", ALICE.narrow(session="s"))
        (hidden,) = found(store, SlotQuery(ALICE, "subtree", forgotten=True))
        assert (hidden.name, hidden.value, hidden.forgotten_at is not None) == ("v", None, True)

    def test_undo_ends_after_its_time(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "v", "a")
        put(store, "w", "a")
        forget(store, "v")
        forget(store, "w")
        clock.move(7 * DAY_S - 1)
        assert restore(store, "w").value == "a"
        clock.move(1)
        with pytest.raises(NotFoundError, match="7 days"):
            restore(store, "v")
        assert put(store, "v", "b").version == 1
        assert [version.value for version in history(store, "v")] == ["b"]

    def test_undo_does_not_bring_back_what_expired(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "v", "a", ttl_s=60)
        forget(store, "v")
        clock.move(60)
        with pytest.raises(NotFoundError):
            restore(store, "v")

    def test_undo_keeps_the_limit(self, store: SlotStore) -> None:
        limits = SlotLimits(max_slots=1)
        put(store, "v", "a", limits=limits)
        forget(store, "v")
        put(store, "w", "b", limits=limits)
        with pytest.raises(LimitError, match="'v'"):
            restore(store, "v", limits=limits)
        forget(store, "w")
        assert restore(store, "v", limits=limits).value == "a"

    def test_what_an_app_has_is_measured(self, store: SlotStore, clock: MovedClock) -> None:
        assert run(store, MeasureSlots("default")) == Measured(0, 0)
        put(store, "城市", "上海")
        put(store, "城市", "北京市")
        put(store, "v", "abc", BOB.narrow(agent="x", session="s"), ttl_s=60)
        put(store, "v", "ab", Scope(shared=True), actor="rules")
        put(store, "hidden", "abcdef")
        forget(store, "hidden")
        put(store, "v", "a" * 100, Scope("other", user="u"))
        assert run(store, MeasureSlots("default")) == Measured(3, 14)
        clock.move(60)
        assert run(store, MeasureSlots("default")) == Measured(2, 11)
        assert run(store, MeasureSlots("other")) == Measured(1, 100)

    def test_what_rules_write_does_not_count_among_the_slots(self, store: SlotStore) -> None:
        limits = SlotLimits(max_slots=1)
        put(store, "name", "Lin", limits=limits, actor="rules")
        put(store, "v", "a", limits=limits)
        put(store, "home", "Oslo", limits=limits, actor="rules")
        with pytest.raises(LimitError, match="2 slots, the limit is 1"):
            put(store, "w", "b", limits=limits)
        forget(store, "home")
        assert restore(store, "home", limits=limits).value == "Oslo"

    def test_put_over_a_forgotten_slot_goes_on_counting(self, store: SlotStore) -> None:
        put(store, "v", "a", tags=("t",), schema={"type": "string"})
        put(store, "v", "b")
        forget(store, "v")
        with pytest.raises(ConflictError):
            put(store, "v", "c", if_version=2)
        slot = put(store, "v", "c", if_version=0)
        assert (slot.version, slot.tags, slot.schema, slot.forgotten_at) == (3, (), None, None)
        assert value_of(store, "v") == "c"
        assert [(version.version, version.outcome) for version in history(store, "v")] == [
            (1, "written"),
            (2, "forgotten"),
            (3, "written"),
        ]

    def test_forget_of_another_version(self, store: SlotStore) -> None:
        put(store, "v", "a")
        with pytest.raises(ConflictError, match=r"version 1\b.*if_version=2"):
            forget(store, "v", if_version=2)
        assert forget(store, "v", if_version=1) is True

    def test_clock_turned_back(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "v", "a", ttl_s=60, sliding=True)
        clock.move(-3600)
        assert get(store, "v", touch=True) is not None
        clock.move(3600)
        assert put(store, "v", "b").version == 2

    def test_secrets_are_listed_as_long_as_they_are_stored(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "key", "first", policy="never")
        put(store, "key", "second", policy="never")
        put(store, "note", "open", policy="by_handle")
        put(store, "code", "brief", policy="never", ttl_s=60)
        put(store, "key", "theirs", scope=BOB, policy="never")
        forget(store, "key")
        clock.move(61)
        listed = run(store, ListSecrets((ALICE, Scope(shared=True))))
        assert sorted(listed) == [("code", "brief"), ("key", "first"), ("key", "second")]
        run(store, EraseSlots(ALICE))
        assert run(store, ListSecrets((ALICE,))) == []

    def test_forgotten_values_are_listed_until_they_come_back(self, store: SlotStore) -> None:
        put(store, "city", "Rome")
        put(store, "city", "Oslo")
        put(store, "food", "rice")
        assert run(store, ListSecrets((ALICE,), forgotten=True)) == []
        forget(store, "city")
        assert sorted(run(store, ListSecrets((ALICE,), forgotten=True))) == [("city", "Oslo"), ("city", "Rome")]
        put(store, "city", "Bern")
        assert run(store, ListSecrets((ALICE,), forgotten=True)) == []

    def test_a_get_can_look_where_the_scope_inherits(self, store: SlotStore, clock: MovedClock) -> None:
        session = ALICE.narrow(session="s")
        everybody = Scope(shared=True)
        for scope in (everybody, ALICE, session):
            put(store, "v", str(scope), scope=scope, ttl_s=60 if scope is session else None)
        put(store, "w", "all's", scope=everybody)
        put(store, "x", "bob's", scope=BOB)

        def seen(name: str, *, touch: bool = False) -> Slot | None:
            return run(store, GetSlot(session, name, touch, "user", "inherit"))

        assert [slot and slot.value for slot in (seen("v"), seen("W"), seen("x"))] == [str(session), "all's", None]
        clock.move(60)
        slot = seen("v", touch=True)
        assert slot is not None
        assert (slot.scope, slot.value, slot.uses) == (ALICE, str(ALICE), 1)
        forget(store, "v")
        assert store.batch([GetSlot(session, "v", within="inherit")])[0].value == str(everybody)
        assert seen("x", touch=True) is None
        store.flush()
        reads = [(event.scope, event.name, event.outcome) for event in store.events(op="slot.read")]
        assert reads == [(ALICE, "v", "ok"), (session, "x", "NotFoundError")]

    def test_a_get_of_what_is_hidden(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "V", 1, ttl_s=60)
        assert run(store, GetSlot(ALICE, "v", forgotten=True)) is None
        forget(store, "v")
        hidden = run(store, GetSlot(ALICE, "v", forgotten=True))
        assert hidden is not None
        assert (hidden.name, hidden.value, hidden.forgotten_at) == ("V", None, clock.now())
        clock.move(60)
        assert run(store, GetSlot(ALICE, "v", forgotten=True)) is None
