"""Rows of the tables of `records.tables`, sealed and opened: what a copy moves, and what `reseal` looks at."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from offprompt.protocols.sealing import Owner, Resealed, ResealWork, Sealer
from offprompt.records import Body, JournalEntry, MemoryVersion, Scope, SessionRecord
from offprompt.records.memory import Indexed
from offprompt.records.scope import key_owner
from offprompt.records.tables import TABLES, Row
from offprompt.stores import _sealed_memories as memories
from offprompt.stores import _sealed_sessions as sessions
from offprompt.stores import _sealed_slots as slots
from offprompt.stores._blobs import decode, encode
from offprompt.stores._rows import memory_of, memory_values
from offprompt.stores._sealed import MARK, Seal, is_sealed, moved, sealed_part

ScopeOf: TypeAlias = Callable[[str, str], Scope | None]
"""The scope of a memory, by its app and id."""

Cells: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SealedRows:
    """Seals and opens rows. scope_of: rows that tell no scope are of a memory."""

    sealer: Sealer
    scope_of: ScopeOf
    _seal: list[Seal] = field(default_factory=list[Seal])

    @property
    def seal(self) -> Seal:
        """Of this one transaction."""
        if not self._seal:
            self._seal.append(Seal(self.sealer))
        return self._seal[0]

    def opened(self, table: str, rows: Sequence[Row]) -> list[Row]:
        """The rows, opened; without those whose key was destroyed."""
        work = _OPEN.get(table)
        if work is None:
            return list(rows)
        found = (work(self, _cells(table, row)) for row in rows)
        return [_row(table, cells) for cells in found if cells is not None]

    def sealed(self, table: str, rows: Sequence[Row]) -> list[Row]:
        """The rows, sealed."""
        work = _SEAL.get(table)
        return list(rows) if work is None else [_row(table, work(self, _cells(table, row))) for row in rows]

    def owner(self, cells: Cells) -> Owner:
        """Whose key seals a row."""
        if "kind" in cells and "id" in cells:
            return cells["app"], cells["kind"], cells["id"]
        if "user" in cells:
            return key_owner(Scope.from_key(_key(cells)))
        scope = self.scope_of(cells["app"], cells["memory_id"])
        return (cells["app"], "shared", "") if scope is None else key_owner(scope)

    def looked_at(self, table: str, rows: Sequence[Row], work: ResealWork) -> Page:
        """What is to be done with rows: see Sealable.reseal."""
        page = Page(len(rows))
        for row in rows if table in _SEAL else ():
            self._look(page, table, row, work)
        return page

    def _look(self, page: Page, table: str, row: Row, work: ResealWork) -> None:
        cells = _cells(table, row)
        parts = list(_parts(table, cells))
        if not all(map(is_sealed, parts)):
            page.plain += 1
            if work in ("seal", "anew"):
                is_part_sealed = any(map(is_sealed, parts))
                opened = _OPEN[table](self, dict(cells)) if is_part_sealed else cells
                page.changed += [] if opened is None else [_row(table, _SEAL[table](self, opened))]
            return
        if not parts:
            return
        opened = _OPEN[table](self, dict(cells))
        if opened is None:
            page.lost[self.owner(cells)] += 1
            page.gone += [row] if work == "purge" else []
        elif work == "anew" and not all(self._is_current(table, cells, part) for part in parts):
            page.changed.append(_row(table, _SEAL[table](self, opened)))

    def _is_current(self, table: str, cells: Cells, part: object) -> bool:
        sealed = part[len(MARK) :] if isinstance(part, bytes) else sealed_part(str(part), (table,))
        return self.sealer.is_current(self.owner(cells), sealed)


@dataclass(slots=True)
class Page:
    """What `looked_at` found: rows that are to be put, sealed; rows that nobody can open."""

    rows: int = 0
    plain: int = 0
    changed: list[Row] = field(default_factory=list[Row])
    gone: list[Row] = field(default_factory=list[Row])
    lost: Counter[Owner] = field(default_factory=Counter[Owner])

    def add(self, other: Page) -> None:
        """Count another page's work with this one's."""
        self.rows, self.plain = self.rows + other.rows, self.plain + other.plain
        self.changed += other.changed
        self.gone += other.gone
        self.lost.update(other.lost)

    def result(self, after: Row | None) -> Resealed:
        """What is told of the page. after: where to go on."""
        return Resealed(after, self.rows, self.plain, len(self.changed), len(self.gone), dict(self.lost))


def looks_sealed(table: str, row: Row) -> bool:
    """Whether something of a row begins as what is sealed does; in a store where nothing is, somebody chose so."""
    return table in _SEAL and any(map(is_sealed, _parts(table, _cells(table, row))))


def _cells(table: str, row: Row) -> Cells:
    return dict(zip(TABLES[table].columns, row, strict=True))


def _row(table: str, cells: Cells) -> Row:
    return tuple(cells[name] for name in TABLES[table].columns)


def _key(cells: Cells) -> tuple[str, str, str, str]:
    return cells["app"], cells["user"], cells["agent"], cells["session"]


def _parts(table: str, cells: Cells) -> Sequence[Any]:
    """What of a row is sealed, or is to be."""
    if table == "slots":
        tags, schema = json.loads(cells["tags"]), cells["schema"]
        found = [tags[0] if len(tags) == 1 else ""] if tags else []
        return found if schema is None else [*found, json.loads(schema).get(MARK, "")]
    if table == "versions":
        value = json.loads(cells["value"])
        return [value if isinstance(value, str) else ""]
    if table == "memories":
        return [memory_of(cells["record"]).text]
    if table == "memory_versions":
        return [decode(cells["version"], MemoryVersion).text]
    if table == "memory_index":
        return [bytes(cells["content"])]
    if table == "sessions":
        head = decode(cells["record"], SessionRecord).head
        return ["" if head is None else head.text]
    if table == "journal":
        entry = decode(cells["entry"], JournalEntry)
        forms = [form[0] for form in (entry.live, entry.settled) if form]
        given = [entry.message, *forms, *([] if entry.resolved is None else [entry.resolved])]
        return [one.get(MARK, "") for one in given]
    return [decode(cells["body"], Body).text] if table == "bodies" else [bytes(cells["key"])]


def _open_slots(rows: SealedRows, cells: Cells) -> Cells | None:
    owner, tags, schema = rows.owner(cells), json.loads(cells["tags"]), cells["schema"]
    if tags:
        stored = tags[0] if len(tags) == 1 else ""
        opened = rows.seal.opened(owner, slots.part_place(_key(cells), cells["folded"], "tags"), stored)
        if opened is None:
            return None
        cells["tags"] = opened if is_sealed(stored) else cells["tags"]
    if schema is not None:
        stored = str(json.loads(schema).get(MARK, ""))
        opened = rows.seal.opened(owner, slots.part_place(_key(cells), cells["folded"], "schema"), stored)
        if opened is None:
            return None
        cells["schema"] = opened if is_sealed(stored) else schema
    return cells


def _seal_slots(rows: SealedRows, cells: Cells) -> Cells:
    owner = rows.owner(cells)
    if cells["tags"] != "[]":
        place = slots.part_place(_key(cells), cells["folded"], "tags")
        cells["tags"] = json.dumps([rows.seal.text(owner, place, cells["tags"])])
    if cells["schema"] is not None:
        place = slots.part_place(_key(cells), cells["folded"], "schema")
        cells["schema"] = json.dumps({MARK: rows.seal.text(owner, place, cells["schema"])})
    return cells


def _open_versions(rows: SealedRows, cells: Cells) -> Cells | None:
    value = json.loads(cells["value"])
    place = slots.value_place(_key(cells), cells["folded"], cells["version"])
    text = rows.seal.opened(rows.owner(cells), place, value if isinstance(value, str) else "")
    if text is not None and is_sealed(value):
        cells["value"] = text
    return None if text is None else cells


def _seal_versions(rows: SealedRows, cells: Cells) -> Cells:
    place = slots.value_place(_key(cells), cells["folded"], cells["version"])
    cells["value"] = json.dumps(rows.seal.text(rows.owner(cells), place, cells["value"]))
    return cells


def _open_memories(rows: SealedRows, cells: Cells) -> Cells | None:
    row = memory_of(cells["record"])
    if (*row.scope.key, row.memory_id) != (*_key(cells), cells["memory_id"]):
        raise moved("memories", cells["memory_id"])
    memory = memories.opened_memory(row, rows.seal)
    return None if memory is None else _cells("memories", memory_values(memory))


def _seal_memories(rows: SealedRows, cells: Cells) -> Cells:
    return _cells("memories", memory_values(memories.sealed_memory(memory_of(cells["record"]), rows.seal)))


def _open_memory_versions(rows: SealedRows, cells: Cells) -> Cells | None:
    row = decode(cells["version"], MemoryVersion)
    version = memories.opened_version(None, cells["app"], cells["memory_id"], row, rows.seal)
    return None if version is None else cells | {"version": encode(version)}


def _seal_memory_versions(rows: SealedRows, cells: Cells) -> Cells:
    row = decode(cells["version"], MemoryVersion)
    version = memories.sealed_version(rows.owner(cells), cells["app"], cells["memory_id"], row, rows.seal)
    return cells | {"version": encode(version)}


def _open_memory_index(rows: SealedRows, cells: Cells) -> Cells | None:
    row = Indexed(cells["memory_id"], cells["version"], bytes(cells["content"]), cells["embedder"])
    indexed = memories.opened_index(None, cells["app"], row, rows.seal)
    return None if indexed is None else cells | {"content": indexed.content}


def _seal_memory_index(rows: SealedRows, cells: Cells) -> Cells:
    row = Indexed(cells["memory_id"], cells["version"], bytes(cells["content"]), cells["embedder"])
    return cells | {"content": memories.sealed_index(rows.owner(cells), cells["app"], row, rows.seal).content}


def _open_sessions(rows: SealedRows, cells: Cells) -> Cells | None:
    record = sessions.record_of(Scope.from_key(_key(cells)))(decode(cells["record"], SessionRecord), rows.seal)
    return None if record is None else cells | {"record": encode(record)}


def _seal_sessions(rows: SealedRows, cells: Cells) -> Cells:
    record = sessions.sealed_record(decode(cells["record"], SessionRecord), rows.seal)
    return cells | {"record": encode(record)}


def _open_journal(rows: SealedRows, cells: Cells) -> Cells | None:
    opened = sessions.opened_entry(Scope.from_key(_key(cells)))
    entry = opened(decode(cells["entry"], JournalEntry), rows.seal)
    return None if entry is None else cells | {"entry": encode(entry)}


def _seal_journal(rows: SealedRows, cells: Cells) -> Cells:
    entry = decode(cells["entry"], JournalEntry)
    return cells | {"entry": encode(sessions.sealed_entry(Scope.from_key(_key(cells)), entry, rows.seal))}


def _open_bodies(rows: SealedRows, cells: Cells) -> Cells | None:
    body = sessions.opened_body(Scope.from_key(_key(cells)))(decode(cells["body"], Body), rows.seal)
    return None if body is None else cells | {"body": encode(body)}


def _seal_bodies(rows: SealedRows, cells: Cells) -> Cells:
    body = sessions.sealed_body(Scope.from_key(_key(cells)), decode(cells["body"], Body), rows.seal)
    return cells | {"body": encode(body)}


def _open_digest_keys(rows: SealedRows, cells: Cells) -> Cells | None:
    owner = rows.owner(cells)
    key = rows.seal.opened_data(owner, sessions.key_place(owner), bytes(cells["key"]))
    return None if key is None else cells | {"key": key}


def _seal_digest_keys(rows: SealedRows, cells: Cells) -> Cells:
    owner = rows.owner(cells)
    return cells | {"key": rows.seal.data(owner, sessions.key_place(owner), bytes(cells["key"]))}


_OPEN: Final[Mapping[str, Callable[[SealedRows, Cells], Cells | None]]] = {
    "digest_keys": _open_digest_keys,
    "slots": _open_slots,
    "versions": _open_versions,
    "memories": _open_memories,
    "memory_versions": _open_memory_versions,
    "memory_index": _open_memory_index,
    "sessions": _open_sessions,
    "journal": _open_journal,
    "bodies": _open_bodies,
}
_SEAL: Final[Mapping[str, Callable[[SealedRows, Cells], Cells]]] = {
    "digest_keys": _seal_digest_keys,
    "slots": _seal_slots,
    "versions": _seal_versions,
    "memories": _seal_memories,
    "memory_versions": _seal_memory_versions,
    "memory_index": _seal_memory_index,
    "sessions": _seal_sessions,
    "journal": _seal_journal,
    "bodies": _seal_bodies,
}
SEALED_TABLES: Final = tuple(_SEAL)
"""Tables of which something is sealed."""

BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "versions": ("slots",),
    "memories": ("memory_keys",),
    "sessions": ("ledger",),
}
"""Tables that have rows which are nothing without a row of the table, found by its key."""
