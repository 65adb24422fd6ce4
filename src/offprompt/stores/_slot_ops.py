"""The ops of a SlotStore, run over whatever an engine keeps its slots in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from offprompt.errors import UsageError
from offprompt.records import (
    EraseSlots,
    Event,
    ForgetSlot,
    GetSlot,
    GuardSlot,
    Json,
    ListSecrets,
    ListSlots,
    LogEvents,
    Measured,
    MeasureSlots,
    Moved,
    MoveSlots,
    PutSlot,
    RestoreSlot,
    Scope,
    Slot,
    SlotHistory,
    SlotOp,
    SlotQuery,
    SlotVersion,
    SweepSlots,
    fold_name,
)
from offprompt.stores import _rules as rules
from offprompt.stores._guards import plan_guard
from offprompt.stores._values import storable

READ_OPS: Final = (GetSlot, ListSlots, ListSecrets, SlotHistory, MeasureSlots)
"""Ops that a read transaction can serve; uses and slides that they leave are the table's to keep."""


class SlotTable(Protocol):
    """What an engine offers inside one transaction; rows may be expired or hidden, values are the caller's own."""

    def load(self, scope: Scope, folded: str) -> Slot | None:
        """The row of that folded name in exactly that scope."""
        ...

    def marks(self, scope: Scope, folded: str) -> list[rules.Mark]:
        """The kept versions, oldest first, without values."""
        ...

    def versions(self, scope: Scope, folded: str) -> list[SlotVersion]:
        """The kept versions, oldest first."""
        ...

    def count_live(self, scope: Scope, now: float) -> int:
        """The live slots of exactly that scope, but for those that rules wrote."""
        ...

    def measure(self, app: str, now: float) -> Measured:
        """See MeasureSlots."""
        ...

    def rows(self, scope: Scope, *, subtree: bool) -> list[Slot]:
        """All rows of the scope, or of its subtree."""
        ...

    def over(self, app: str | None, *, now: float, hidden_before: float) -> list[tuple[Scope, str]]:
        """Scope and folded name of what expired by `now`, or was hidden at or before that time."""
        ...

    def put(self, folded: str, planned: rules.PlannedPut) -> None:
        """Store a new version."""
        ...

    def show(self, slot: Slot, outcome: rules.Outcome) -> None:
        """Store the slot's forgotten_at, and what became of its current version."""
        ...

    def guard(self, slot: Slot) -> None:
        """Store the slot's places and lock."""
        ...

    def touch(self, before: Slot, after: Slot, event: Event) -> None:
        """Store, or keep back, the use, the expiry and the event of a read."""
        ...

    def miss(self, event: Event) -> None:
        """Store, or keep back, the event of a read that found nothing."""
        ...

    def remove(self, scope: Scope, folded: str) -> None:
        """Remove the row with all versions."""
        ...

    def move(self, slot: Slot, to: Scope) -> None:
        """Take a row with its versions to another scope, where its name is free."""
        ...

    def log(self, events: Sequence[Event]) -> None:
        """Append to the event log."""
        ...


def run_ops(table: SlotTable, ops: Sequence[SlotOp[Any]], now: float) -> list[Any]:
    """The results of the ops, in order, each seeing what those before it wrote."""
    return [_run(table, op, now) for op in ops]


def is_read(ops: Sequence[SlotOp[Any]]) -> bool:
    """Whether a read transaction can serve all the ops."""
    return all(map(_is_read, ops))


def _is_read(op: SlotOp[Any]) -> bool:
    return isinstance(op, READ_OPS)


def _run(table: SlotTable, op: SlotOp[Any], now: float) -> Any:
    own = _BY_TYPE.get(type(op))
    if own is not None:
        return own(table, op, now)
    match op:
        case ListSlots():
            return _list(table, op.query, now)
        case ListSecrets():
            return _secrets(table, op)
        case MeasureSlots():
            return table.measure(op.app, now)
        case LogEvents():
            return table.log(op.events)
        case _:
            raise UsageError(f"{type(op).__name__} is not an op of a SlotStore; see offprompt.records")


