"""Runs of folded bytes that a text shares with stored ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from offprompt.wire.fingerprints import RUN, Fingerprints, Numbers
from offprompt.wire.folding import fold
from offprompt.wire.shared_runs import shared_runs
from offprompt.wire.short_values import ShortValues
from offprompt.wire.thresholds import provable

# A run of 32 characters rarely folds to fewer bytes than the fingerprints guarantee; those that do are found by luck.
MIN_RUN: Final = RUN - 4


@dataclass(frozen=True, slots=True)
class Stored:
    """A text that is looked for. secret: of a `never` slot."""

    name: str
    text: str
    secret: bool
    number: int


@dataclass(frozen=True, slots=True)
class Run:
    """Folded bytes [start, end) of the text are those from `at` on of the stored one, or with a form its encoding."""

    stored: Stored
    start: int
    end: int
    at: int
    form: str = ""
    whole: bool = False


class StoredRuns:
    """What is looked for: long texts by their fingerprints, short ones whole.

    Not safe for use by several threads at once.
    """

    def __init__(self) -> None:
        self._stored: list[Stored | None] = []
        self._prints = Fingerprints()
        self._short = ShortValues()

    @property
    def bytes(self) -> int:
        """Memory of the fingerprints, in bytes."""
        return self._prints.bytes

    def add(self, name: str, text: str, *, secret: bool) -> Stored:
        """Looks for the text from now on."""
        one = Stored(name, text, secret, len(self._stored))
        folded = fold(text)
        self._prints.add(folded)
        self._stored.append(one)
        if provable(text) and len(folded) < RUN:
            self._short.add(one.number, text, folded)
        return one

    def remove(self, one: Stored) -> None:
        """Looks for it no more. Its fingerprints stay."""
        self._stored[one.number] = None
        self._short.remove(one.number)

    def find(self, folded: bytes) -> list[Run]:
        """Those of at least `MIN_RUN` bytes, or whole, that lie in no longer one; and short values.

        Cost   near linear in the text and the stored texts that share runs with it, and in the meetings of both.
        """
        return [*self._long_runs(folded), *self._short_runs(folded)]

    def _long_runs(self, folded: bytes) -> list[Run]:
        found = [self._shared(folded, *met) for met in self._prints.meetings(folded)]
        if not found:
            return []
        starts, ends, numbers, offsets, whole = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.lexsort((-ends, starts))
        reach = np.maximum.accumulate(ends[order])
        kept = order[whole[order] | (ends[order] > np.append(-1, reach[:-1]))]
        runs: dict[tuple[int, int, int], Run] = {}
        for at in kept.tolist():
            start, end, number = int(starts[at]), int(ends[at]), int(numbers[at])
            if one := self._stored[number]:
                run = Run(one, start, end, int(offsets[at]), whole=bool(whole[at]))
                runs.setdefault((number, start, end), run)
        return list(runs.values())

    def _shared(self, folded: bytes, positions: Numbers, numbers: Numbers, offsets: Numbers) -> tuple[Numbers, ...]:
        """Starts, ends, text numbers, offsets in those, and which are whole."""
        met = np.flatnonzero(np.bincount(numbers))
        texts = [fold(one.text) if (one := self._stored[number]) else b"" for number in met.tolist()]
        sizes = np.zeros(met[-1] + 1, np.int64)
        begins = np.zeros(met[-1] + 1, np.int64)
        sizes[met] = [len(text) for text in texts]
        begins[met] = np.cumsum(sizes[met] + 1) - sizes[met] - 1
        alive = sizes[numbers] > 0
        positions, numbers, offsets = positions[alive], numbers[alive], offsets[alive]
        places = begins[numbers] + offsets
        starts, ends, froms = shared_runs(folded, b"\1".join(texts), positions, places, sizes[numbers])
        owners = met[begins[met].searchsorted(froms, side="right") - 1]
        whole = ends - starts == sizes[owners]
        long = np.flatnonzero(whole | (ends - starts >= MIN_RUN))
        starts, ends, owners, froms, whole = (found[long] for found in (starts, ends, owners, froms, whole))
        return starts, ends, owners, froms - begins[owners], whole

    def _short_runs(self, folded: bytes) -> Iterator[Run]:
        for number, start, end, form in self._short.find(folded):
            if one := self._stored[number]:
                yield Run(one, start, end, 0, form, whole=True)
