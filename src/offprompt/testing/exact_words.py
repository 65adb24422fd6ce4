"""A word index over any MemoryStore, by looking at all that it holds: every other one is tested against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from offprompt.protocols import MemoryStore, apply
from offprompt.recall.bm25 import idf
from offprompt.records import (
    GetMemories,
    Indexed,
    LoadIndex,
    Memory,
    MemoryOp,
    MemoryScopes,
    Sought,
    WordHits,
)
from offprompt.records.packed import Packed, unpack_content
from offprompt.testing.exact_vectors import holds

MOST_TERMS: Final = 128


class ExactWords:
    """A MemoryStore that is a WordIndex as well. Cost of a call: O(memories of the scopes)."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def apply(self, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        """See MemoryStore."""
        return self._store.apply(ops)

    def words(self, terms: Sequence[str], sought: Sought, *, limit: int) -> WordHits:
        """See WordIndex."""
        texts = [(memory, packed) for memory, packed in self._texts(sought) if packed.terms]
        held = Counter(term for _, packed in texts for term in set(packed.terms).intersection(terms))
        rarest = set(sorted(held, key=lambda term: (held[term], term))[:MOST_TERMS])
        scores: dict[str, float] = {}
        for memory, packed in texts:
            found = rarest.intersection(packed.terms)
            if found and _is_sought(memory, sought):
                scores[memory.memory_id] = sum(idf(len(texts), held[term]) for term in sorted(found))
        order = sorted(scores, key=lambda memory_id: (-round(scores[memory_id], 9), memory_id))
        return WordHits(tuple(order[:limit]), len(texts), sum(packed.length for _, packed in texts), dict(held))

    def beside(self, app: str, ids: Sequence[str]) -> tuple[str, ...]:
        """See WordIndex."""
        found: set[str] = set()
        for memory in apply(self._store, GetMemories(app, tuple(ids))):
            rows = apply(self._store, LoadIndex(memory.scope)).rows
            log = [row for row, _ in rows if row.kind == "episode" and row.session and row.session == memory.session]
            log.sort(key=lambda row: (row.order, row.memory_id))
            at = [row.memory_id for row in log].index(memory.memory_id) if memory in log else None
            if at is not None:
                found |= {row.memory_id for row in (*log[max(at - 1, 0) : at], *log[at + 1 : at + 2])}
        return tuple(sorted(found - set(ids)))

    def _texts(self, sought: Sought) -> Iterator[tuple[Memory, Packed]]:
        # Scopes without a user, such as the shared one, lie in nobody's subtree.
        scopes = [scope for scope, _ in apply(self._store, MemoryScopes()) if holds(sought, scope)]
        for page in self._store.apply([LoadIndex(scope) for scope in scopes]):
            yield from _packed(page.rows)


def _packed(rows: Sequence[tuple[Memory, Indexed | None]]) -> Iterator[tuple[Memory, Packed]]:
    for memory, indexed in rows:
        if indexed is not None and indexed.version == memory.version:
            packed = unpack_content(indexed.content)
            if packed is not None:
                yield memory, packed


def _is_sought(memory: Memory, sought: Sought) -> bool:
    return (
        (sought.kinds is None or memory.kind in sought.kinds)
        and (sought.since is None or memory.happened_at >= sought.since)
        and (sought.until is None or memory.happened_at < sought.until)
        and (sought.ids is None or memory.memory_id in sought.ids)
    )
