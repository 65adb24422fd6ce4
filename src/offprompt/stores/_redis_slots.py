"""Slots in Redis, within one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offprompt.records import (
    RULES,
    Event,
    ForgetSlot,
    GetSlot,
    GuardSlot,
    ListSecrets,
    ListSlots,
    Measured,
    PutSlot,
    RestoreSlot,
    Scope,
    Slot,
    SlotHistory,
    SlotOp,
    SlotVersion,
    fold_name,
)
from offprompt.stores import _rules as rules
from offprompt.stores._redis_plan import Place
from offprompt.stores._redis_rows import Kept, slot_cells, version_cells, version_record
from offprompt.stores._redis_step import RedisStep
from offprompt.stores._touches import SlotKey, Touch, Touches, slot_key, summed, touch_of


class RedisTable:
    """A SlotTable over one step.

    waiting    as in the other engines: the uses that the store keeps back, None in a step that stores them itself.
    at_once    how many slots `over` gives at most.
    """

    def __init__(self, step: RedisStep, waiting: Touches | None, *, at_once: int | None = None) -> None:
        self._step, self._waiting, self._at_once = step, waiting, at_once
        self._touched: dict[SlotKey, Slot] = {}
        self.touches: list[Touch] = []

    def look_ahead(self, ops: Sequence[SlotOp[Any]]) -> None:
        """Read at once what the ops will ask for first."""
        places: list[Place] = []
        scopes: list[Scope] = []
        for op in ops:
            if isinstance(op, ListSlots) and op.query.within != "subtree":
                scopes += op.query.scope.inherited() if op.query.within == "inherit" else (op.query.scope,)
            elif isinstance(op, ListSecrets):
                scopes += op.scopes
            elif isinstance(op, GetSlot):
                places += ((scope, rules.lookup_form(op.name)) for scope in op.scopes)
            elif isinstance(op, (PutSlot, SlotHistory, ForgetSlot, RestoreSlot, GuardSlot)):
                places.append((op.scope, rules.lookup_form(op.name)))
        self._step.look_at(places, scopes)

    def load(self, scope: Scope, folded: str) -> Slot | None:
        kept = self._step.kept((scope, folded))
        return self._with_waiting(kept.record(scope)) if kept is not None and kept.current else None

    def marks(self, scope: Scope, folded: str) -> list[rules.Mark]:
        kept = self._step.kept((scope, folded))
        return [*kept.older, kept.mark] if kept is not None and kept.current else []

    def versions(self, scope: Scope, folded: str) -> list[SlotVersion]:
        kept = self._step.kept((scope, folded))
        if kept is None or not kept.current:
            return []
        older = [version_record(number, cells) for number, cells in self._step.older((scope, folded), kept)]
        return [*older, version_record(kept.version, kept.current)]

    def count_live(self, scope: Scope, now: float) -> int:
        return sum(rules.is_live(slot, now) and slot.actor != RULES for slot in self.rows(scope, subtree=False))

    def measure(self, app: str, now: float) -> Measured:
        live = [slot for slot in self.rows(Scope(app, shared=True), subtree=True) if rules.is_live(slot, now)]
        return Measured(len(live), sum(slot.bytes for slot in live))

    def rows(self, scope: Scope, *, subtree: bool) -> list[Slot]:
        slots = [(place[0], self._step.kept(place)) for place in self._step.places(scope, subtree=subtree)]
        return [self._with_waiting(kept.record(place)) for place, kept in slots if kept is not None and kept.current]

    def over(self, app: str | None, *, now: float, hidden_before: float) -> list[tuple[Scope, str]]:
        return self._step.due(app, now, hidden_before, self._at_once)

    def put(self, folded: str, planned: rules.PlannedPut) -> None:
        slot = planned.slot
        place = (slot.scope, folded)
        if planned.fresh:
            self.remove(*place)
        old = self._step.kept(place)
        older: list[rules.Mark] = []
        if old is not None:
            self._step.set_version(place, old.version, old.current)
            older = [mark for mark in (*old.older, old.mark) if mark.version not in planned.drop]
            for version in planned.drop:
                self._step.set_version(place, version, None)
        self._step.set_kept(place, Kept(slot_cells(slot), version_cells(slot, planned.op_key), tuple(older)))

    def show(self, slot: Slot, outcome: rules.Outcome) -> None:
        self._change(slot, outcome)

    def guard(self, slot: Slot) -> None:
        self._change(slot, None)

    def touch(self, before: Slot, after: Slot, event: Event) -> None:
        key = slot_key(before)
        touch = touch_of(key, self._stored(before), after, event)
        if self._waiting is not None:
            self.touches.append(touch)
            self._touched[key] = after
        else:
            self.store_touches([touch])

    def miss(self, event: Event) -> None:
        if self._waiting is not None:
            self.touches.append(Touch(None, None, event))
        else:
            self.log([event])

    def remove(self, scope: Scope, folded: str) -> None:
        self._step.remove((scope, folded))

    def move(self, slot: Slot, to: Scope) -> None:
        folded = fold_name(slot.name)
        here, there = (slot.scope, folded), (to, folded)
        kept = self._step.kept(here)
        if kept is not None:
            for number, cells in self._step.older(here, kept):
                self._step.set_version(there, number, cells)
            self.remove(*here)
            self._step.set_kept(there, kept)

    def log(self, events: Sequence[Event]) -> None:
        self._step.events += events

    def store_touches(self, touches: Sequence[Touch]) -> None:
        """Store uses that waited; those of slots that are gone leave only their events."""
        found = {(Scope.from_key(slot[0]), slot[1], slot[2]): uses for slot, uses in summed(touches).items()}
        self._step.read((scope, folded) for scope, folded, _ in found)
        for (scope, folded, created_at), uses in found.items():
            kept = self._step.kept((scope, folded))
            if kept is None or not kept.current or (slot := kept.record(scope)).created_at != created_at:
                continue
            expires_at = slot.expires_at
            if slot.sliding and expires_at is not None and uses.expires_at is not None:
                expires_at = max(expires_at, uses.expires_at)
            used_at = max(uses.used_at, slot.used_at or 0.0)
            self._change(slot.used(slot.uses + uses.count, used_at, expires_at), None)
        self.log([touch.event for touch in touches])

    def _change(self, slot: Slot, outcome: rules.Outcome | None) -> None:
        place = (slot.scope, fold_name(slot.name))
        kept = self._step.kept(place)
        if kept is not None:
            self._step.set_kept(place, kept.changed(slot, outcome))

    def _stored(self, slot: Slot) -> Slot:
        """The slot as it is stored, without what waits."""
        kept = self._step.kept((slot.scope, fold_name(slot.name)))
        return kept.record(slot.scope) if kept is not None else slot

    def _with_waiting(self, slot: Slot) -> Slot:
        if self._waiting is None:
            return slot
        key = slot_key(slot)
        return self._touched.get(key) or self._waiting.over(slot, key)
