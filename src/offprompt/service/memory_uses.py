"""Recalls that were made, kept back until a write comes: counting one must not cost a sync."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from offprompt.errors import BackendError
from offprompt.protocols import Clock, MemoryStore
from offprompt.records import Memory, MemoryOp, Scope, UseMemories

MAX_WAITING: Final = 2048
"""Memories whose uses may wait."""

MAX_WAIT_S: Final = 3600.0
"""How long a use may wait: a sweep of idle users goes by what is stored."""


class Uses:
    """Uses that wait for the next write or `flush`; the recall that finds a bound reached stores them. Thread-safe.

    Until then no recall ranks by them: the same store gives the same answer. A killed process loses what waits.
    """

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._waiting: dict[Scope, Counter[str]] = {}
        self._due_at = math.inf

    def add(self, *memories: Memory) -> None:
        """Count one use of each. A store that takes none fails no recall: they wait on, or at the bound are let go."""
        with self._lock:
            for memory in memories:
                self._count(memory.scope, {memory.memory_id: 1})
            is_full = sum(map(len, self._waiting.values())) >= MAX_WAITING
            is_due = is_full or self._clock.now() >= self._due_at
        if is_due:
            try:
                self.flush()
            except BackendError:
                # The recall has its answer; the next write says what is wrong with the store.
                if is_full:
                    with self._lock:
                        self._waiting = {}

    def apply(self, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        """The results of ops, in whose transaction what waits is stored; it waits on if the store refuses them."""
        with self._lock:
            waiting, self._waiting, self._due_at = self._waiting, {}, math.inf
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
        if not self._waiting:
            self._due_at = self._clock.now() + MAX_WAIT_S
        self._waiting.setdefault(scope, Counter()).update(counts)