def _secrets(table: SlotTable, op: ListSecrets) -> list[tuple[str, Json]]:
    rows = [row for scope in op.scopes for row in sorted(table.rows(scope, subtree=False), key=_folded)]
    return [
        (row.name, version.value)
        for row in rows
        if not row.parts and (row.forgotten_at is not None if op.forgotten else row.policy == "never")
        for version in reversed(table.versions(row.scope, fold_name(row.name)))
    ]


def _folded(row: Slot) -> str:
    return fold_name(row.name)


def _put(table: SlotTable, op: PutSlot, now: float) -> Slot:
    event = _timer(now, op.scope, "slot.write", op.actor)
    folded = rules.lookup_form(op.name)
    row, marks = table.load(op.scope, folded), table.marks(op.scope, folded)
    if row is not None and rules.is_replay(op, row, marks, now=now):
        return rules.hidden_view(row) if row.forgotten_at is not None else row
    planned = rules.plan_put(op, row, marks, now=now, count_live=lambda: table.count_live(op.scope, now))
    table.put(folded, planned)
    table.log([event(planned.slot, why=op.why)])
    return planned.slot


def _get(table: SlotTable, op: GetSlot, now: float) -> Slot | None:
    event = _timer(now, op.scope, "slot.read", op.actor)
    folded = rules.lookup_form(op.name)
    for scope in op.scopes:
        row = table.load(scope, folded)
        if row is None:
            continue
        if row.forgotten_at is not None:
            if op.forgotten is not False and not rules.is_expired(row, now):
                return rules.hidden_view(row)
        elif op.forgotten is not True and not rules.is_expired(row, now):
            if not op.touch:
                return row
            after = rules.touched(row, now)
            table.touch(row, after, event(after, found_in=scope))
            return after
    if op.touch:
        table.miss(event(None, name=op.name))
    return None


def _list(table: SlotTable, query: SlotQuery, now: float) -> list[Slot]:
    scopes = query.scope.inherited() if query.within == "inherit" else (query.scope,)
    is_named = rules.name_filter(query.names)
    found: dict[tuple[tuple[str, ...], str], Slot] = {}
    for scope in scopes:
        for slot in table.rows(scope, subtree=query.within == "subtree"):
            there = rules.is_live(slot, now)
            if query.forgotten:
                there = slot.forgotten_at is not None and not rules.is_expired(slot, now)
            if there:
                key = () if query.within == "inherit" else slot.scope.key
                found.setdefault((key, fold_name(slot.name)), slot)
    chosen = [found[key] for key in sorted(found) if is_named(key[1]) and rules.fits(found[key], query)]
    return [rules.hidden_view(slot) if query.forgotten else slot for slot in chosen[: query.limit]]


def _history(table: SlotTable, op: SlotHistory, now: float) -> list[SlotVersion]:
    folded = rules.lookup_form(op.name)
    row = table.load(op.scope, folded)
    if row is None or rules.is_expired(row, now):
        return []
    versions = table.versions(op.scope, folded)
    return [rules.hidden_version(version) for version in versions] if row.forgotten_at is not None else versions


def _forget(table: SlotTable, op: ForgetSlot, now: float) -> bool:
    event = _timer(now, op.scope, "slot.forget", op.actor)
    hidden = rules.plan_forget(op, table.load(op.scope, rules.lookup_form(op.name)), now=now)
    if hidden is None:
        table.log([event(None, name=op.name)])
        return False
    table.show(hidden, "forgotten")
    table.log([event(hidden)])
    return True


def _restore(table: SlotTable, op: RestoreSlot, now: float) -> Slot:
    event = _timer(now, op.scope, "slot.restore", op.actor)
    row = table.load(op.scope, rules.lookup_form(op.name))
    slot = rules.plan_restore(op, row, now=now, count_live=lambda: table.count_live(op.scope, now))
    table.show(slot, "restored")
    table.log([event(slot)])
    return slot


def _guard(table: SlotTable, op: GuardSlot, now: float) -> Slot:
    event = _timer(now, op.scope, "slot.guard", op.actor)
    row = table.load(op.scope, rules.lookup_form(op.name))
    slot = plan_guard(op, row if row is not None and rules.is_live(row, now) else None)
    table.guard(slot)
    done = [f"allow {place}" for place in op.allow] + [f"disallow {place}" for place in op.disallow]
    if op.locked is not None:
        done.append("lock" if op.locked else "unlock")
    table.log([event(slot, why="; ".join(done))])
    return slot


