"""Recalls that were made, kept back until a write comes: counting one must not cost a sync."""

from __future__ import annotations

import threading
from typing import Final

from offprompt.protocols import MemoryStore
from offprompt.records import Memory, Scope, UseMemories

MAX_WAITING: Final = 256


class Uses:
    """Uses that wait for `flush`, which `MAX_WAITING` of them force. A killed process loses what waits. Thread-safe."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: list[tuple[Scope, str]] = []

    def add(self, *memories: Memory) -> None:
        """Count one use of each."""
        with self._lock:
            self._waiting += [(memory.scope, memory.memory_id) for memory in memories]
            is_full = len(self._waiting) >= MAX_WAITING
        if is_full:
            self.flush()

    def taken(self) -> list[UseMemories]:
        """The ops that store what waits; each use goes out once."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        ops: list[UseMemories] = []
        while waiting:
            # An op counts each id once: what was used twice needs two.
            once, twice = dict[tuple[Scope, str], None](), list[tuple[Scope, str]]()
            for use in waiting:
                if use in once:
                    twice.append(use)
                once[use] = None
            scopes = dict.fromkeys(scope for scope, _ in once)
            ops += [UseMemories(scope, tuple(name for place, name in once if place == scope)) for scope in scopes]
            waiting = twice
        return ops

    def flush(self) -> None:
        """Store what waits; it waits on if the store fails."""
        ops = self.taken()
        if not ops:
            return
        try:
            self._store.apply(ops)
        except BaseException:
            with self._lock:
                self._waiting += [(op.scope, name) for op in ops for name in op.ids]
            raise
