"""Rows of the SQLite tables as records, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from offprompt.records import Event, Place, Scope, Slot, SlotVersion, fold_name
from offprompt.stores._values import storable

SLOT_ROWS: Final = (
    "SELECT s.app, s.user, s.agent, s.session, s.name, v.value, s.version, v.policy, v.trust, v.source, v.actor, "
    "s.created_at, v.written_at, v.bytes, s.expires_at, s.ttl_s, s.sliding, s.tags, s.importance, s.uses, s.used_at, "
    "s.schema, s.parts, s.forgotten_at, s.allow, s.locked, s.recent "
    "FROM slots s JOIN versions v USING (app, user, agent, session, folded, version) "
)
THE_SLOT: Final = "app = ? AND user = ? AND agent = ? AND session = ? AND folded = ?"
THE_SCOPE: Final = "app = ? AND user = ? AND agent = ? AND session = ?"
EVENT_COLUMNS: Final = (
    "at, app, user, agent, session, op, actor, name, version, bytes, outcome, why, duration_s"  # seq is SQLite's
)


def slot_of(row: Sequence[Any]) -> Slot:
    """The slot of a row of SLOT_ROWS."""
    return Slot(
        Scope.from_key((row[0], row[1], row[2], row[3])),
        row[4],
        json.loads(row[5]),
        *row[6:16],
        sliding=bool(row[16]),
        tags=tuple(json.loads(row[17])),
        importance=row[18],
        uses=row[19],
        used_at=row[20],
        schema=None if row[21] is None else json.loads(row[21]),
        parts=row[22],
        forgotten_at=row[23],
        allow=tuple(Place(*place) for place in json.loads(row[24])),
        locked=bool(row[25]),
        recent=tuple(json.loads(row[26])),
    )


def slot_values(slot: Slot) -> tuple[Any, ...]:
    """The slot as a row of table `slots`, in its column order."""
    return (
        *slot.scope.key,
        fold_name(slot.name),
        slot.name,
        slot.version,
        slot.created_at,
        slot.expires_at,
        slot.ttl_s,
        slot.sliding,
        json.dumps(slot.tags),
        slot.importance,
        slot.uses,
        slot.used_at,
        None if slot.schema is None else json.dumps(slot.schema),
        slot.parts,
        slot.forgotten_at,
        allow_text(slot),
        slot.locked,
        json.dumps(slot.recent),
    )


def allow_text(slot: Slot) -> str:
    """The slot's places as JSON: a list of [tool, argument, host]."""
    places = [[place.tool, place.argument, place.host] for place in slot.allow]
    return json.dumps(places, ensure_ascii=False, separators=(",", ":"))


def version_values(slot: Slot, op_key: str | None) -> tuple[Any, ...]:
    """The slot's current version as a row of table `versions`, in its column order."""
    value = json.dumps(slot.value, ensure_ascii=False, separators=(",", ":"))
    written = (slot.policy, slot.trust, slot.source, slot.actor, slot.updated_at, slot.bytes)
    return (*slot.scope.key, fold_name(slot.name), slot.version, value, *written, "written", op_key)


def version_of(row: Sequence[Any]) -> SlotVersion:
    """The version of (version, value, policy, trust, source, actor, written_at, bytes, outcome)."""
    return SlotVersion(row[0], json.loads(row[1]), *row[2:])


def event_values(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """The events as rows of EVENT_COLUMNS."""
    return [
        (
            event.at,
            *event.scope.key,
            event.op,
            storable(event.actor),
            storable(event.name),
            event.version,
            event.bytes,
            event.outcome,
            storable(event.why),
            event.duration_s,
        )
        for event in events
    ]


def event_of(row: Sequence[Any]) -> Event:
    """The event of a row of seq and EVENT_COLUMNS."""
    return Event(row[1], Scope.from_key((row[2], row[3], row[4], row[5])), *row[6:], seq=row[0])


def in_subtree(scope: Scope | None) -> tuple[str, list[str]]:
    """A condition that holds for the scope's subtree (None: for all), and its parameters."""
    if scope is None:
        return "1", []
    ids = zip(("user", "agent", "session"), scope.key[1:], strict=True)
    given = [("app", scope.app), *((kind, value) for kind, value in ids if value)]
    return " AND ".join(f"{kind} = ?" for kind, _ in given), [value for _, value in given]
