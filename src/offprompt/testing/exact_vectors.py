"""The vector index that is right by construction: every other one is tested against it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import UsageError
from offprompt.records import Scope, Sought, VectorEntry, VectorStamp


class ExactVectors:
    """A VectorIndex in memory: every cosine is computed. Thread-safe; it ends with the process."""

    def __init__(self, embedder: str, dimension: int) -> None:
        self.embedder, self.dimension = embedder, dimension
        self._entries: dict[tuple[str, str], VectorEntry] = {}
        self._lock = threading.Lock()

    def nearest(self, vector: NDArray[np.floating], sought: Sought, *, limit: int) -> list[tuple[str, float]]:
        """See VectorSearch. Cost O(entries)."""
        self._check(vector)
        with self._lock:
            found = [entry for entry in self._entries.values() if fits(entry, sought)]
        pairs = [(entry.memory_id, cosine(entry.vector, vector)) for entry in found]
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def upsert(self, entries: Sequence[VectorEntry]) -> None:
        """See VectorIndex."""
        for entry in entries:
            self._check(entry.vector)
        with self._lock:
            self._entries |= {entry.place: entry for entry in entries}

    def delete(self, places: Sequence[tuple[str, str]]) -> None:
        """See VectorIndex."""
        with self._lock:
            for place in places:
                self._entries.pop(place, None)

    def stamps(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], VectorStamp]:
        """See VectorIndex."""
        with self._lock:
            there = {place: self._entries[place] for place in places if place in self._entries}
        return {place: VectorStamp(entry.memory_id, entry.scope, entry.stamp) for place, entry in there.items()}

    def scan(self, *, after: str = "", limit: int = 1000) -> tuple[list[VectorStamp], str]:
        """See VectorIndex. The order: by app and id."""
        with self._lock:
            names = {f"{app}\n{memory_id}": entry for (app, memory_id), entry in self._entries.items()}
        page = sorted(name for name in names if name > after)[:limit]
        stamps = [VectorStamp(names[name].memory_id, names[name].scope, names[name].stamp) for name in page]
        return stamps, page[-1] if len(page) == limit else ""

    def count(self) -> int:
        """See VectorIndex."""
        return len(self._entries)

    def drop(self) -> None:
        """See VectorIndex."""
        with self._lock:
            self._entries.clear()

    def close(self) -> None:
        """See VectorIndex."""

    def _check(self, vector: NDArray[np.floating]) -> None:
        if vector.shape != (self.dimension,):
            raise UsageError(f"a vector of shape {vector.shape}; this index has vectors of {self.dimension} numbers")


def cosine(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Of two vectors of any length but 0."""
    first, second = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def fits(entry: VectorEntry, sought: Sought) -> bool:
    """Whether an entry is sought."""
    return (
        holds(sought, entry.scope)
        and (sought.kinds is None or entry.kind in sought.kinds)
        and (sought.since is None or entry.happened_at >= sought.since)
        and (sought.until is None or entry.happened_at < sought.until)
        and (sought.ids is None or entry.memory_id in sought.ids)
    )


def holds(sought: Sought, scope: Scope) -> bool:
    """Whether memories of a scope are sought."""
    if sought.within == "subtree":
        return sought.scope.holds(scope)
    return scope in (sought.scope.inherited() if sought.within == "inherit" else (sought.scope,))
