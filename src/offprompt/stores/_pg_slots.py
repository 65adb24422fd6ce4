"""Slots in PostgreSQL tables, within one transaction."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from offprompt.records import (
    RULES,
    Event,
    ForgetSlot,
    GetSlot,
    GuardSlot,
    Measured,
    PutSlot,
    RestoreSlot,
    Scope,
    Slot,
    SlotOp,
    SlotVersion,
    fold_name,
)
from offprompt.stores import _rules as rules
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_rows import PLACE, THE_SCOPE, THE_SLOT, columns_of, in_subtree, marks
from offprompt.stores._rows import (
    allow_text,
    event_of,
    event_values,
    slot_of,
    slot_values,
    version_of,
    version_values,
)
from offprompt.stores._touches import SlotKey, Touch, Touches, slot_key, summed, touch_of

Key: TypeAlias = tuple[str, str, str, str, str]
"""Scope key and folded name."""

SLOT_ROWS: Final = (
    'SELECT s.app, s."user", s.agent, s.session, s.name, v.value, s.version, v.policy, v.trust, v.source, v.actor, '
    "s.created_at, v.written_at, v.bytes, s.expires_at, s.ttl_s, s.sliding, s.tags, s.importance, s.uses, s.used_at, "
    "s.schema, s.parts, s.forgotten_at, s.allow, s.locked, s.recent "
    f"FROM slots s JOIN versions v USING ({PLACE}, folded, version) "
)
_SLOT_COLUMNS: Final = (
    "name, version, created_at, expires_at, ttl_s, sliding, tags, importance, uses, used_at, schema, parts, "
    "forgotten_at, allow, locked, recent"
)
_PUT: Final = (
    f"INSERT INTO slots ({PLACE}, folded, {_SLOT_COLUMNS}) VALUES ({marks(21)}) ON CONFLICT ({PLACE}, folded) "
    f"DO UPDATE SET ({_SLOT_COLUMNS}) = "
    f"({', '.join('excluded.' + name.strip() for name in _SLOT_COLUMNS.split(','))})"
)
_PUT_VERSION: Final = (
    f"INSERT INTO versions ({PLACE}, folded, version, value, policy, trust, source, actor, written_at, bytes, outcome, "
    f"op_key) VALUES ({marks(15)})"
)
EVENT_COLUMNS: Final = f"at, {PLACE}, op, actor, name, version, bytes, outcome, why, duration_s"  # seq is PostgreSQL's
_EVENT: Final = f"INSERT INTO events ({EVENT_COLUMNS}) VALUES ({marks(13)})"
_TOUCH: Final = (
    "UPDATE slots SET uses = uses + %s, used_at = greatest(coalesce(used_at, %s), %s), expires_at = CASE "
    "WHEN sliding = 1 AND expires_at < %s::float8 THEN %s::float8 ELSE expires_at END WHERE "
    + THE_SLOT
    + " AND created_at = %s"
)
_AT_KEYS: Final = (
    f"({PLACE}, folded) IN (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[]))"
)

_MARKS: Final = f"SELECT {PLACE}, folded, version, trust, op_key FROM versions WHERE {_AT_KEYS} ORDER BY version"


class PgSlots:
    """A SlotTable over one connection in a transaction.

    waiting    the uses that the store keeps back: they are laid over what is read, and new ones are left in
               `touches` for the store. None in a write transaction, which stores them itself.
    most       rows that a sweep takes at once.
    """

    def __init__(self, statements: Statements, waiting: Touches | None = None, *, most: int | None = None) -> None:
        self._db = statements
        self._waiting = waiting
        self._most = most
        self._stored: dict[SlotKey, Slot] = {}
        self._touched: dict[SlotKey, Slot] = {}
        self._ahead: dict[Key, tuple[Sequence[Any] | None, list[rules.Mark]]] = {}
        self.touches: list[Touch] = []

    def expect(self, ops: Sequence[SlotOp[Any]]) -> None:
        """Read what the ops will ask for first, in one go; it is used until something is written over it."""
        keys = {
            (*scope.key, rules.lookup_form(op.name)) for op in ops if isinstance(op, GetSlot) for scope in op.scopes
        }
        named = [op for op in ops if isinstance(op, (PutSlot, ForgetSlot, RestoreSlot, GuardSlot))]
        keys |= {(*op.scope.key, rules.lookup_form(op.name)) for op in named}
        if not keys:
            return
        given = columns_of(keys, 5)
        slots = self._db.later(f"{SLOT_ROWS}WHERE {_AT_KEYS}", given)
        versions = self._db.rows(_MARKS, given) if named else []
        self._ahead = {key: (None, []) for key in keys}
        for row in slots():
            key = (row[0], row[1], row[2], row[3], fold_name(row[4]))
            self._ahead[key] = (row, [])
        for row in versions:
            self._ahead[row[0], row[1], row[2], row[3], row[4]][1].append(rules.Mark(*row[5:]))

    def load(self, scope: Scope, folded: str) -> Slot | None:
        key = (*scope.key, folded)
        row = self._ahead[key][0] if key in self._ahead else self._db.row(f"{SLOT_ROWS}WHERE {THE_SLOT}", key)
        return self._with_waiting(slot_of(row)) if row is not None else None

    def marks(self, scope: Scope, folded: str) -> list[rules.Mark]:
        key = (*scope.key, folded)
        if key in self._ahead:
            return self._ahead[key][1]
        rows = self._db.rows(f"SELECT version, trust, op_key FROM versions WHERE {THE_SLOT} ORDER BY version", key)
        return [rules.Mark(*row) for row in rows]

    def versions(self, scope: Scope, folded: str) -> list[SlotVersion]:
        rows = self._db.rows(
            "SELECT version, value, policy, trust, source, actor, written_at, bytes, outcome FROM versions WHERE "
            f"{THE_SLOT} ORDER BY version",
            (*scope.key, folded),
        )
        return [version_of(row) for row in rows]

    def count_live(self, scope: Scope, now: float) -> int:
        row = self._db.row(
            f"SELECT count(*) FROM slots JOIN versions USING ({PLACE}, folded, version) WHERE {THE_SCOPE} "
            "AND forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > %s) AND actor <> %s",
            (*scope.key, now, RULES),
        )
        return row[0] if row is not None else 0

    def measure(self, app: str, now: float) -> Measured:
        row = self._db.row(
            f"SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM slots JOIN versions USING ({PLACE}, folded, "
            "version) WHERE app = %s AND forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > %s)",
            (app, now),
        )
        return Measured(*row) if row is not None else Measured(0, 0)

    def rows(self, scope: Scope, *, subtree: bool) -> list[Slot]:
        where, given = in_subtree(scope) if subtree else (THE_SCOPE, list(scope.key))
        rows = self._db.rows(f"{SLOT_ROWS}WHERE {where} ORDER BY {PLACE}, folded", given)
        return [self._with_waiting(slot_of(row)) for row in rows]

    def over(self, app: str | None, *, now: float, hidden_before: float) -> list[tuple[Scope, str]]:
        where, given = ("app = %s", [app]) if app is not None else ("true", [])
        rows = self._db.rows(
            f"SELECT {PLACE}, folded FROM slots WHERE (expires_at <= %s OR forgotten_at <= %s) AND {where} LIMIT %s",
            (now, hidden_before, *given, self._most),
        )
        return [(Scope.from_key((row[0], row[1], row[2], row[3])), row[4]) for row in rows]

    def put(self, folded: str, planned: rules.PlannedPut) -> None:
        slot = planned.slot
        key = (*slot.scope.key, folded)
        if planned.fresh and self._ahead.get(key) != (None, []):
            self.remove(slot.scope, folded)
        for version in planned.drop:
            self._db.run(f"DELETE FROM versions WHERE {THE_SLOT} AND version = %s", (*key, version))
        self._db.run(_PUT, slot_values(slot))
        self._db.run(_PUT_VERSION, version_values(slot, planned.op_key))
        self._ahead.pop(key, None)

    def show(self, slot: Slot, outcome: rules.Outcome) -> None:
        key = (*slot.scope.key, fold_name(slot.name))
        self._db.run(f"UPDATE slots SET forgotten_at = %s WHERE {THE_SLOT}", (slot.forgotten_at, *key))
        self._db.run(
            f"UPDATE versions SET outcome = %s WHERE {THE_SLOT} AND version = %s", (outcome, *key, slot.version)
        )
        self._ahead.pop(key, None)

    def guard(self, slot: Slot) -> None:
        key = (*slot.scope.key, fold_name(slot.name))
        self._db.run(
            f"UPDATE slots SET allow = %s, locked = %s WHERE {THE_SLOT}", (allow_text(slot), int(slot.locked), *key)
        )
        self._ahead.pop(key, None)

    def touch(self, before: Slot, after: Slot, event: Event) -> None:
        key = slot_key(before)
        if self._waiting is not None:
            self.touches.append(touch_of(key, self._stored[key], after, event))
            self._touched[key] = after
        else:
            self.store_touches([touch_of(key, before, after, event)])

    def miss(self, event: Event) -> None:
        if self._waiting is not None:
            self.touches.append(Touch(None, None, event))
        else:
            self.log([event])

    def remove(self, scope: Scope, folded: str) -> None:
        key = (*scope.key, folded)
        for table in ("versions", "slots"):
            self._db.run(f"DELETE FROM {table} WHERE {THE_SLOT}", key)
        self._ahead.pop(key, None)

    def move(self, slot: Slot, to: Scope) -> None:
        folded = fold_name(slot.name)
        for table in ("versions", "slots"):
            self._db.run(
                f"UPDATE {table} SET ({PLACE}) = ({marks(4)}) WHERE {THE_SLOT}", (*to.key, *slot.scope.key, folded)
            )
        for scope in (slot.scope, to):
            self._ahead.pop((*scope.key, folded), None)

    def log(self, events: Sequence[Event]) -> None:
        self._db.many(_EVENT, event_values(events))

    def store_touches(self, touches: Sequence[Touch]) -> None:
        """Store uses that waited; those of slots that are gone leave only their events."""
        for (key, folded, created_at), uses in summed(touches).items():
            at, expires_at = uses.used_at, uses.expires_at
            self._db.run(_TOUCH, (uses.count, at, at, expires_at, expires_at, *key, folded, created_at))
            self._ahead.pop((*key, folded), None)
        self.log([touch.event for touch in touches])

    def events(self, scope: Scope | None, op: str | None, after: int, limit: int) -> list[Event]:
        """See SlotStore.events."""
        where, given = in_subtree(scope)
        rows = self._db.rows(
            f"SELECT seq, {EVENT_COLUMNS} FROM events WHERE {where} AND starts_with(op, %s) AND seq > %s "
            "ORDER BY seq LIMIT %s",
            (*given, op or "", after, max(0, limit)),
        )
        return [event_of(row) for row in rows]

    def _with_waiting(self, slot: Slot) -> Slot:
        if self._waiting is None:
            return slot
        key = slot_key(slot)
        self._stored[key] = slot
        return self._touched.get(key) or self._waiting.over(slot, key)
