"""Conformance: places of handles, locks, how often models write, and what foreign text may not do."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offprompt.errors import ConflictError, LimitError, NotFoundError, UsageError
from offprompt.protocols import SlotStore, run
from offprompt.records import GuardSlot, Place, PutSlot, Scope, Slot, SlotLimits, SlotQuery
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite, forget, found, get, put, restore, value_of

SEND = Place("send", "/token")
FETCH = Place("抓取", "/headers/令牌", "例子.example:8443")
MODEL: dict[str, Any] = {"source": "model", "actor": "model"}


def guard(store: SlotStore, name: str, scope: Scope = ALICE, **changes: Any) -> Slot:
    """Change what models may do with a slot."""
    return run(store, GuardSlot(scope, name, **changes))


class SlotGuards(Suite):
    """What the application lets models do with a slot is stored with it."""

    def test_places_and_lock_come_back_without_a_version(self, store: SlotStore, clock: MovedClock) -> None:
        written = put(store, "Key", "k-1", policy="never", tags=("t",))
        assert (written.allow, written.locked, written.recent) == ((), False, ())
        clock.move(5)
        slot = guard(store, "ＫＥＹ", allow=(SEND, FETCH, SEND), locked=True)
        assert slot == replace(written, allow=(SEND, FETCH), locked=True)
        assert get(store, "key") == slot
        assert found(store, SlotQuery(ALICE)) == [slot]
        assert guard(store, "key", disallow=(SEND, Place("send", "/other"))).allow == (FETCH,)
        assert guard(store, "key", allow=(FETCH,), locked=False) == replace(written, allow=(FETCH,))
        assert get(store, "key", BOB) is None

    def test_puts_keep_them_and_another_policy_drops_the_places(self, store: SlotStore) -> None:
        put(store, "key", "k-1", policy="never")
        guard(store, "key", allow=(SEND,), locked=True)
        slot = put(store, "key", "k-2", policy="never")
        assert (slot.allow, slot.locked, slot.version) == ((SEND,), True, 2)
        slot = put(store, "key", "k-3", policy="by_handle")
        assert (slot.allow, slot.locked) == ((), True)
        assert put(store, "key", "k-4", policy="never").allow == ()

    def test_a_hidden_slot_keeps_its_lock_and_an_undo_its_places(self, store: SlotStore) -> None:
        put(store, "key", "k-1", policy="never")
        before = guard(store, "key", allow=(SEND,), locked=True)
        forget(store, "key")
        with pytest.raises(NotFoundError, match="'key'"):
            guard(store, "key", allow=(FETCH,))
        with pytest.raises(ConflictError, match="locked"):
            put(store, "key", "by a model", **MODEL)
        assert restore(store, "key") == before
        forget(store, "key")
        slot = put(store, "key", "k-2", policy="never")
        assert (slot.allow, slot.locked, slot.version) == ((), True, 2)

    def test_one_that_expired_begins_anew(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "key", "k-1", policy="never", ttl_s=60, **MODEL)
        guard(store, "key", allow=(SEND,), locked=True)
        clock.move(60)
        with pytest.raises(NotFoundError):
            guard(store, "key", locked=True)
        slot = put(store, "key", "k-2", policy="never", **MODEL)
        assert (slot.allow, slot.locked, slot.recent) == ((), False, (clock.now(),))

    def test_what_cannot_be_guarded(self, store: SlotStore) -> None:
        put(store, "city", "上海")
        with pytest.raises(NotFoundError, match="'nothing'"):
            guard(store, "nothing", locked=True)
        with pytest.raises(NotFoundError):
            guard(store, "not a name", locked=True)
        with pytest.raises(UsageError, match="'by_handle'"):
            guard(store, "city", allow=(SEND,), locked=True)
        slot = get(store, "city")
        assert slot is not None
        assert (slot.allow, slot.locked) == ((), False)
        assert guard(store, "city", disallow=(SEND,), locked=True).locked
        put(store, "key", "k", policy="never")
        guard(store, "key", allow=tuple(Place("send", f"/{number}") for number in range(16)))
        with pytest.raises(LimitError, match="17 places"):
            guard(store, "key", allow=(SEND,))
        assert len(guard(store, "key", allow=(SEND,), disallow=(Place("send", "/3"),)).allow) == 16

    def test_a_failed_batch_changes_no_guard(self, store: SlotStore) -> None:
        before = put(store, "key", "k", policy="never")
        events = len(store.events())
        with pytest.raises(NotFoundError):
            store.batch([GuardSlot(ALICE, "key", (SEND,), locked=True), GuardSlot(ALICE, "nothing")])
        assert get(store, "key") == before
        assert len(store.events()) == events

    def test_each_change_leaves_an_event(self, store: SlotStore) -> None:
        put(store, "key", "k-secret", policy="never")
        guard(store, "key", allow=(SEND, FETCH), locked=True, actor="ops")
        guard(store, "key", disallow=(SEND,), locked=False)
        first, second = store.events(op="slot.guard")
        assert (first.name, first.actor, first.version, first.outcome) == ("key", "ops", 1, "ok")
        assert first.why == "allow send /token; allow 抓取 /headers/令牌 例子.example:8443; lock"
        assert second.why == "disallow send /token; unlock"
        assert "k-secret" not in repr((first, second))

    def test_models_neither_write_nor_forget_what_is_locked(self, store: SlotStore) -> None:
        put(store, "v", "a")
        guard(store, "v", locked=True)
        with pytest.raises(ConflictError, match="locked the name 'v'"):
            put(store, "v", "b", **MODEL)
        with pytest.raises(ConflictError, match="locked the name 'v'"):
            forget(store, "v", source="model", actor="model")
        assert value_of(store, "v") == "a"
        assert put(store, "v", "c").locked
        assert forget(store, "v") is True

    def test_a_model_writes_one_slot_so_often_in_a_minute(self, store: SlotStore, clock: MovedClock) -> None:
        limits = SlotLimits(model_writes=2, keep_versions=1)
        started = clock.now()
        put(store, "v", 1, limits=limits, **MODEL)
        clock.move(30)
        assert put(store, "v", 2, limits=limits, **MODEL).recent == (started, started + 30)
        put(store, "v", 3, limits=limits)
        clock.move(29.5)
        with pytest.raises(LimitError, match=r"'v'.*3 writes a minute, the limit is 2") as caught:
            put(store, "v", 4, limits=limits, **MODEL)
        assert (caught.value.used, caught.value.limit) == (3, 2)
        assert value_of(store, "v") == 3
        assert put(store, "other", 1, limits=limits, **MODEL).version == 1
        assert put(store, "v", 1, BOB, limits=limits, **MODEL).version == 1
        clock.move(0.5)
        assert put(store, "v", 5, limits=limits, **MODEL).recent == (started + 30, started + 60)
        forget(store, "v")
        with pytest.raises(LimitError):
            put(store, "v", 6, limits=limits, **MODEL)
        clock.move(-3600)
        assert put(store, "v", 7, limits=limits, **MODEL).recent == (started - 3540,)
        for number in range(20):
            put(store, "free", number, limits=SlotLimits(model_writes=0), **MODEL)

    def test_a_replayed_write_of_the_model_does_not_count(self, store: SlotStore) -> None:
        limits = SlotLimits(model_writes=2)
        for _ in range(5):
            assert put(store, "v", 1, op_key="turn-1", limits=limits, **MODEL).version == 1
        assert put(store, "v", 2, op_key="turn-2", limits=limits, **MODEL).version == 2

    def test_foreign_text_is_never_shared(self, store: SlotStore) -> None:
        with pytest.raises(ConflictError, match=r"'v'.*trust 'tool'"):
            put(store, "v", "poison", Scope(shared=True), trust="tool")
        assert get(store, "v", Scope(shared=True)) is None
        run(store, PutSlot(Scope(shared=True), "v", "said", "by_handle"))
        assert value_of(store, "v", Scope(shared=True)) == "said"
