"""What finds memories by meaning or by words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from offprompt.records import Sought, VectorEntry, VectorStamp, WordHits

if TYPE_CHECKING:  # NumPy is loaded where vectors are used, not where contracts are read
    import numpy as np
    from numpy.typing import NDArray


@runtime_checkable
class VectorSearch(Protocol):
    """Which memories mean nearly what a question does. Vectors written with the memories themselves need no more."""

    @property
    def embedder(self) -> str:
        """The name of what made the vectors: an index holds those of one embedder."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        ...

    def nearest(self, vector: NDArray[np.floating], sought: Sought, *, limit: int) -> list[tuple[str, float]]:
        """Ids of the memories that lie closest, of those that are sought, each with its cosine.

        Shapes   vector (dimension,), of any length but 0; at most `limit` pairs.
        Order    cosine, highest first, ties by id. Cosines are right to 1e-3: vectors may be kept in half precision.
        Exact    up to the engine's own threshold, which it says; in larger scopes it may miss some.
        Raises   UsageError for another dimension; BackendError if the index does not answer.
        """
        ...


@runtime_checkable
class VectorIndex(VectorSearch, Protocol):
    """Vectors of memories outside their store: rebuilt from it at any time, kept in step by what waits in it.

    Place    entries are known by app and id; an entry put again replaces the one before, whatever its scope was.
    Embedder an index sees the entries of its own embedder only; those of others at the same place are as if not there.
    Written  what returned is found by the next `nearest`, `stamps` and `scan` of any client.
    Open     does not connect: what is wrong is said at first use. UsageError: what is there has another dimension.
    Errors   BackendError if the index does not answer in time or refuses; the message never holds a key.
    Safety   any number of threads and processes.
    """

    def upsert(self, entries: Sequence[VectorEntry]) -> None:
        """Put entries, any number; of several with one place the last counts. Once more changes nothing."""
        ...

    def delete(self, places: Sequence[tuple[str, str]]) -> None:
        """Remove entries by app and id; those that are not there are passed over."""
        ...

    def stamps(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], VectorStamp]:
        """What the index holds at these places; what is not there is left out."""
        ...

    def scan(self, *, after: str = "", limit: int = 1000) -> tuple[list[VectorStamp], str]:
        """A page of all entries, in an order of the engine's own, and the cursor of the next; "" at the end.

        Entries that are there from the first page to the last are listed; what comes or goes meanwhile may be.
        """
        ...

    def count(self) -> int:
        """Entries in all."""
        ...

    def drop(self) -> None:
        """Remove all entries; the index can be used as before."""
        ...

    def close(self) -> None:
        """Let go of connections; a second call does nothing."""
        ...


@runtime_checkable
class WordIndex(Protocol):
    """What a MemoryStore offers that finds memories of very large scopes by their words without loading them."""

    def words(self, terms: Sequence[str], sought: Sought, *, limit: int) -> WordHits:
        """The memories that hold terms of a question, with the statistics of their scopes.

        terms    as `Packed.terms` of `Indexed.content` has them; of more than 128 the rarest count.
        Order    see WordHits; at most `limit` ids.
        Of what  live memories, not expired, whose index is of their version.
        Raises   BackendError if the store fails.
        """
        ...

    def beside(self, app: str, ids: Sequence[str]) -> tuple[str, ...]:
        """Ids of the live episodes, not expired, that stand right before or after these in the log of their session.

        The log: the live episodes of one scope with one `session`, not empty, by order and id. Others are passed over.
        Returns  ids that are not among those given, in order, each once.
        """
        ...
