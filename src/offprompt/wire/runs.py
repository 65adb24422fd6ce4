"""Runs of folded bytes that a text shares with stored ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from offprompt.wire.fingerprints import GRAM, RUN, Fingerprints
from offprompt.wire.folding import fold
from offprompt.wire.short_values import ShortValues
from offprompt.wire.thresholds import provable

# A run of 32 characters rarely folds to fewer bytes than the fingerprints guarantee; those that do are found by luck.
MIN_RUN: Final = RUN - 4
MAX_VAIN: Final = 16


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
        """Those of at least `MIN_RUN` bytes, or whole, that lie in no longer one; and short values."""
        return [*_longest(self._long_runs(folded)), *self._short_runs(folded)]

    def _short_runs(self, folded: bytes) -> Iterator[Run]:
        for number, start, end, form in self._short.find(folded):
            if one := self._stored[number]:
                yield Run(one, start, end, 0, form)

    def _long_runs(self, folded: bytes) -> Iterator[Run]:
        covered: dict[tuple[int, int], int] = {}
        reach: dict[int, int] = {}
        vain: Counter[tuple[int, int]] = Counter()
        texts: dict[int, bytes] = {}
        for position, number, at in self._prints.meetings(folded):
            one = self._stored[number]
            # Two texts may share several runs here, each at its own offset of one to the other; in texts that
            # repeat themselves there is one at each offset, and only the first few are followed.
            if one is None or covered.get((number, at - position), 0) > position:
                continue
            if vain[number, at] > MAX_VAIN and position < reach[number]:
                continue
            stored = texts.get(number)
            if stored is None:
                stored = texts[number] = fold(one.text)
            if stored[at : at + GRAM] != folded[position : position + GRAM]:
                continue
            before = _common_end(folded, position, stored, at)
            end = position + _common_start(folded, position, stored, at)
            covered[number, at - position] = end
            vain[number, at] += end < reach.get(number, 0) + GRAM
            reach[number] = max(end, reach.get(number, 0))
            size = end - position + before
            if size >= min(MIN_RUN, len(stored)):
                yield Run(one, position - before, end, at - before, whole=size == len(stored))


def _longest(runs: Iterator[Run]) -> list[Run]:
    """Those that are whole or reach over all before them that begin no later."""
    kept: list[Run] = []
    reach = 0
    for run in sorted(runs, key=lambda run: (run.start, -run.end)):
        if run.whole or run.end > reach:
            kept.append(run)
        reach = max(reach, run.end)
    return kept


def _common_start(left: bytes, i: int, right: bytes, j: int) -> int:
    """How many bytes from those positions on are the same."""
    size, block, limit = 0, 64, min(len(left) - i, len(right) - j)
    while block:
        while size + block <= limit and left[i + size : i + size + block] == right[j + size : j + size + block]:
            size += block
        block >>= 1
    return size


def _common_end(left: bytes, i: int, right: bytes, j: int) -> int:
    """How many bytes before those positions are the same."""
    size, block, limit = 0, 64, min(i, j)
    while block:
        while size + block <= limit and left[i - size - block : i - size] == right[j - size - block : j - size]:
            size += block
        block >>= 1
    return size
