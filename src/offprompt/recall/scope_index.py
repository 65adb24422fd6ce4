"""All memories of one scope, found by words and by meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import UsageError
from offprompt.recall.docs import EPISODE, Doc, Found, Query
from offprompt.recall.ranking import Data, rank
from offprompt.recall.rows import NOWHERE, Logs

DEAD_LEAST: Final = 1024
"""Removed rows that stay before the arrays are packed; more in a large scope (half of the rows)."""


class ScopeIndex:
    """The docs of one scope; nothing outside of it changes a score.

    dimension   of the vectors; None: the first vector's. unrelated: the embedder's, the cosine that counts as 0.
    zeros       the same by kind, where kinds have embedders of their own; spread: what their cosines are multiplied by.
    Cost        add and remove O(terms of the doc) amortised; search O(docs).
    Order       the same docs and the same query give the same hits, whatever was added and removed in between.
    Threads     one at a time.
    """

    def __init__(
        self,
        *,
        dimension: int | None = None,
        unrelated: float = 0.0,
        zeros: Mapping[str, float] | None = None,
        spread: float = 1.0,
    ) -> None:
        self._dimension = dimension
        self._data = Data(unrelated=unrelated, zeros=zeros or {}, spread=spread)
        self._logs = Logs(self._data.columns)
        self._orders: list[int] = []

    def __len__(self) -> int:
        return len(self._data.rows)

    def __contains__(self, doc_id: str) -> bool:
        return doc_id in self._data.rows

    def add(self, docs: Iterable[Doc]) -> None:
        """Add docs; one whose id is there is replaced, of several with one id the last counts.

        Raises   UsageError if a vector has another dimension than the others; nothing was changed.
        """
        new = list({doc.doc_id: doc for doc in docs}.values())
        self._check([doc.content.vector for doc in new])
        for doc in new:
            self.remove(doc.doc_id)
        if not new:
            return
        data, first = self._data, len(self._data.ids)
        times = np.frombuffer(b"".join(doc.content.times for doc in new), "<u2").astype(np.float32)
        if len(new) == 1:
            data.postings.add(new[0].content.terms, times.tolist())
        else:
            data.postings.add_many([doc.content.terms for doc in new], times)
        data.columns.reserve(first + len(new))
        data.columns.fill(first, new, data.kinds, data.speakers, data.sessions)
        rows = np.repeat(np.arange(len(new)), [len(doc.content.terms) for doc in new])
        data.columns.length[first : first + len(new)] = np.bincount(rows, times, len(new))
        for row, doc in enumerate(new, start=first):
            data.ids.append(doc.doc_id)
            data.rows[doc.doc_id] = row
            self._orders.append(doc.order)
            if doc.kind == EPISODE and doc.session:
                self._logs.add(data.sessions.number(doc.session), doc.order, doc.doc_id, row)
        self._add_vectors(first, [doc.content.vector for doc in new])

    def remove(self, doc_id: str) -> bool:
        """Take a doc out; whether it was there."""
        data = self._data
        row = data.rows.pop(doc_id, None)
        if row is None:
            return False
        columns = data.columns
        if columns.episode[row] and columns.session[row] != NOWHERE:
            self._logs.remove(int(columns.session[row]), self._orders[row], doc_id, row)
        data.postings.remove(row)
        columns.alive[row], columns.length[row], columns.session[row] = False, 0, NOWHERE
        if len(data.ids) - len(data.rows) > max(DEAD_LEAST, len(data.ids) // 2):
            self._pack()
        return True

    def set_uses(self, doc_id: str, uses: int) -> None:
        """Change the uses of a doc that is there. Cost O(1)."""
        self._data.columns.uses[self._data.rows[doc_id]] = uses

    def search(self, query: Query) -> Found:
        """The best docs for a question.

        Raises   UsageError if the query's vector has another dimension than the docs', or top_k is below 1.
        """
        if query.top_k < 1:
            raise UsageError(f"top_k is {query.top_k}; ask for 1 hit or more")
        self._check([query.vector])
        return rank(self._data, query)

    def _check(self, vectors: Sequence[NDArray[np.floating] | None]) -> None:
        dimension = self._dimension
        for vector in vectors:
            if vector is None:
                continue
            dimension = dimension or vector.shape[-1]
            if vector.shape != (dimension,):
                raise UsageError(
                    f"a vector of shape {vector.shape} does not fit this scope, whose vectors have {dimension} "
                    "numbers; embed with the model that made the others, or reindex all with the new one"
                )
        self._dimension = dimension

    def _add_vectors(self, first: int, vectors: Sequence[NDArray[np.float16] | None]) -> None:
        """Vectors stand in the row of their doc; rows without one are zeros."""
        if self._dimension is None:
            return
        data, rows = self._data, first + len(vectors)
        if rows > len(data.vectors):
            grown = np.zeros((rows + rows // 2, self._dimension), np.float32)
            if len(data.vectors):
                grown[: len(data.vectors)] = data.vectors
            data.vectors = grown
        given = np.array([vector is not None for vector in vectors])
        data.columns.embedded[first:rows] = given
        halves = np.frombuffer(b"".join(vector.tobytes() for vector in vectors if vector is not None), np.float16)
        data.vectors[first:rows][given] = halves.reshape(-1, self._dimension)

    def _pack(self) -> None:
        """Take the rows of removed docs out of all arrays."""
        data = self._data
        rows = np.fromiter(sorted(data.rows.values()), np.int64, len(data.rows))
        new = np.full(len(data.ids), NOWHERE, np.int64)
        new[rows] = np.arange(len(rows))
        data.columns.keep(rows)
        data.postings.keep(rows)
        self._logs.renumber(new.tolist())
        data.ids = [data.ids[row] for row in rows.tolist()]
        self._orders = [self._orders[row] for row in rows.tolist()]
        data.rows = {doc_id: row for row, doc_id in enumerate(data.ids)}
        if len(data.vectors):
            data.vectors = data.vectors[rows]
