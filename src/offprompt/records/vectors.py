"""What vector and word indexes hold of memories, are asked, and answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from offprompt.records.memory import Indexed, Memory, MemoryKind
from offprompt.records.scope import Scope, Within

if TYPE_CHECKING:  # NumPy is loaded where vectors are used, not where records are read
    import numpy as np
    from numpy.typing import NDArray

Place: TypeAlias = tuple[str, str]
"""App and id of a memory: ids are unique in an app."""


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """A live memory as a vector index holds it.

    vector   unit length, float32, the index's dimension.
    stamp    a digest of all the rest and of the vector: what has the same one is the same.
    """

    memory_id: str
    scope: Scope
    kind: MemoryKind
    happened_at: float
    vector: NDArray[np.float32]
    stamp: str

    @property
    def place(self) -> Place:
        """App and id."""
        return self.scope.app, self.memory_id


@dataclass(frozen=True, slots=True)
class VectorStamp:
    """An entry without its vector, as `VectorIndex.scan` lists it."""

    memory_id: str
    scope: Scope
    stamp: str

    @property
    def place(self) -> Place:
        """App and id."""
        return self.scope.app, self.memory_id


@dataclass(frozen=True, slots=True)
class Sought:
    """Which memories an index may find; every condition given must hold, before anything is ranked.

    scope, within  as in MemoryQuery. kinds: None: all. since/until  over `happened_at`, since ≤ t < until.
    ids      no others than these; None: any.
    """

    scope: Scope
    within: Within = "exact"
    kinds: frozenset[MemoryKind] | None = None
    since: float | None = None
    until: float | None = None
    ids: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class WordHits:
    """What a WordIndex finds, and what BM25 needs to know of all texts that `scope` and `within` name.

    ids      of those that are sought and hold a term, best first: by the sum of ln(1 + (N − n + .5) / (n + .5)) over
             the terms that each holds, N: texts, n: holders; compared to nine decimals, ties by id.
    texts    live memories, not expired, that have terms; terms: in all of them together, each as often as it is there.
    holders  by term of the question, how many of the texts hold it; 0 is left out.
    """

    ids: tuple[str, ...]
    texts: int
    terms: int
    holders: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WaitingVector:
    """A memory whose last change the vector index may not have yet, as it is now.

    seq      of the row that waits. memory: None if it is gone; indexed: what is derived from it, None if nothing is.
    """

    seq: int
    app: str
    memory_id: str
    memory: Memory | None
    indexed: Indexed | None
