"""Recalls that were made, kept back until a write comes: counting one must not cost a sync."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from offprompt.protocols import MemoryStore
from offprompt.records import Memory, MemoryOp, Scope, UseMemories

MAX_WAITING: Final = 2048
"""Memories whose uses may wait; with one more recall they are stored, whatever it costs that recall."""


class Uses:
    """Uses that wait for the next write, `flush`, or `MAX_WAITING` memories. Thread-safe.

    Until then no recall ranks by them: the same store gives the same answer. A killed process loses what waits.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: dict[Scope, Counter[str]] = {}

    def add(self, *memories: Memory) -> None:
        """Count one use of each."""
        with self._lock:
            for memory in memories:
                self._count(memory.scope, {memory.memory_id: 1})
            is_full = sum(map(len, self._waiting.values())) >= MAX_WAITING
        if is_full:
            self.flush()

    def apply(self, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        """The results of ops, in whose transaction what waits is stored; it waits on if the store refuses them."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        try:
            results = self._store.apply([*(UseMemories(scope, counts) for scope, counts in waiting.items()), *ops])
        except BaseException:
            with self._lock:
                for scope, counts in waiting.items():
                    self._count(scope, counts)
            raise
        return results[len(waiting) :]

    def flush(self) -> None:
        """Store what waits; it waits on if the store fails."""
        if self._waiting:
            self.apply([])

    def _count(self, scope: Scope, counts: dict[str, int]) -> None:
        self._waiting.setdefault(scope, Counter()).update(counts)