def _erase(table: SlotTable, op: EraseSlots, now: float) -> int:
    event = _timer(now, op.scope, "slot.erase", op.actor)
    if op.names is not None and op.within == "exact":
        forms = {rules.lookup_form(name) for name in op.names}
        rows = [row for form in sorted(forms) if (row := table.load(op.scope, form)) is not None]
    else:
        names = None if op.names is None else {rules.lookup_form(name) for name in op.names}
        rows = table.rows(op.scope, subtree=op.within == "subtree")
        rows = [row for row in rows if names is None or fold_name(row.name) in names]
    for row in rows:
        table.remove(row.scope, fold_name(row.name))
    count = sum(not rules.is_expired(row, now) for row in rows)
    name = op.names[0] if op.names is not None and len(op.names) == 1 else ""
    table.log([event(None, name=name, outcome="ok", why=f"{count} slots")])
    return count


def _move(table: SlotTable, op: MoveSlots, now: float) -> Moved:
    event = _timer(now, Scope(op.app, user=op.to), "slot.move", op.actor)
    rows = [row for row in table.rows(Scope(op.app, user=op.user), subtree=True) if not rules.is_expired(row, now)]
    rows.sort(key=lambda row: (row.scope.key, fold_name(row.name)))
    # A value that was split moves with all its parts, or stays with them.
    whole = {(row.scope, fold_name(f"{row.name}.{part}")): row for row in rows for part in range(1, row.parts + 1)}
    taken: set[tuple[Scope, str]] = set()
    for row in rows:
        there = table.load(replace(row.scope, user=op.to), fold_name(row.name))
        if there is not None and not rules.is_expired(there, now):
            taken.add(_head(whole, row))
    moved = [row for row in rows if _head(whole, row) not in taken]
    if not op.preview and moved:
        for row in moved:
            to = replace(row.scope, user=op.to)
            table.remove(to, fold_name(row.name))
            table.move(row, to)
        table.log([event(None, name=op.user, outcome="ok", why=f"{len(moved)} slots")])
    kept = tuple(row.name for row in rows if _head(whole, row) in taken)
    return Moved(tuple(row.name for row in moved), kept)


def _head(whole: Mapping[tuple[Scope, str], Slot], row: Slot) -> tuple[Scope, str]:
    """What stands for a slot, or for all parts of one that was split."""
    head = whole.get((row.scope, fold_name(row.name)), row)
    return head.scope, fold_name(head.name)


def _sweep(table: SlotTable, op: SweepSlots, now: float) -> int:
    scope = Scope(op.app, shared=True) if op.app is not None else Scope(shared=True)
    event = _timer(now, scope, "slot.sweep", op.actor)
    due = table.over(op.app, now=now, hidden_before=now - op.undo_s)
    over = [(place, folded) for place, folded in due if not any(one.holds(place) for one in op.spared)]
    for place, folded in over:
        table.remove(place, folded)
    if over:
        table.log([event(None, outcome="ok", why=f"{len(over)} slots")])
    return len(over)


def _timer(now: float, scope: Scope, op: str, actor: str) -> Callable[..., Event]:
    """Makes the op's event, with the seconds since this call as its duration. found_in: not the op's own scope."""
    started = time.perf_counter()

    def event(
        slot: Slot | None, *, found_in: Scope = scope, name: str = "", outcome: str = "NotFoundError", why: str = ""
    ) -> Event:
        return Event(
            now,
            found_in,
            op,
            storable(actor),
            slot.name if slot is not None else storable(name[:80]),
            version=slot.version if slot is not None else 0,
            bytes=slot.bytes if slot is not None else 0,
            outcome="ok" if slot is not None else outcome,
            why=storable(why),
            duration_s=time.perf_counter() - started,
        )

    return event


_BY_TYPE: Final[Mapping[type, Callable[[SlotTable, Any, float], Any]]] = {
    GetSlot: _get,
    PutSlot: _put,
    SlotHistory: _history,
    ForgetSlot: _forget,
    RestoreSlot: _restore,
    GuardSlot: _guard,
    EraseSlots: _erase,
    SweepSlots: _sweep,
    MoveSlots: _move,
}
