"""What the engine that ends with the process keeps, as rows of `records.tables`, and back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from offprompt.records import Event, Indexed, MemoryVersion, SlotVersion
from offprompt.records.tables import Row, Table
from offprompt.stores._blobs import decode, encode
from offprompt.stores._memory_rows import MemoryRows
from offprompt.stores._rows import event_of, event_values, memory_of, memory_values, slot_of, slot_values
from offprompt.stores._session_rows import KeptSession
from offprompt.stores._slot_rows import Key, SlotRow, SlotRows


@dataclass(frozen=True, slots=True)
class InProcessTables:
    """The rows of an in-process store, whose parts these are. Cost of a page: O(table)."""

    slots: SlotRows
    memories: MemoryRows
    sessions: dict[Key, KeptSession]
    keys: dict[tuple[str, str, str], bytes]

    def scan(self, table: Table, after: Row | None) -> list[Row]:
        """All rows with a greater key, in order."""
        read: Callable[[], Iterable[Row]] = getattr(self, f"_{table.name}")
        keyed = [(cast("tuple[Any, ...]", table.key_of(row)), row) for row in read()]
        return [row for key, row in sorted(keyed) if after is None or key > after]

    def put(self, name: str, rows: Sequence[Row]) -> None:
        """Store rows, those with the same key anew."""
        store: Callable[[Any], None] = getattr(self, f"_put_{name}")
        for row in rows:
            store(row)

    def clear(self, name: str) -> None:
        """Remove all rows of a table; sessions and slots go with what is theirs."""
        kept: dict[str, Any] = {
            "digest_keys": self.keys,
            "aliases": self.memories.joined,
            "slots": self.slots.scopes,
            "memories": self.memories.memories,
            "memory_versions": self.memories.notes,
            "memory_keys": self.memories.keys,
            "memory_index": self.memories.derived,
            "memory_scopes": self.memories.revisions,
            "sessions": self.sessions,
            "events": self.slots.events,
        }
        if name in kept:
            kept[name].clear()
        elif name == "versions":
            for key, folded, row in list(self._rows()):
                self.slots.scopes[key][folded] = replace(row, versions=())
        else:
            for key, one in self.sessions.items():
                self.sessions[key] = replace(one, **{name: {}})

    def _rows(self) -> Iterator[tuple[Key, str, SlotRow]]:
        return ((key, folded, row) for key, rows in self.slots.scopes.items() for folded, row in rows.items())

    def _slots(self) -> Iterator[Row]:
        return (slot_values(row.slot) for _, _, row in self._rows())

    def _put_slots(self, cells: tuple[Any, ...]) -> None:
        key, folded = cells[:4], cells[4]
        old = self.slots.scopes.get(key, {}).get(folded)
        # What belongs to the version comes with its row.
        written = ("null" if old is None else json.dumps(old.slot.value), cells[6], "by_handle", "user", "app", "app")
        slot = slot_of((*key, cells[5], *written, cells[7], cells[7], 0, *cells[8:]))
        versions = old.versions if old is not None else ()
        self.slots.scopes.setdefault(key, {})[folded] = _current(SlotRow(slot, versions))

    def _versions(self) -> Iterator[Row]:
        for key, folded, row in self._rows():
            for one, op_key in row.versions:
                value = json.dumps(one.value, ensure_ascii=False, separators=(",", ":"))
                written = (one.policy, one.trust, one.source, one.actor, one.written_at, one.bytes, one.outcome)
                yield (*key, folded, one.version, value, *written, op_key)

    def _put_versions(self, cells: tuple[Any, ...]) -> None:
        key, folded = cells[:4], cells[4]
        row = self.slots.scopes[key][folded]
        version = SlotVersion(cells[5], json.loads(cells[6]), *cells[7:14])
        rest = [one for one in row.versions if one[0].version != version.version]
        versions = sorted([*rest, (version, cells[14])], key=lambda one: one[0].version)
        self.slots.scopes[key][folded] = _current(replace(row, versions=tuple(versions)))

    def _events(self) -> Iterator[Row]:
        return (
            (one.seq, *values) for one, values in zip(self.slots.events, event_values(self.slots.events), strict=True)
        )

    def _put_events(self, cells: tuple[Any, ...]) -> None:
        event: Event = event_of(cells)
        rest = [one for one in self.slots.events if one.seq != event.seq] if self._has(event.seq) else self.slots.events
        self.slots.events[:] = sorted([*rest, event], key=lambda one: one.seq)

    def _has(self, seq: int) -> bool:
        return bool(self.slots.events) and seq <= self.slots.events[-1].seq

    def _memories(self) -> Iterator[Row]:
        return (memory_values(memory) for memory in self.memories.memories.values())

    def _put_memories(self, cells: tuple[Any, ...]) -> None:
        self.memories.memories[cells[0], cells[4]] = memory_of(cells[16])

    def _memory_versions(self) -> Iterator[Row]:
        for (app, memory_id), versions in self.memories.notes.items():
            for number, version in enumerate(versions, 1):
                yield app, memory_id, number, encode(version)

    def _put_memory_versions(self, cells: tuple[Any, ...]) -> None:
        before = self.memories.notes.get(cells[:2], ())
        at = cells[2] - 1
        self.memories.notes[cells[:2]] = (*before[:at], decode(cells[3], MemoryVersion), *before[at + 1 :])

    def _memory_keys(self) -> Iterator[Row]:
        return ((*key, op_key, memory_id) for (key, op_key), memory_id in self.memories.keys.items())

    def _put_memory_keys(self, cells: tuple[Any, ...]) -> None:
        self.memories.keys[cells[:4], cells[4]] = cells[5]

    def _memory_index(self) -> Iterator[Row]:
        return (
            (app, memory_id, one.version, one.content, one.embedder)
            for (app, memory_id), one in self.memories.derived.items()
        )

    def _put_memory_index(self, cells: tuple[Any, ...]) -> None:
        self.memories.derived[cells[:2]] = Indexed(*cells[1:])

    def _memory_scopes(self) -> Iterator[Row]:
        return ((*key, *revisions) for key, revisions in self.memories.revisions.items())

    def _put_memory_scopes(self, cells: tuple[Any, ...]) -> None:
        self.memories.revisions[cells[:4]] = cells[4:]

    def _aliases(self) -> Iterator[Row]:
        return ((*key, new) for key, new in self.memories.joined.items())

    def _put_aliases(self, cells: tuple[Any, ...]) -> None:
        self.memories.joined[cells[:2]] = cells[2]

    def _digest_keys(self) -> Iterator[Row]:
        return ((*owner, key) for owner, key in self.keys.items())

    def _put_digest_keys(self, cells: tuple[Any, ...]) -> None:
        self.keys[cells[:3]] = cells[3]

    def _sessions(self) -> Iterator[Row]:
        return ((*key, one.revision, one.used_at, one.record) for key, one in self.sessions.items())

    def _put_sessions(self, cells: tuple[Any, ...]) -> None:
        old = self.sessions.get(cells[:4], KeptSession("", 0, 0.0))
        self.sessions[cells[:4]] = replace(old, revision=cells[4], used_at=cells[5], record=cells[6])

    def _journal(self) -> Iterator[Row]:
        return self._numbered("journal")

    def _put_journal(self, cells: tuple[Any, ...]) -> None:
        self.sessions[cells[:4]].journal[cells[5]] = cells[6]

    def _bodies(self) -> Iterator[Row]:
        return self._numbered("bodies")

    def _put_bodies(self, cells: tuple[Any, ...]) -> None:
        self.sessions[cells[:4]].bodies[cells[5]] = cells[6]

    def _ledger(self) -> Iterator[Row]:
        return ((*key, seq, text) for key, one in self.sessions.items() for seq, text in one.ledger.items())

    def _put_ledger(self, cells: tuple[Any, ...]) -> None:
        self.sessions[cells[:4]].ledger[cells[4]] = cells[5]

    def _numbered(self, name: str) -> Iterator[Row]:
        for key, one in self.sessions.items():
            texts: dict[str, str] = getattr(one, name)
            for seq, (own, text) in enumerate(texts.items(), 1):
                yield *key, seq, own, text


def _current(row: SlotRow) -> SlotRow:
    """The row with its slot as its current version has it."""
    current = next((one for one, _ in row.versions if one.version == row.slot.version), None)
    if current is None:
        return row
    written = {"policy": current.policy, "trust": current.trust, "source": current.source, "actor": current.actor}
    value = copy.deepcopy(current.value)
    slot = replace(row.slot, value=value, updated_at=current.written_at, bytes=current.bytes, **written)
    return replace(row, slot=slot)
