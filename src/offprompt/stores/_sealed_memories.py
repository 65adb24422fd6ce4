"""Memories whose words are sealed, over any engine's rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Final

from offprompt.protocols.sealing import Owner, Sealer
from offprompt.records import (
    Event,
    Indexed,
    Measured,
    Memory,
    MemoryQuery,
    MemoryVersion,
    Scope,
    SweepMemories,
    Unindexed,
)
from offprompt.records.scope import key_owner
from offprompt.stores._memory_table import MemoryTable
from offprompt.stores._rows import parsed
from offprompt.stores._sealed import MARK, Seal, moved

WORDS: Final = ("speaker", "ends", "gist", "quote")
"""What of a memory is sealed with its text, subject, attribute, tags and metadata, and empty beside it."""

_NAMES: Final = tuple(item.name for item in fields(Memory))
_VALUES: Final = attrgetter(*_NAMES)
LOOKED_UP: Final = ("subject", "attribute", "digest")
"""What of a memory is stored as keyed digests as well; an unkeyed digest of a text lets it be guessed."""

_SEALED: Final = tuple((_NAMES.index(name), name) for name in ("text", *LOOKED_UP, *WORDS))
_TAGS: Final = _NAMES.index("tags")
_METADATA: Final = _NAMES.index("metadata")


def sealed_memories(table: MemoryTable, sealer: Sealer | None) -> MemoryTable:
    """The table; sealing, if there is what seals."""
    return table if sealer is None else SealedMemories(table, Seal(sealer))


class SealedMemories:
    """A MemoryTable over an engine's. A memory whose key was destroyed is not there.

    Subject, attribute and the text's digest are stored as keyed digests of their owner, by which equal ones are found.
    """

    def __init__(self, table: MemoryTable, seal: Seal) -> None:
        self._table, self._seal = table, seal
        self._scopes: dict[tuple[str, str], Scope] = {}

    def load(self, app: str, memory_id: str) -> Memory | None:
        row = self._table.load(app, memory_id)
        return self._opened(row) if row is None else self._at(row, (row.scope.app, row.memory_id) == (app, memory_id))

    def by_op_key(self, scope: Scope, op_key: str) -> Memory | None:
        return self._opened(self._table.by_op_key(scope, op_key))

    def by_digest(self, memory: Memory) -> list[Memory]:
        return self._within(memory.scope, self._table.by_digest(self._looked_up(memory)))

    def by_attribute(self, memory: Memory) -> list[Memory]:
        return self._within(memory.scope, self._table.by_attribute(self._looked_up(memory)))

    def rows(self, query: MemoryQuery, scope: Scope, now: float) -> list[Memory]:
        return self._within(scope, self._table.rows(query, scope, now))

    def add(self, memory: Memory) -> None:
        self._table.add(self._sealed(memory))

    def name(self, scope: Scope, op_key: str, memory_id: str) -> None:
        self._table.name(scope, op_key, memory_id)

    def change(self, memory: Memory) -> None:
        self._table.change(self._sealed(memory))

    def refresh(self, memory: Memory) -> None:
        self._table.refresh(self._sealed(memory))

    def move(self, memory: Memory) -> None:
        self._table.move(self._sealed(memory))

    def alias(self, app: str, user: str) -> str | None:
        return self._table.alias(app, user)

    def aliases(self, app: str, user: str) -> list[str]:
        return self._table.aliases(app, user)

    def join(self, app: str, user: str, to: str) -> None:
        # Versions and what is derived stay under the key that sealed them, which is the other user's as well now.
        self._seal.sealer.join(app, user, to)
        self._table.join(app, user, to)

    def remove(self, memory: Memory) -> None:
        self._table.remove(memory)

    def note(self, memory: Memory, version: MemoryVersion) -> None:
        self._table.note(
            memory, sealed_version(key_owner(memory.scope), memory.scope.app, memory.memory_id, version, self._seal)
        )

    def versions(self, app: str, memory_id: str) -> list[MemoryVersion]:
        owner = self._owner(app, memory_id)
        rows = (opened_version(owner, app, memory_id, one, self._seal) for one in self._table.versions(app, memory_id))
        return [row for row in rows if row is not None]

    def index(self, app: str, indexed: Indexed) -> None:
        owner = self._owner(app, indexed.memory_id) or (app, "shared", "")
        self._table.index(app, sealed_index(owner, app, indexed, self._seal))

    def keep_index(self, memory: Memory) -> None:
        self._table.keep_index(memory)

    def unindex(self, memory: Memory) -> None:
        self._table.unindex(memory)

    def bump(self, scope: Scope, *, whole: bool = False) -> int:
        return self._table.bump(scope, whole=whole)

    def revision(self, scope: Scope) -> tuple[int, int]:
        return self._table.revision(scope)

    def page(self, scope: Scope, after: int) -> list[tuple[Memory, Indexed | None]]:
        return self._pairs(self._table.page(scope, after), scope)

    def unindexed(self, op: Unindexed, now: float) -> list[Memory]:
        return self._all(self._table.unindexed(op, now))

    def scopes(self, scope: Scope | None, now: float) -> list[tuple[Scope, int]]:
        return self._table.scopes(scope, now)

    def measure(self, app: str, now: float) -> Measured:
        return self._table.measure(app, now)

    def over(self, op: SweepMemories, now: float) -> list[Memory]:
        return self._all(self._table.over(op, now))

    def pairs(self, app: str, ids: Sequence[str]) -> list[tuple[Memory, Indexed | None]]:
        return self._pairs(self._table.pairs(app, ids))

    def queue(self, app: str, ids: Sequence[str]) -> None:
        self._table.queue(app, ids)

    def waiting(self, app: str | None, limit: int) -> list[tuple[int, str, str]]:
        return self._table.waiting(app, limit)

    def unqueue(self, seqs: Sequence[int]) -> set[int]:
        return self._table.unqueue(seqs)

    def log(self, events: Sequence[Event]) -> None:
        self._table.log(events)

    def _sealed(self, memory: Memory) -> Memory:
        self._scopes[memory.scope.app, memory.memory_id] = memory.scope
        return sealed_memory(memory, self._seal)

    def _opened(self, row: Memory | None) -> Memory | None:
        if row is None:
            return None
        self._scopes[row.scope.app, row.memory_id] = row.scope
        return opened_memory(row, self._seal)

    def _all(self, rows: Iterable[Memory]) -> list[Memory]:
        return [row for row in map(self._opened, rows) if row is not None]

    def _within(self, scope: Scope, rows: Iterable[Memory]) -> list[Memory]:
        """The rows of a scope or its subtree, opened: a record says itself whose it is, and may stand elsewhere."""
        found = (self._at(row, scope.holds(row.scope)) for row in rows)
        return [row for row in found if row is not None]

    def _at(self, row: Memory, is_there: bool) -> Memory | None:  # noqa: FBT001 - what is known of it
        if not is_there:
            raise moved("memories", row.memory_id)
        return self._opened(row)

    def _pairs(
        self, pairs: Iterable[tuple[Memory, Indexed | None]], scope: Scope | None = None
    ) -> list[tuple[Memory, Indexed | None]]:
        found: list[tuple[Memory, Indexed | None]] = []
        for row, indexed in pairs:
            if (memory := self._at(row, scope is None or scope.holds(row.scope))) is not None:
                owner = key_owner(row.scope)
                found.append((memory, indexed and opened_index(owner, row.scope.app, indexed, self._seal)))
        return found

    def _looked_up(self, memory: Memory) -> Memory:
        return replace(memory, **digests(memory, self._seal))

    def _owner(self, app: str, memory_id: str) -> Owner | None:
        scope = self._scopes.get((app, memory_id))
        if scope is None:
            row = self._table.load(app, memory_id)
            scope = None if row is None else row.scope
        return None if scope is None else key_owner(scope)


def sealed_memory(memory: Memory, seal: Seal) -> Memory:
    """The memory with its words sealed in the place of its text, bound to its scope and id."""
    content: dict[str, Any] = {name: value for name in WORDS if (value := getattr(memory, name))}
    content["text"] = memory.text
    for name in (*LOOKED_UP, "tags"):
        if value := getattr(memory, name):
            content[name] = value
    if memory.metadata:
        content["metadata"] = dict(memory.metadata)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return replace(
        memory,
        text=seal.text(key_owner(memory.scope), _place(memory), text),
        **digests(memory, seal),
        tags=(),
        metadata={},
        **dict.fromkeys(WORDS, ""),
    )


def opened_memory(row: Memory, seal: Seal) -> Memory | None:
    """The memory of a row; None: its key was destroyed."""
    text = seal.opened(key_owner(row.scope), _place(row), row.text)
    if text is None:
        return None
    if not row.text.startswith(MARK):
        return row
    content: dict[str, Any] = parsed(text)
    # Ten thousand of them are opened at once: `replace` takes three times as long.
    values = list(_VALUES(row))
    for at, name in _SEALED:
        values[at] = content.get(name, "")
    values[_TAGS], values[_METADATA] = tuple(content.get("tags", ())), content.get("metadata", {})
    return Memory(*values)


def digests(memory: Memory, seal: Seal) -> dict[str, str]:
    """Subject, attribute and digest as they are stored."""
    seal.refresh()
    owner, look = key_owner(memory.scope), seal.sealer.looked_up
    return {name: look(owner, f"{name}\n{value}") if (value := getattr(memory, name)) else "" for name in LOOKED_UP}


def sealed_version(owner: Owner, app: str, memory_id: str, version: MemoryVersion, seal: Seal) -> MemoryVersion:
    """A version with text and metadata sealed in the place of its text."""
    text = json.dumps([version.text, dict(version.metadata)], ensure_ascii=False, separators=(",", ":"))
    place = "memory_versions", app, str(version.version), memory_id
    return replace(version, text=seal.text(owner, place, text), metadata={})


def opened_version(
    owner: Owner | None, app: str, memory_id: str, row: MemoryVersion, seal: Seal
) -> MemoryVersion | None:
    """The version of a row; None: its key was destroyed."""
    text = seal.opened(owner, ("memory_versions", app, str(row.version), memory_id), row.text)
    if text is None or not row.text.startswith(MARK):
        return None if text is None else row
    said, metadata = json.loads(text)
    return replace(row, text=said, metadata=metadata)


def sealed_index(owner: Owner, app: str, indexed: Indexed, seal: Seal) -> Indexed:
    """What is derived, sealed: terms and vector tell the text."""
    return replace(indexed, content=seal.data(owner, ("memory_index", app, indexed.memory_id), indexed.content))


def opened_index(owner: Owner | None, app: str, row: Indexed, seal: Seal) -> Indexed | None:
    """What is derived; None: its key was destroyed."""
    content = seal.opened_data(owner, ("memory_index", app, row.memory_id), row.content)
    return None if content is None else Indexed(row.memory_id, row.version, content, row.embedder)


def _place(memory: Memory) -> tuple[str, ...]:
    return "memories", *memory.scope.key, memory.memory_id
