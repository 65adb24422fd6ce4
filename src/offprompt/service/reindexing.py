"""Reindex: vectors for memories that have none of the embedder in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from offprompt.errors import BackendError
from offprompt.protocols import Embedder, apply
from offprompt.records import IndexMemories, Memory, Scope, Unindexed
from offprompt.records.imported import Reindexed
from offprompt.service.indexing import index_texts
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.vector_check import compare

BATCH = 256


def waiting(kit: MemoryKit, scope: Scope | None = None) -> int:
    """How many live memories of a scope's subtree (None: all) have no vector of the embedder in use. Cost: O(those)."""
    if kit.embedder is None:
        return 0
    return sum(len(rows) for rows in _pages(kit, kit.embedder, scope))


def reindex(
    kit: MemoryKit, scope: Scope | None = None, *, progress: Callable[[int], object] | None = None
) -> Reindexed:
    """Give every live memory of a scope's subtree (None: all) a vector of the embedder in use, and the index these.

    progress  called with the number done, after each batch of 256, which is stored by then: a reindex that was broken
              off goes on where it was. Meanwhile what has no new vector is found by its words.
    Raises    BackendError if the embedder or the vector index fails; what was done stays.
    """
    if kit.embedder is None:
        return Reindexed(0, "")
    done = 0
    for count in batches(kit, scope):
        done += count
        if progress is not None:
            progress(done)
    mended = compare(kit.vectors, kit.memories, scope, fix=True).mended if kit.vectors is not None else 0
    return Reindexed(done, kit.embedder.name, mended)


def batches(kit: MemoryKit, scope: Scope | None = None) -> Iterator[int]:
    """`reindex` of memories without a vector, batch by batch: yields how many, each time they are stored.

    Raises   BackendError if the embedder fails; what was done stays.
    """
    done = 0
    for rows in _pages(kit, kit.embedder, scope) if kit.embedder is not None else ():
        indexed, trouble = index_texts(kit.embedder, rows)
        if trouble:
            raise BackendError(f"the embedder failed after {done} memories, which stay indexed: {trouble}")
        by_scope: dict[Scope, list[Memory]] = {}
        for row in rows:
            by_scope.setdefault(row.scope, []).append(row)
        made = {one.memory_id: one for one in indexed}
        kit.memories.apply(
            [IndexMemories(place, tuple(made[row.memory_id] for row in own)) for place, own in by_scope.items()]
        )
        done += len(rows)
        yield len(rows)


def _pages(kit: MemoryKit, embedder: Embedder, scope: Scope | None) -> Iterator[list[Memory]]:
    """What has no vector of the embedder, each page asked for when the one before is used up."""
    rows, after = list[Memory](), ""
    while not after or len(rows) == BATCH:
        rows = apply(kit.memories, Unindexed(embedder.name, scope, after, BATCH))
        if not rows:
            return
        after = rows[-1].memory_id
        yield rows
