"""Conformance: the event log of slots."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import pytest

from offprompt.errors import UsageError
from offprompt.protocols import SlotStore, run
from offprompt.records import Event, GetSlot, LogEvents, Scope
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import ALICE, BOB, Suite, erase, forget, get, put, restore, sweep

STORED = "四季春路 12 号 opensesame"


class SlotEvents(Suite):
    """Each change leaves an event, and no event holds a value."""

    def test_each_change_leaves_one_event(self, store: SlotStore, clock: MovedClock) -> None:
        put(store, "名", STORED, actor="model", why="short value", ttl_s=60)
        run(store, GetSlot(ALICE, "名", touch=True, actor="user"))
        get(store, "名")
        forget(store, "名", actor="user")
        restore(store, "名")
        erase(store, "missing")
        clock.move(60)
        sweep(store)
        sweep(store)
        store.flush()
        events = store.events()
        assert [(e.op, e.name, e.version, e.bytes, e.actor, e.outcome) for e in events] == [
            ("slot.write", "名", 1, len(STORED.encode()), "model", "ok"),
            ("slot.read", "名", 1, len(STORED.encode()), "user", "ok"),
            ("slot.forget", "名", 1, len(STORED.encode()), "user", "ok"),
            ("slot.restore", "名", 1, len(STORED.encode()), "app", "ok"),
            ("slot.erase", "missing", 0, 0, "app", "ok"),
            ("slot.sweep", "", 0, 0, "sweep", "ok"),
        ]
        assert events[0].why == "short value"
        assert [e.seq for e in events] == sorted({e.seq for e in events})
        assert all(e.duration_s >= 0 for e in events)
        assert [e.at for e in events] == [clock.now() - 60] * 5 + [clock.now()]
        assert STORED not in repr(events)

    def test_what_was_not_there_is_an_event_too(self, store: SlotStore) -> None:
        get(store, "nothing", touch=True)
        forget(store, "nothing")
        store.flush()
        assert [(e.op, e.name, e.outcome) for e in store.events()] == [
            ("slot.read", "nothing", "NotFoundError"),
            ("slot.forget", "nothing", "NotFoundError"),
        ]

    def test_a_replay_leaves_no_event(self, store: SlotStore) -> None:
        put(store, "v", 1, op_key="k")
        put(store, "v", 1, op_key="k")
        assert len(store.events()) == 1

    def test_events_are_chosen(self, store: SlotStore) -> None:
        narrow, other = ALICE.narrow(session="s"), Scope("app2", user="alice@example.com")
        for scope in (ALICE, narrow, BOB, other):
            put(store, "v", 1, scope=scope)
        forget(store, "v")
        run(
            store,
            LogEvents((Event(1.5, ALICE, "handle.bad", name="x\ud800", why="not issued", outcome="HandleError"),)),
        )
        assert [e.scope for e in store.events(scope=ALICE)] == [ALICE, narrow, ALICE, ALICE]
        assert [e.scope for e in store.events(scope=narrow)] == [narrow]
        assert [e.op for e in store.events(scope=ALICE, op="slot.f")] == ["slot.forget"]
        assert [e.op for e in store.events(op="slot.")] == ["slot.write"] * 4 + ["slot.forget"]
        assert store.events(op="slot_") == []
        assert store.events(op="SLOT.") == []
        first, second, *_ = store.events()
        assert store.events(after=first.seq, limit=1) == [second]
        assert store.events(limit=0) == []
        bad = store.events(op="handle.")[0]
        assert (bad.at, bad.outcome, bad.why) == (1.5, "HandleError", "not issued")

    def test_a_closed_store_refuses(self, store: SlotStore) -> None:
        put(store, "v", 1)
        store.close()
        store.close()
        with pytest.raises(UsageError, match="closed"):
            get(store, "v")
        with pytest.raises(UsageError, match="closed"):
            put(store, "v", 1)
