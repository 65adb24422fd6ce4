"""Slots whose values, tags and schemas are sealed, over any engine's rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from offprompt.protocols.sealing import Sealer
from offprompt.records import Event, Measured, Scope, Slot, SlotVersion, fold_name
from offprompt.records.json import compact
from offprompt.records.scope import key_owner
from offprompt.stores import _rules as rules
from offprompt.stores._rows import parsed
from offprompt.stores._sealed import MARK, Seal
from offprompt.stores._slot_ops import SlotTable


def sealed_slots(table: SlotTable, sealer: Sealer | None) -> SlotTable:
    """The table; sealing, if there is what seals."""
    return table if sealer is None else SealedSlots(table, Seal(sealer))


class SealedSlots:
    """A SlotTable over an engine's. A slot whose key was destroyed is not there."""

    def __init__(self, table: SlotTable, seal: Seal) -> None:
        self._table, self._seal = table, seal
        self._stored: dict[tuple[Scope, str], Slot] = {}
        self._lost: set[tuple[Scope, str]] = set()

    def load(self, scope: Scope, folded: str) -> Slot | None:
        row = self._table.load(scope, folded)
        return None if row is None else self._opened(row)

    def marks(self, scope: Scope, folded: str) -> list[rules.Mark]:
        return [] if (scope, folded) in self._lost else self._table.marks(scope, folded)

    def versions(self, scope: Scope, folded: str) -> list[SlotVersion]:
        found: list[SlotVersion] = []
        for version in self._table.versions(scope, folded):
            value = self._value(scope, folded, version.version, version.value)
            if value is not None:
                found.append(replace(version, value=value[0]))
        return found

    def count_live(self, scope: Scope, now: float) -> int:
        return self._table.count_live(scope, now)

    def measure(self, app: str, now: float) -> Measured:
        return self._table.measure(app, now)

    def rows(self, scope: Scope, *, subtree: bool) -> list[Slot]:
        rows = map(self._opened, self._table.rows(scope, subtree=subtree))
        return [row for row in rows if row is not None]

    def over(self, app: str | None, *, now: float, hidden_before: float) -> list[tuple[Scope, str]]:
        return self._table.over(app, now=now, hidden_before=hidden_before)

    def put(self, folded: str, planned: rules.PlannedPut) -> None:
        slot = sealed_slot(planned.slot, self._seal)
        self._table.put(folded, replace(planned, slot=slot))
        self._stored[slot.scope, folded] = slot
        self._lost.discard((slot.scope, folded))

    def show(self, slot: Slot, outcome: rules.Outcome) -> None:
        self._table.show(self._as_stored(slot), outcome)

    def guard(self, slot: Slot) -> None:
        self._table.guard(self._as_stored(slot))

    def touch(self, before: Slot, after: Slot, event: Event) -> None:
        self._table.touch(self._as_stored(before), self._as_stored(after), event)

    def miss(self, event: Event) -> None:
        self._table.miss(event)

    def remove(self, scope: Scope, folded: str) -> None:
        self._table.remove(scope, folded)

    def move(self, slot: Slot, to: Scope) -> None:
        self._table.move(self._as_stored(slot), to)
        if slot.scope.user is not None and to.user is not None:
            # What is bound to the place does not name the user: that the key does, which is now the other's as well.
            self._seal.sealer.join(to.app, slot.scope.user, to.user)

    def log(self, events: Sequence[Event]) -> None:
        self._table.log(events)

    def _opened(self, row: Slot) -> Slot | None:
        place = row.scope, fold_name(row.name)
        opened = opened_slot(row, self._seal)
        if opened is None:
            self._lost.add(place)
        else:
            self._stored[place] = row
        return opened

    def _value(self, scope: Scope, folded: str, version: int, value: Any) -> tuple[Any] | None:
        text = self._seal.opened(key_owner(scope), value_place(scope.key, folded, version), _text(value))
        return None if text is None else (parsed(text) if _is_sealed(value) else value,)

    def _as_stored(self, slot: Slot) -> Slot:
        """The slot with its value, tags and schema as they are stored."""
        stored = self._stored.get((slot.scope, fold_name(slot.name)))
        if stored is None or stored.version != slot.version:
            return sealed_slot(slot, self._seal)
        return replace(slot, value=stored.value, tags=stored.tags, schema=stored.schema)


def sealed_slot(slot: Slot, seal: Seal) -> Slot:
    """The slot with value, tags and schema sealed, each in a form that every engine keeps as it keeps those."""
    folded, owner = fold_name(slot.name), key_owner(slot.scope)
    key = slot.scope.key
    value = seal.text(owner, value_place(key, folded, slot.version), compact(slot.value))
    tags = json.dumps(slot.tags)
    return replace(
        slot,
        value=value,
        tags=(seal.text(owner, part_place(key, folded, "tags"), tags),) if slot.tags else (),
        schema=None
        if slot.schema is None
        else {MARK: seal.text(owner, part_place(key, folded, "schema"), json.dumps(slot.schema))},
    )


def opened_slot(row: Slot, seal: Seal) -> Slot | None:
    """The slot of a row with all three opened; None: its key was destroyed."""
    folded, owner = fold_name(row.name), key_owner(row.scope)
    key = row.scope.key
    text = seal.opened(owner, value_place(key, folded, row.version), _text(row.value))
    if text is None:
        return None
    tags, schema = row.tags, row.schema
    if tags:
        stored = tags[0] if len(tags) == 1 else ""
        opened = seal.opened(owner, part_place(key, folded, "tags"), stored)
        tags = () if opened is None else tuple(json.loads(opened)) if _is_sealed(stored) else tags
    if schema is not None:
        stored = str(schema.get(MARK, ""))
        opened = seal.opened(owner, part_place(key, folded, "schema"), stored)
        schema = None if opened is None else json.loads(opened) if _is_sealed(stored) else schema
    return replace(row, value=parsed(text) if _is_sealed(row.value) else row.value, tags=tags, schema=schema)


def value_place(key: Sequence[object], folded: str, version: int) -> tuple[str, ...]:
    """Where a value belongs. Its user is the owner of the key that seals it: so slots move to whom they are joined."""
    return "versions", str(key[0]), str(key[2]), str(key[3]), str(version), folded


def part_place(key: Sequence[object], folded: str, column: str) -> tuple[str, ...]:
    """Where a slot's tags or schema belong."""
    return "slots", column, str(key[0]), str(key[2]), str(key[3]), folded


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_sealed(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(MARK)
