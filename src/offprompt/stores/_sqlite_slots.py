"""Slots in SQLite tables, within one transaction."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from offprompt.records import RULES, Event, Measured, Scope, Slot, SlotVersion, fold_name
from offprompt.stores import _rules as rules
from offprompt.stores._rows import (
    allow_text,
    event_of,
    event_values,
    slot_of,
    slot_values,
    version_of,
    version_values,
)
from offprompt.stores._sqlite_rows import EVENT_COLUMNS, SLOT_ROWS, THE_SCOPE, THE_SLOT, in_subtree
from offprompt.stores._touches import SlotKey, Touch, Touches, slot_key, summed, touch_of

_THE_SLOT_ROW: Final = SLOT_ROWS + "WHERE " + THE_SLOT
_MARKS: Final = "SELECT version, trust, op_key FROM versions WHERE " + THE_SLOT + " ORDER BY version"
_TOUCH: Final = (
    "UPDATE slots SET uses = uses + ?, used_at = max(coalesce(used_at, ?), ?), "
    "expires_at = CASE WHEN sliding AND expires_at < ? THEN ? ELSE expires_at END WHERE "
    + THE_SLOT
    + " AND created_at = ?"
)
_LOG: Final = f"INSERT INTO events ({EVENT_COLUMNS}) VALUES ({', '.join('?' * 13)})"


class SqliteTable:
    """A SlotTable over one connection in a transaction.

    waiting    the uses that the store keeps back: they are laid over what is read, and new ones are left in
               `touches` for the store. None in a write transaction, which stores them itself.
    """

    def __init__(self, connection: sqlite3.Connection, waiting: Touches | None) -> None:
        self._sql = connection.execute
        self._many = connection.executemany
        self._waiting = waiting
        self._stored: dict[SlotKey, Slot] = {}
        self._touched: dict[SlotKey, Slot] = {}
        self.touches: list[Touch] = []

    def load(self, scope: Scope, folded: str) -> Slot | None:
        row = self._sql(_THE_SLOT_ROW, (*scope.key, folded)).fetchone()
        return self._with_waiting(slot_of(row)) if row is not None else None

    def marks(self, scope: Scope, folded: str) -> list[rules.Mark]:
        return [rules.Mark(*row) for row in self._sql(_MARKS, (*scope.key, folded))]

    def versions(self, scope: Scope, folded: str) -> list[SlotVersion]:
        rows = self._sql(
            "SELECT version, value, policy, trust, source, actor, written_at, bytes, outcome FROM versions WHERE "
            + THE_SLOT
            + " ORDER BY version",
            (*scope.key, folded),
        )
        return [version_of(row) for row in rows]

    def count_live(self, scope: Scope, now: float) -> int:
        return self._sql(
            "SELECT count(*) FROM slots JOIN versions USING (app, user, agent, session, folded, version) WHERE "
            + THE_SCOPE
            + " AND forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > ?) AND actor <> ?",
            (*scope.key, now, RULES),
        ).fetchone()[0]

    def measure(self, app: str, now: float) -> Measured:
        sql = (
            "SELECT count(*), coalesce(sum(bytes), 0) FROM slots JOIN versions USING (app, user, agent, session, "
            "folded, version) WHERE app = ? AND forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
        )
        return Measured(*self._sql(sql, (app, now)).fetchone())

    def rows(self, scope: Scope, *, subtree: bool) -> list[Slot]:
        if subtree:
            where, given = in_subtree(scope)
        else:
            where, given = THE_SCOPE, list(scope.key)
        return [self._with_waiting(slot_of(row)) for row in self._sql(SLOT_ROWS + "WHERE " + where, given)]

    def over(self, app: str | None, *, now: float, hidden_before: float) -> list[tuple[Scope, str]]:
        rows = self._sql(
            "SELECT app, user, agent, session, folded FROM slots "
            "WHERE (expires_at <= ? OR forgotten_at <= ?) AND (? IS NULL OR app = ?)",
            (now, hidden_before, app, app),
        )
        return [(Scope.from_key((row[0], row[1], row[2], row[3])), row[4]) for row in rows.fetchall()]

    def put(self, folded: str, planned: rules.PlannedPut) -> None:
        slot = planned.slot
        if planned.fresh:
            self.remove(slot.scope, folded)
        for version in planned.drop:
            self._sql("DELETE FROM versions WHERE " + THE_SLOT + " AND version = ?", (*slot.scope.key, folded, version))
        self._sql(f"INSERT OR REPLACE INTO slots VALUES ({_marks(21)})", slot_values(slot))
        self._sql(f"INSERT INTO versions VALUES ({_marks(15)})", version_values(slot, planned.op_key))

    def show(self, slot: Slot, outcome: rules.Outcome) -> None:
        key = (*slot.scope.key, fold_name(slot.name))
        self._sql("UPDATE slots SET forgotten_at = ? WHERE " + THE_SLOT, (slot.forgotten_at, *key))
        self._sql(
            "UPDATE versions SET outcome = ? WHERE " + THE_SLOT + " AND version = ?", (outcome, *key, slot.version)
        )

    def guard(self, slot: Slot) -> None:
        key = (*slot.scope.key, fold_name(slot.name))
        self._sql("UPDATE slots SET allow = ?, locked = ? WHERE " + THE_SLOT, (allow_text(slot), slot.locked, *key))

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
        for table in ("versions", "slots"):
            self._sql(f"DELETE FROM {table} WHERE {THE_SLOT}", (*scope.key, folded))

    def move(self, slot: Slot, to: Scope) -> None:
        for table in ("versions", "slots"):
            self._sql(
                f"UPDATE {table} SET (app, user, agent, session) = ({_marks(4)}) WHERE {THE_SLOT}",
                (*to.key, *slot.scope.key, fold_name(slot.name)),
            )

    def log(self, events: Sequence[Event]) -> None:
        rows = event_values(events)
        if len(rows) == 1:
            self._sql(_LOG, rows[0])
        else:
            self._many(_LOG, rows)

    def store_touches(self, touches: Sequence[Touch]) -> None:
        """Store uses that waited; those of slots that are gone leave only their events."""
        for (key, folded, created_at), uses in summed(touches).items():
            at, expires_at = uses.used_at, uses.expires_at
            self._sql(_TOUCH, (uses.count, at, at, expires_at, expires_at, *key, folded, created_at))
        self.log([touch.event for touch in touches])

    def events(self, scope: Scope | None, op: str | None, after: int, limit: int) -> list[Event]:
        """See SlotStore.events."""
        where, given = in_subtree(scope)
        rows = self._sql(
            f"SELECT seq, {EVENT_COLUMNS} FROM events "
            f"WHERE {where} AND substr(op, 1, length(?)) = ? AND seq > ? ORDER BY seq LIMIT ?",
            (*given, op or "", op or "", after, max(0, limit)),
        )
        return [event_of(row) for row in rows]

    def _with_waiting(self, slot: Slot) -> Slot:
        if self._waiting is None:
            return slot
        key = slot_key(slot)
        self._stored[key] = slot
        return self._touched.get(key) or self._waiting.over(slot, key)


def _marks(count: int) -> str:
    return ", ".join("?" * count)
