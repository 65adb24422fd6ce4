"""Records as rows of the relational engines' tables, and back: the same columns and texts in each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from offprompt.records import Event, Memory, Place, Scope, Slot, SlotVersion, fold_name
from offprompt.records.json import compact
from offprompt.stores._blobs import decode
from offprompt.stores._values import storable

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Memory)
_PARSE: Final = msgspec.json.Decoder().decode


def parsed(text: str) -> Any:
    """A stored JSON text's value, as `json.loads` reads it, sooner."""
    try:
        return _PARSE(text)
    except msgspec.DecodeError:
        return json.loads(text)


def slot_of(row: Sequence[Any]) -> Slot:
    """The slot of a joined row: its columns in the order of `Slot`'s fields."""
    tags, schema, allow, recent = row[17], row[21], row[24], row[26]
    return Slot(
        Scope.from_key((row[0], row[1], row[2], row[3])),
        row[4],
        parsed(row[5]),
        *row[6:16],
        sliding=bool(row[16]),
        tags=() if tags == "[]" else tuple(json.loads(tags)),
        importance=row[18],
        uses=row[19],
        used_at=row[20],
        schema=None if schema is None else json.loads(schema),
        parts=row[22],
        forgotten_at=row[23],
        allow=() if allow == "[]" else tuple(Place(*place) for place in json.loads(allow)),
        locked=bool(row[25]),
        recent=() if recent == "[]" else tuple(json.loads(recent)),
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
        int(slot.sliding),
        json.dumps(slot.tags) if slot.tags else "[]",
        slot.importance,
        slot.uses,
        slot.used_at,
        None if slot.schema is None else json.dumps(slot.schema),
        slot.parts,
        slot.forgotten_at,
        allow_text(slot),
        int(slot.locked),
        json.dumps(slot.recent) if slot.recent else "[]",
    )


def allow_text(slot: Slot) -> str:
    """The slot's places as JSON: a list of [tool, argument, host]."""
    if not slot.allow:
        return "[]"
    places = [[place.tool, place.argument, place.host] for place in slot.allow]
    return json.dumps(places, ensure_ascii=False, separators=(",", ":"))


def version_values(slot: Slot, op_key: str | None) -> tuple[Any, ...]:
    """The slot's current version as a row of table `versions`, in its column order."""
    value = compact(slot.value)
    written = (slot.policy, slot.trust, slot.source, slot.actor, slot.updated_at, slot.bytes)
    return (*slot.scope.key, fold_name(slot.name), slot.version, value, *written, "written", op_key)


def version_of(row: Sequence[Any]) -> SlotVersion:
    """The version of (version, value, policy, trust, source, actor, written_at, bytes, outcome)."""
    return SlotVersion(row[0], parsed(row[1]), *row[2:])


def event_values(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """The events as rows of table `events`, without their number."""
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
    """The event of a row of table `events`."""
    return Event(row[1], Scope.from_key((row[2], row[3], row[4], row[5])), *row[6:], seq=row[0])


def memory_of(text: str) -> Memory:
    """The memory of a row's record.

    Raises   BackendError if it cannot be read.
    """
    try:
        return _DECODER.decode(text)
    except (ValueError, msgspec.ValidationError):
        # Slower, and says what is wrong.
        return decode(text, Memory)


def memory_values(memory: Memory) -> tuple[Any, ...]:
    """The memory as a row of table `memories`, in its column order."""
    return (
        *memory.scope.key,
        memory.memory_id,
        memory.kind,
        memory.state,
        memory.state_at,
        memory.digest,
        memory.subject,
        memory.attribute,
        memory.session,
        memory.happened_at,
        None if memory.pinned else memory.expires_at,
        max(memory.updated_at, memory.used_at or 0.0),
        memory.revision,
        _ENCODER.encode(memory).decode(),
    )
