"""Memories of the engine that ends with the process; what a batch changed can be taken back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import eq
from typing import TypeVar

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
from offprompt.stores import _memory_rules as rules
from offprompt.stores._parting import FLOOR
from offprompt.stores._rows import memory_values

K = TypeVar("K")
V = TypeVar("V")
Id = tuple[str, str]
ScopeKey = tuple[str, str, str, str]


@dataclass(slots=True)
class MemoryRows:
    """A MemoryTable in memory. send: where events go. queues: whether a vector index lies elsewhere."""

    send: Callable[[Sequence[Event]], None]
    queues: bool = False
    memories: dict[Id, Memory] = field(default_factory=dict[Id, Memory])
    notes: dict[Id, tuple[MemoryVersion, ...]] = field(default_factory=dict[Id, tuple[MemoryVersion, ...]])
    keys: dict[tuple[ScopeKey, str], str] = field(default_factory=dict[tuple[ScopeKey, str], str])
    derived: dict[Id, Indexed] = field(default_factory=dict[Id, Indexed])
    revisions: dict[ScopeKey, tuple[int, int]] = field(default_factory=dict[ScopeKey, tuple[int, int]])
    joined: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    queued: dict[Id, int] = field(default_factory=dict[Id, int])
    _last_queued: int = 0
    _undo: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def begin(self) -> None:
        """Begin a batch: what `take_back` goes back to."""
        self._undo.clear()

    def take_back(self) -> None:
        """Take back all since the batch began."""
        while self._undo:
            self._undo.pop()()

    def load(self, app: str, memory_id: str) -> Memory | None:
        row = self.memories.get((app, memory_id))
        return None if row is None else _copy(row)

    def by_op_key(self, scope: Scope, op_key: str) -> Memory | None:
        memory_id = self.keys.get((scope.key, op_key))
        return None if memory_id is None else self.load(scope.app, memory_id)

    def by_digest(self, memory: Memory) -> list[Memory]:
        same = (memory.scope, memory.kind, memory.digest, memory.subject, memory.attribute)
        rows = [row for row in self.memories.values() if row.state == "live" and row.digest == memory.digest]
        found = [row for row in rows if (row.scope, row.kind, row.digest, row.subject, row.attribute) == same]
        return _sorted(found)

    def by_attribute(self, memory: Memory) -> list[Memory]:
        same = (memory.scope, "fact", memory.subject, memory.attribute)
        rows = self.memories.values()
        return _sorted([row for row in rows if (row.scope, row.kind, row.subject, row.attribute) == same])

    def rows(self, query: MemoryQuery, scope: Scope, now: float) -> list[Memory]:
        inside = scope.holds if query.within == "subtree" else partial(eq, scope)
        found = [row for row in self.memories.values() if inside(row.scope) and rules.fits(row, query, now)]
        return _sorted(found)[: query.limit]

    def add(self, memory: Memory) -> None:
        self._set(self.memories, (memory.scope.app, memory.memory_id), _copy(memory))

    def name(self, scope: Scope, op_key: str, memory_id: str) -> None:
        self._set(self.keys, (scope.key, op_key), memory_id)

    def change(self, memory: Memory) -> None:
        self.add(memory)

    def refresh(self, memory: Memory) -> None:
        self.change(memory)

    def move(self, memory: Memory) -> None:
        self.change(memory)
        place = (memory.scope.app, memory.memory_id)
        for name in [key for key, memory_id in self.keys.items() if (key[0][0], memory_id) == place]:
            if (memory.scope.key, name[1]) not in self.keys:
                self.name(memory.scope, name[1], memory.memory_id)
                self._drop(self.keys, name)

    def alias(self, app: str, user: str) -> str | None:
        return self.joined.get((app, user))

    def aliases(self, app: str, user: str) -> list[str]:
        return sorted(old for (place, old), new in self.joined.items() if (place, new) == (app, user))

    def join(self, app: str, user: str, to: str) -> None:
        self._set(self.joined, (app, user), to)

    def remove(self, memory: Memory) -> None:
        place = (memory.scope.app, memory.memory_id)
        for name in [key for key, memory_id in self.keys.items() if (key[0][0], memory_id) == place]:
            self._drop(self.keys, name)
        self._drop(self.memories, place)
        self._drop(self.notes, place)
        self._drop(self.derived, place)

    def note(self, memory: Memory, version: MemoryVersion) -> None:
        place = (memory.scope.app, memory.memory_id)
        self._set(self.notes, place, (*self.notes.get(place, ()), copy.deepcopy(version)))

    def versions(self, app: str, memory_id: str) -> list[MemoryVersion]:
        return [copy.deepcopy(version) for version in self.notes.get((app, memory_id), ())]

    def index(self, app: str, indexed: Indexed) -> None:
        self._set(self.derived, (app, indexed.memory_id), indexed)

    def keep_index(self, memory: Memory) -> None:
        place = (memory.scope.app, memory.memory_id)
        if (indexed := self.derived.get(place)) is not None:
            self._set(self.derived, place, replace(indexed, version=memory.version))

    def unindex(self, memory: Memory) -> None:
        self._drop(self.derived, (memory.scope.app, memory.memory_id))

    def bump(self, scope: Scope, *, whole: bool = False) -> int:
        revision, whole_before = self.revision(scope)
        self._set(self.revisions, scope.key, (revision + 1, revision + 1 if whole else whole_before))
        return revision + 1

    def revision(self, scope: Scope) -> tuple[int, int]:
        if (found := self.revisions.get(scope.key)) is not None:
            return found
        floor = self.revisions.get((scope.app, FLOOR, "", ""), (0, 0))[0]
        return floor, floor

    def part_with(self, scope: Scope) -> None:
        """Let go of the revisions in the scope's subtree, and of its user's aliases; see `_parting`."""
        gone = [key for key in self.revisions if key[1] != FLOOR and scope.holds(Scope.from_key(key))]
        if gone:
            floor = (scope.app, FLOOR, "", "")
            after = max(self.revisions.pop(key)[0] for key in gone) + 1
            after = max(after, self.revisions.get(floor, (0, 0))[0])
            self.revisions[floor] = (after, after)
        for key, new in list(self.joined.items()):
            if key[0] == scope.app and scope.user is not None and scope.user in (key[1], new):
                del self.joined[key]

    def page(self, scope: Scope, after: int) -> list[tuple[Memory, Indexed | None]]:
        rows = [row for row in self.memories.values() if row.scope == scope and row.revision > after]
        rows = [row for row in rows if after or row.state == "live"]
        return [(_copy(row), self.derived.get((scope.app, row.memory_id))) for row in _sorted(rows)]

    def unindexed(self, op: Unindexed, now: float) -> list[Memory]:
        found = [
            row
            for place, row in self.memories.items()
            if (op.scope is None or op.scope.holds(row.scope))
            and row.state == "live"
            and not rules.is_over(row, now)
            and row.memory_id > op.after
            and not self._has_vector(place, row.version, op.embedder)
        ]
        return _sorted(found)[: op.limit]

    def scopes(self, scope: Scope | None, now: float) -> list[tuple[Scope, int]]:
        counts: dict[ScopeKey, int] = {}
        for row in self.memories.values():
            inside = scope is None or scope.holds(row.scope)
            if inside and row.state != "forgotten" and not rules.is_over(row, now):
                counts[row.scope.key] = counts.get(row.scope.key, 0) + 1
        return [(Scope.from_key(key), counts[key]) for key in sorted(counts)]

    def measure(self, app: str, now: float) -> Measured:
        rows = [row for row in self.memories.values() if row.scope.app == app]
        there = [row for row in rows if row.state != "forgotten" and not rules.is_over(row, now)]
        return Measured(len(there), sum(len(str(memory_values(row)[-1]).encode()) for row in there))

    def over(self, op: SweepMemories, now: float) -> list[Memory]:
        latest: dict[tuple[str, str | None], float] = {}
        for row in self.memories.values():
            owner = (row.scope.app, row.scope.user)
            latest[owner] = max(latest.get(owner, 0.0), row.updated_at, row.used_at or 0.0)

        def is_due(row: Memory) -> bool:
            idle = op.idle_before is not None and row.scope.user is not None and not row.pinned
            hidden = row.state == "forgotten" and row.state_at is not None and row.state_at <= now - op.undo_s
            return (
                rules.is_over(row, now)
                or hidden
                or (idle and latest[row.scope.app, row.scope.user] < (op.idle_before or 0.0))
            )

        return _sorted([row for row in self.memories.values() if op.app in (None, row.scope.app) and is_due(row)])

    def pairs(self, app: str, ids: Sequence[str]) -> list[tuple[Memory, Indexed | None]]:
        rows = [self.load(app, memory_id) for memory_id in dict.fromkeys(ids)]
        return [(row, self.derived.get((app, row.memory_id))) for row in rows if row is not None]

    def queue(self, app: str, ids: Sequence[str]) -> None:
        for memory_id in ids if self.queues else ():
            self._last_queued += 1
            self._set(self.queued, (app, memory_id), self._last_queued)

    def waiting(self, app: str | None, limit: int) -> list[tuple[int, str, str]]:
        rows = sorted((seq, *place) for place, seq in self.queued.items() if app in (None, place[0]))
        return rows[:limit]

    def unqueue(self, seqs: Sequence[int]) -> set[int]:
        wanted = set(seqs)
        gone = {place: seq for place, seq in self.queued.items() if seq in wanted}
        for place in gone:
            self._drop(self.queued, place)
        return set(gone.values())

    def log(self, events: Sequence[Event]) -> None:
        self.send(events)

    def _has_vector(self, place: Id, version: int, embedder: str) -> bool:
        indexed = self.derived.get(place)
        return indexed is not None and (indexed.version, indexed.embedder) == (version, embedder)

    def _set(self, table: dict[K, V], key: K, value: V) -> None:
        self._keep(table, key)
        table[key] = value

    def _drop(self, table: dict[K, V], key: K) -> None:
        if key in table:
            self._keep(table, key)
            del table[key]

    def _keep(self, table: dict[K, V], key: K) -> None:
        if key in table:
            before = table[key]
            self._undo.append(lambda: table.__setitem__(key, before))
        else:
            self._undo.append(lambda: table.__delitem__(key))


def _copy(memory: Memory) -> Memory:
    return replace(memory, metadata=copy.deepcopy(dict(memory.metadata)))


def _sorted(rows: list[Memory]) -> list[Memory]:
    return [_copy(row) for row in sorted(rows, key=lambda row: row.memory_id)]
