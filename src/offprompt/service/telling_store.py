"""A store of memories whose writes tell the vector index what changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from offprompt.protocols import MemoryStore
from offprompt.records import (
    AddMemory,
    EraseMemories,
    ForgetMemories,
    IndexMemories,
    JoinUsers,
    MemoryOp,
    QueueVectors,
    RestoreMemories,
    SweepMemories,
    UpdateMemory,
)

if TYPE_CHECKING:  # NumPy is loaded with the first memory, not with the first slot
    from offprompt.service.vector_link import VectorLink

Change: TypeAlias = (
    AddMemory
    | UpdateMemory
    | ForgetMemories
    | RestoreMemories
    | EraseMemories
    | SweepMemories
    | IndexMemories
    | JoinUsers
    | QueueVectors
)
"""Ops after which something may wait for the index."""


class TellingStore:
    """A MemoryStore over another one: each change is told to the vector index, as far as one write may.

    link    asked for with the first change: the embedder is not loaded before.
    """

    def __init__(self, store: MemoryStore, link: Callable[[], VectorLink | None]) -> None:
        self._store, self._link = store, link

    def apply(self, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        """See MemoryStore."""
        results = self._store.apply(ops)
        apps = dict.fromkeys(_app_of(op) for op in ops if isinstance(op, Change))
        if apps and (link := self._link()) is not None:
            for app in apps:
                link.after_write(app)
        return results


def _app_of(op: Change) -> str | None:
    """The app whose memories an op changes; None: all."""
    match op:
        case AddMemory():
            return op.memory.scope.app
        case SweepMemories() | JoinUsers() | QueueVectors():
            return op.app
        case _:
            return op.scope.app
