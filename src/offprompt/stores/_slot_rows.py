"""Slots and events of the engine that ends with the process; what a batch changed can be taken back."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from offprompt.records import RULES, Event, Measured, Scope, Slot, SlotVersion, fold_name
from offprompt.stores import _rules as rules

Key: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A slot as kept, with its versions, oldest first, each with the key of the write that made it."""

    slot: Slot
    versions: tuple[tuple[SlotVersion, str | None], ...]


class SlotRows:
    """A SlotTable in memory: slots by scope and folded name, events in the order of their `seq`."""

    def __init__(self) -> None:
        self.scopes: dict[Key, dict[str, SlotRow]] = {}
        self.events: list[Event] = []
        self._undo: list[tuple[Key, str, SlotRow | None]] = []

    def mark(self) -> int:
        """Begin a batch: what `back_to` takes."""
        self._undo.clear()
        return len(self.events)

    def back_to(self, mark: int) -> None:
        """Take back all since the mark."""
        del self.events[mark:]
        for key, folded, row in reversed(self._undo):
            self._place(key, folded, row)
        self._undo.clear()

    def load(self, scope: Scope, folded: str) -> Slot | None:
        row = self.scopes.get(scope.key, {}).get(folded)
        return _copy(row.slot) if row is not None else None

    def marks(self, scope: Scope, folded: str) -> list[rules.Mark]:
        row = self.scopes.get(scope.key, {}).get(folded)
        return [rules.Mark(kept.version, kept.trust, op_key) for kept, op_key in row.versions] if row else []

    def versions(self, scope: Scope, folded: str) -> list[SlotVersion]:
        row = self.scopes.get(scope.key, {}).get(folded)
        return [replace(kept, value=copy.deepcopy(kept.value)) for kept, _ in row.versions] if row else []

    def count_live(self, scope: Scope, now: float) -> int:
        slots = [row.slot for row in self.scopes.get(scope.key, {}).values()]
        return sum(rules.is_live(slot, now) and slot.actor != RULES for slot in slots)

    def measure(self, app: str, now: float) -> Measured:
        live = [slot for slot in self.rows(Scope(app, shared=True), subtree=True) if rules.is_live(slot, now)]
        return Measured(len(live), sum(slot.bytes for slot in live))

    def rows(self, scope: Scope, *, subtree: bool) -> list[Slot]:
        if not subtree:
            return [_copy(row.slot) for row in self.scopes.get(scope.key, {}).values()]
        keys = [key for key in self.scopes if scope.holds(Scope.from_key(key))]
        return [_copy(row.slot) for key in keys for row in self.scopes[key].values()]

    def over(self, app: str | None, *, now: float, hidden_before: float) -> list[tuple[Scope, str]]:
        return [
            (row.slot.scope, folded)
            for key, rows in self.scopes.items()
            if app is None or key[0] == app
            for folded, row in rows.items()
            if rules.is_expired(row.slot, now)
            or (row.slot.forgotten_at is not None and row.slot.forgotten_at <= hidden_before)
        ]

    def put(self, folded: str, planned: rules.PlannedPut) -> None:
        slot = _copy(planned.slot)
        version = SlotVersion(
            slot.version, slot.value, slot.policy, slot.trust, slot.source, slot.actor, slot.updated_at, slot.bytes
        )
        old = None if planned.fresh else self.scopes.get(slot.scope.key, {}).get(folded)
        kept = [item for item in (old.versions if old is not None else ()) if item[0].version not in planned.drop]
        self._set(slot.scope.key, folded, SlotRow(slot, (*kept, (version, planned.op_key))))

    def show(self, slot: Slot, outcome: rules.Outcome) -> None:
        folded = fold_name(slot.name)
        row = self.scopes[slot.scope.key][folded]
        *before, (current, op_key) = row.versions
        self._set(slot.scope.key, folded, SlotRow(_copy(slot), (*before, (replace(current, outcome=outcome), op_key))))

    def guard(self, slot: Slot) -> None:
        folded = fold_name(slot.name)
        row = self.scopes[slot.scope.key][folded]
        self._set(slot.scope.key, folded, replace(row, slot=_copy(slot)))

    def touch(self, before: Slot, after: Slot, event: Event) -> None:
        folded = fold_name(before.name)
        row = self.scopes[after.scope.key][folded]
        self._set(after.scope.key, folded, replace(row, slot=_copy(after)))
        self.log([event])

    def miss(self, event: Event) -> None:
        self.log([event])

    def remove(self, scope: Scope, folded: str) -> None:
        self._set(scope.key, folded, None)

    def move(self, slot: Slot, to: Scope) -> None:
        folded = fold_name(slot.name)
        row = self.scopes[slot.scope.key][folded]
        self._set(slot.scope.key, folded, None)
        self._set(to.key, folded, replace(row, slot=replace(row.slot, scope=to)))

    def events_after(self, seq: int) -> Iterator[Event]:
        """The events behind a place in the log, in order."""
        return islice(self.events, bisect_right(self.events, seq, key=lambda event: event.seq), None)

    def log(self, events: Sequence[Event]) -> None:
        seq = self.events[-1].seq if self.events else 0
        self.events += [replace(event, seq=number) for number, event in enumerate(events, seq + 1)]

    def _set(self, key: Key, folded: str, row: SlotRow | None) -> None:
        self._undo.append((key, folded, self.scopes.get(key, {}).get(folded)))
        self._place(key, folded, row)

    def _place(self, key: Key, folded: str, row: SlotRow | None) -> None:
        if row is not None:
            self.scopes.setdefault(key, {})[folded] = row
        elif key in self.scopes:
            self.scopes[key].pop(folded, None)
            if not self.scopes[key]:
                del self.scopes[key]


def _copy(slot: Slot) -> Slot:
    return replace(slot, value=copy.deepcopy(slot.value), schema=copy.deepcopy(slot.schema))
