"""The vector index of an opened memory: asked in recalls, kept in step with the store, left alone while it fails."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import BackendError, OffpromptError, UnsupportedError
from offprompt.protocols import Clock, Embedder, MemoryStore, VectorIndex, VectorSearch, WordIndex, apply
from offprompt.recall.packing import vector_of
from offprompt.records import DoneVectors, Indexed, Memory, PendingVectors, Sought, VectorEntry, WaitingVectors
from offprompt.records.packed import unpack_content
from offprompt.service.indexing import has_vector

CANDIDATES: Final = 1000
"""Memories of a loaded scope whose cosine is asked for; all others count as unrelated."""

BATCH: Final = 256
BATCHES_AFTER_A_WRITE: Final = 4
"""How much of what waits one write takes along; the rest waits for the next one, or for the worker."""

REST_S: Final = 30.0
"""Seconds for which an index that failed is not asked again, so that not every call waits for it in vain."""

MOST_WAITING: Final = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """What of the memories that waited the index has now: put and removed. left: more wait."""

    put: int = 0
    removed: int = 0
    left: bool = False


def entry_of(memory: Memory | None, indexed: Indexed | None, embedder: Embedder) -> VectorEntry | None:
    """The memory as the index holds it; None if it is not to be there: not live, or without a vector of the embedder.

    Its stamp is a digest of all that the index holds of it.
    """
    if memory is None or indexed is None or memory.state != "live" or not has_vector(memory, indexed, embedder):
        return None
    packed = unpack_content(indexed.content)
    vector = None if packed is None else vector_of(packed)
    if packed is None or vector is None or len(vector) != embedder.dimension:
        return None
    said = json.dumps([memory.memory_id, *memory.scope.key, memory.kind, memory.happened_at, embedder.name])
    stamp = hashlib.blake2b(said.encode("utf-8", "surrogatepass") + packed.vector, digest_size=12).hexdigest()
    return VectorEntry(
        memory.memory_id, memory.scope, memory.kind, memory.happened_at, vector.astype(np.float32), stamp
    )


class VectorLink:
    """One vector index and the store whose memories it holds. Thread-safe.

    store   the memories' engine itself.
    """

    def __init__(self, index: VectorSearch, store: MemoryStore, embedder: Embedder, clock: Clock) -> None:
        self.index, self.embedder = index, embedder
        self._store, self._clock = store, clock
        self._failed_at: float | None = None
        self._why = ""

    @property
    def words(self) -> WordIndex | None:
        """The store, if it finds memories by their words as well.

        Then the index is asked for very large scopes only: others are loaded with their vectors, and searched exactly.
        Else no scope's vectors are loaded: the index has them.
        """
        return self._store if isinstance(self._store, WordIndex) else None

    @property
    def outside(self) -> VectorIndex | None:
        """The index, if it lies outside of the store and must be told what changes."""
        return self.index if isinstance(self.index, VectorIndex) else None

    def nearest(
        self, vector: NDArray[np.floating], sought: Sought, *, limit: int = CANDIDATES
    ) -> tuple[dict[str, float], str]:
        """Cosines by id, and why they are not known; empty if they are.

        Raises   UsageError if the index is of another dimension.
        """
        if self._rests():
            return {}, self._why
        try:
            return dict(self.index.nearest(vector, sought, limit=limit)), ""
        except (BackendError, UnsupportedError) as exc:
            self._fail(exc)
            return {}, self._why

    def behind(self, app: str) -> tuple[str, ...]:
        """Ids of an app's memories whose last change the index may not have; at most 1,000."""
        return apply(self._store, WaitingVectors(app, MOST_WAITING)) if self.outside is not None else ()

    def after_write(self, app: str | None = None) -> None:
        """Tell the index what waits, as far as one write may: what goes wrong is no fault of the write.

        Nothing is lost: what the index was not told waits on, and recalls say so.
        """
        if self.outside is None or self._rests():
            return
        try:
            for _ in range(BATCHES_AFTER_A_WRITE):
                if not self.tell(app).left:
                    return
        except (BackendError, UnsupportedError) as exc:
            self._fail(exc)
        except OffpromptError:
            # The next recall, and doctor, say what is wrong.
            return

    def tell(self, app: str | None = None, *, limit: int = BATCH) -> Told:
        """Tell the index the oldest of what waits (None: of all apps). Several may do so at once.

        Cost     one read, one call of the index each for what is put and what is removed, one write.
        Raises   BackendError if store or index fail; UsageError if the index is of another dimension. Then it waits on.
        """
        index = self.outside
        if index is None:
            return Told()
        rows = apply(self._store, PendingVectors(app, limit))
        if not rows:
            return Told()
        entries = {
            (row.app, row.memory_id): entry
            for row in rows
            if (entry := entry_of(row.memory, row.indexed, self.embedder)) is not None
        }
        gone = [(row.app, row.memory_id) for row in rows if (row.app, row.memory_id) not in entries]
        if entries:
            index.upsert(list(entries.values()))
        if gone:
            index.delete(gone)
        self._failed_at = None
        again = apply(self._store, DoneVectors(tuple(rows)))
        return Told(len(entries), len(gone), left=len(rows) == limit or again > 0)

    def _rests(self) -> bool:
        if self._failed_at is None:
            return False
        # A clock that was set back ends the rest as well.
        return 0 <= self._clock.now() - self._failed_at < REST_S

    def _fail(self, exc: OffpromptError) -> None:
        self._failed_at, self._why = self._clock.now(), str(exc)
