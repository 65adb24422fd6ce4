"""What the ops on memories need of an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

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
from offprompt.stores._values import storable


class MemoryTable(Protocol):
    """What an engine offers inside one transaction; rows may be expired or hidden, and are the caller's own."""

    def load(self, app: str, memory_id: str) -> Memory | None:
        """The row of that id in that app."""
        ...

    def by_op_key(self, scope: Scope, op_key: str) -> Memory | None:
        """The row that an add of that key made, or was merged into."""
        ...

    def by_digest(self, memory: Memory) -> list[Memory]:
        """The live rows of its scope with its kind, digest, subject and attribute, by id."""
        ...

    def by_attribute(self, memory: Memory) -> list[Memory]:
        """The facts of its scope, subject and attribute, in any state."""
        ...

    def rows(self, query: MemoryQuery, scope: Scope, now: float) -> list[Memory]:
        """The rows that a query finds in exactly one scope, or in its subtree, by id; at most `limit`."""
        ...

    def add(self, memory: Memory) -> None:
        """Insert a row."""
        ...

    def name(self, scope: Scope, op_key: str, memory_id: str) -> None:
        """Note that the add of that key led to that memory."""
        ...

    def change(self, memory: Memory) -> None:
        """Store a row anew."""
        ...

    def refresh(self, memory: Memory) -> None:
        """Store a row anew of which nothing changed but uses, used_at and revision."""
        ...

    def move(self, memory: Memory) -> None:
        """Store a row anew that has another scope now, and its keys there; what its new scope has already stays."""
        ...

    def alias(self, app: str, user: str) -> str | None:
        """What a user's id was joined to."""
        ...

    def aliases(self, app: str, user: str) -> list[str]:
        """The ids that were joined to a user's, in order."""
        ...

    def join(self, app: str, user: str, to: str) -> None:
        """Note that a user's id stands for another."""
        ...

    def remove(self, memory: Memory) -> None:
        """Remove a row with versions, keys and what is derived."""
        ...

    def note(self, memory: Memory, version: MemoryVersion) -> None:
        """Append to a row's versions."""
        ...

    def versions(self, app: str, memory_id: str) -> list[MemoryVersion]:
        """A row's versions, oldest first."""
        ...

    def index(self, app: str, indexed: Indexed) -> None:
        """Store what is derived from a row."""
        ...

    def keep_index(self, memory: Memory) -> None:
        """What is derived from a row is of its new version too."""
        ...

    def unindex(self, memory: Memory) -> None:
        """Remove what is derived from a row."""
        ...

    def bump(self, scope: Scope, *, whole: bool = False) -> int:
        """The scope's next revision, which becomes its own. whole: pages that begin before it are whole."""
        ...

    def revision(self, scope: Scope) -> tuple[int, int]:
        """The scope's revision, and the one before which pages are whole."""
        ...

    def page(self, scope: Scope, after: int) -> list[tuple[Memory, Indexed | None]]:
        """The rows of exactly that scope that changed after a revision, with what is derived, by id."""
        ...

    def unindexed(self, op: Unindexed, now: float) -> list[Memory]:
        """See Unindexed."""
        ...

    def scopes(self, scope: Scope | None, now: float) -> list[tuple[Scope, int]]:
        """See MemoryScopes."""
        ...

    def measure(self, app: str, now: float) -> Measured:
        """See MeasureMemories."""
        ...

    def over(self, op: SweepMemories, now: float) -> list[Memory]:
        """The rows that a sweep removes."""
        ...

    def pairs(self, app: str, ids: Sequence[str]) -> list[tuple[Memory, Indexed | None]]:
        """The rows of these ids in that app, each once, with what is derived; in no order."""
        ...

    def queue(self, app: str, ids: Sequence[str]) -> None:
        """Note that the vector index is behind with these, under new and greater numbers; nothing where there is none.

        A number is never given out again, not even of a row that is gone.
        """
        ...

    def waiting(self, app: str | None, limit: int) -> list[tuple[int, str, str]]:
        """Number, app and id of what the index is behind with (None: in all apps), by number."""
        ...

    def unqueue(self, seqs: Sequence[int]) -> set[int]:
        """Remove rows by number; the numbers that were there."""
        ...

    def log(self, events: Sequence[Event]) -> None:
        """Append to the event log."""
        ...


def timer(now: float, scope: Scope, op: str, actor: str) -> Callable[..., Event]:
    """Makes the op's event, with the seconds since this call as its duration."""
    started = time.perf_counter()

    def event(memory: Memory | None, *, name: str = "", why: str = "") -> Event:
        return Event(
            now,
            scope,
            op,
            storable(actor),
            memory.memory_id if memory is not None else storable(name[:64]),
            version=memory.version if memory is not None else 0,
            bytes=len(memory.text.encode()) if memory is not None else 0,
            why=storable(why),
            duration_s=time.perf_counter() - started,
        )

    return event
