"""A store of memories whose writes tell the vector index what changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

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

CHANGES: Final = (
    AddMemory,
    UpdateMemory,
    ForgetMemories,
    RestoreMemories,
    EraseMemories,
    SweepMemories,
    IndexMemories,
    JoinUsers,
    QueueVectors,
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
        if any(isinstance(op, CHANGES) for op in ops) and (link := self._link()) is not None:
            link.after_write()
        return results
