"""The columns of a scope's docs, one row each, in arrays that grow."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import cast

import numpy as np
from numpy.typing import NDArray

from offprompt.recall.docs import EPISODE, Doc

Floats = NDArray[np.float32]
Times = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOWHERE = -1


def products(vectors: Floats, vector: NDArray[np.floating]) -> Floats:
    """The product of each row with the vector, row by row on the caller's thread: a row's place changes nothing.

    A BLAS shares even a product this small out to all cores, and then waits for the one that is busy with others' work.
    """
    return cast("Floats", np.vecdot(vectors, np.asarray(vector, np.float32)))


class Names:
    """Numbers for names, given out as they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The name's number; -1 for no name."""
        return self.numbers.setdefault(name, len(self.numbers)) if name else NOWHERE


@dataclass(slots=True)
class Columns:
    """Arrays of one length, longer than there are rows; what is beyond the rows is empty.

    embedded    has a vector. happened: event_at, else created_at. before, after: rows of the neighbours in the
                session's log, or -1.
    """

    alive: Bools = field(default_factory=lambda: np.zeros(0, np.bool_), metadata={"empty": 0})
    episode: Bools = field(default_factory=lambda: np.zeros(0, np.bool_), metadata={"empty": 0})
    asks: Bools = field(default_factory=lambda: np.zeros(0, np.bool_), metadata={"empty": 0})
    pinned: Bools = field(default_factory=lambda: np.zeros(0, np.bool_), metadata={"empty": 0})
    embedded: Bools = field(default_factory=lambda: np.zeros(0, np.bool_), metadata={"empty": 0})
    kind: Ints = field(default_factory=lambda: np.zeros(0, np.int64), metadata={"empty": 0})
    speaker: Ints = field(default_factory=lambda: np.zeros(0, np.int64), metadata={"empty": NOWHERE})
    session: Ints = field(default_factory=lambda: np.zeros(0, np.int64), metadata={"empty": NOWHERE})
    before: Ints = field(default_factory=lambda: np.zeros(0, np.int64), metadata={"empty": NOWHERE})
    after: Ints = field(default_factory=lambda: np.zeros(0, np.int64), metadata={"empty": NOWHERE})
    words: Ints = field(default_factory=lambda: np.zeros(0, np.int64), metadata={"empty": 0})
    length: Floats = field(default_factory=lambda: np.zeros(0, np.float32), metadata={"empty": 0})
    importance: Floats = field(default_factory=lambda: np.zeros(0, np.float32), metadata={"empty": 0})
    uses: Floats = field(default_factory=lambda: np.zeros(0, np.float32), metadata={"empty": 0})
    happened: Times = field(default_factory=lambda: np.zeros(0, np.float64), metadata={"empty": 0})
    created: Times = field(default_factory=lambda: np.zeros(0, np.float64), metadata={"empty": 0})

    def reserve(self, rows: int) -> None:
        """Make room for that many rows, and for half as many again when it must grow."""
        if rows <= len(self.alive):
            return
        for each in fields(self):
            old = getattr(self, each.name)
            new = np.full(rows + rows // 2, each.metadata["empty"], old.dtype)
            new[: len(old)] = old
            setattr(self, each.name, new)

    def keep(self, rows: Ints) -> None:
        """Only these rows, in this order; neighbours are numbered anew."""
        new = np.full(len(self.alive) + 1, NOWHERE, np.int64)
        new[rows] = np.arange(len(rows))
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name)[rows])
        self.before, self.after = new[self.before], new[self.after]

    def fill(self, first: int, docs: Sequence[Doc], kinds: Names, speakers: Names, sessions: Names) -> None:
        """Write docs into rows from the first on; their neighbours are not known yet."""
        rows = slice(first, first + len(docs))
        self.alive[rows] = True
        self.before[rows] = self.after[rows] = NOWHERE
        self.episode[rows] = [doc.kind == EPISODE for doc in docs]
        self.asks[rows] = [doc.content.asks for doc in docs]
        self.pinned[rows] = [doc.pinned for doc in docs]
        self.kind[rows] = [kinds.number(doc.kind) for doc in docs]
        self.speaker[rows] = [speakers.number(doc.speaker) for doc in docs]
        self.session[rows] = [sessions.number(doc.session) for doc in docs]
        self.words[rows] = [doc.content.words for doc in docs]
        self.importance[rows] = [doc.importance for doc in docs]
        self.uses[rows] = [doc.uses for doc in docs]
        self.happened[rows] = [doc.created_at if doc.event_at is None else doc.event_at for doc in docs]
        self.created[rows] = [doc.created_at for doc in docs]


class Logs:
    """The episodes of each session in order, and with them who stands next to whom."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._logs: dict[int, list[tuple[int, str, int]]] = {}

    def add(self, session: int, order: int, doc_id: str, row: int) -> None:
        """Put a row between its neighbours. Cost O(log n), and moving what comes after."""
        log = self._logs.setdefault(session, [])
        place = (order, doc_id, row)
        at = len(log) if not log or log[-1] < place else bisect_left(log, place)
        if at:
            self._join(log[at - 1][2], row)
        if at < len(log):
            self._join(row, log[at][2])
        log.insert(at, place)

    def remove(self, session: int, order: int, doc_id: str, row: int) -> None:
        """Take a row out; its neighbours become each other's."""
        log = self._logs[session]
        log.remove((order, doc_id, row))
        if not log:
            del self._logs[session]
        self._join(int(self._columns.before[row]), int(self._columns.after[row]))

    def renumber(self, new: Sequence[int]) -> None:
        """Rows have new numbers: new[old]."""
        for log in self._logs.values():
            log[:] = [(order, doc_id, new[row]) for order, doc_id, row in log]

    def _join(self, left: int, right: int) -> None:
        if left != NOWHERE:
            self._columns.after[left] = right
        if right != NOWHERE:
            self._columns.before[right] = left
