"""Postings of one scope: which rows hold a term and how often, kept as flat arrays that grow and shrink in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

PENDING_LEAST: Final = 8192
"""Postings that may wait before they are merged; more where the merged ones are many (a quarter of them)."""

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TermHits:
    """The rows that hold a term, in no order, each once; `times`: how often."""

    rows: Ints
    times: Floats
    holders: int


class _Numbers(dict[str, int]):
    """Numbers for terms, given out as they come."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class Postings:
    """Rows by term, in the layout of a compressed sparse matrix, with a small part that waits to be merged.

    Cost     add O(terms) amortised; a merge sorts all postings; remove O(terms); hits O(rows of the term).
    Rows     numbers from 0 that the caller gives out, each once. A removed row counts in no statistic any more, though
             `hits` may still name it; `keep` takes such rows out.
    """

    def __init__(self) -> None:
        self._ids = _Numbers()
        self._starts: Ints = np.zeros(1, np.int64)
        self._rows: Ints = np.zeros(0, np.int64)
        self._times: Floats = np.zeros(0, np.float32)
        self._holders: Ints = np.zeros(0, np.int64)
        self._terms_of: list[Ints] = []
        self._pending: dict[int, tuple[list[int], list[float]]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._terms_of)

    def add(self, terms: Sequence[str], times: Sequence[float]) -> int:
        """A new row; returns its number. terms: each once."""
        row = len(self._terms_of)
        ids = self._ids_of(terms)
        for term, often in zip(ids.tolist(), times, strict=True):
            rows, counts = self._pending.setdefault(term, ([], []))
            rows.append(row)
            counts.append(often)
        self._terms_of.append(ids)
        self._holders[ids] += 1
        self._waiting += len(ids)
        if self._waiting > max(PENDING_LEAST, len(self._rows) // 4):
            self._merge(*self._waiting_postings())
        return row

    def add_many(self, terms: Sequence[Sequence[str]], times: Floats) -> None:
        """New rows at once, without a waiting part; times: of all terms of all rows, in one line."""
        first = len(self._terms_of)
        ids = self._ids_of([term for each in terms for term in each])
        sizes = np.fromiter((len(each) for each in terms), np.int64, len(terms))
        ends = np.cumsum(sizes).tolist()
        self._terms_of += [ids[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        self._holders += np.bincount(ids, minlength=len(self._holders))
        rows, counts, waiting = self._waiting_postings()
        new = np.repeat(np.arange(first, first + len(terms)), sizes)
        self._merge(np.concatenate([rows, new]), np.concatenate([counts, times]), np.concatenate([waiting, ids]))

    def remove(self, row: int) -> None:
        """Take a row out of the statistics; it must be there."""
        self._holders[self._terms_of[row]] -= 1

    def hits(self, term: str) -> TermHits | None:
        """Where a term is; None where no row holds it."""
        number = self._ids.get(term)
        if number is None or not self._holders[number]:
            return None
        begin, end = (self._starts[number], self._starts[number + 1]) if number + 1 < len(self._starts) else (0, 0)
        rows, times = self._rows[begin:end], self._times[begin:end]
        if number in self._pending:
            more_rows, more_times = self._pending[number]
            rows = np.concatenate([rows, np.array(more_rows, np.int64)])
            times = np.concatenate([times, np.array(more_times, np.float32)])
        return TermHits(rows, times, int(self._holders[number]))

    def keep(self, rows: Ints) -> None:
        """Keep only these rows, numbered anew in the order given."""
        counts, all_rows, ids = self._everything()
        new = np.full(len(self._terms_of), -1, np.int64)
        new[rows] = np.arange(len(rows))
        kept = new[all_rows] >= 0
        self._terms_of = [self._terms_of[row] for row in rows.tolist()]
        self._rows, self._times = np.zeros(0, np.int64), np.zeros(0, np.float32)
        self._starts = np.zeros(1, np.int64)
        self._merge(new[all_rows[kept]], counts[kept], ids[kept])

    def _ids_of(self, terms: Sequence[str]) -> Ints:
        ids = self._ids
        found = np.fromiter(map(ids.__getitem__, terms), np.int64, len(terms))
        if len(ids) > len(self._holders):
            grown = np.zeros(max(len(ids), 2 * len(self._holders)), np.int64)
            grown[: len(self._holders)] = self._holders
            self._holders = grown
        return found

    def _waiting_postings(self) -> tuple[Ints, Floats, Ints]:
        pending = self._pending
        rows = np.array([row for rows, _ in pending.values() for row in rows], np.int64)
        times = np.array([often for _, counts in pending.values() for often in counts], np.float32)
        ids = np.repeat(
            np.fromiter(pending, np.int64, len(pending)),
            np.fromiter((len(rows) for rows, _ in pending.values()), np.int64, len(pending)),
        )
        return rows, times, ids

    def _everything(self) -> tuple[Floats, Ints, Ints]:
        rows, times, ids = self._waiting_postings()
        merged = np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))
        return (
            np.concatenate([self._times, times]),
            np.concatenate([self._rows, rows]),
            np.concatenate([merged, ids]),
        )

    def _merge(self, rows: Ints, times: Floats, ids: Ints) -> None:
        """Put postings between the merged ones; nothing waits afterwards."""
        merged = np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))
        ids = np.concatenate([merged, ids])
        # Numbers of 16 bits are sorted in linear time.
        order = np.argsort(ids.astype(np.uint16) if len(self._ids) < 1 << 16 else ids, kind="stable")
        self._rows = np.concatenate([self._rows, rows])[order]
        self._times = np.concatenate([self._times, times])[order]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=len(self._ids)))])
        self._pending, self._waiting = {}, 0
