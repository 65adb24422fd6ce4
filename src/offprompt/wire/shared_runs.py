"""How far a text and stored ones stay the same around the places where they meet, for all places at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.wire.fingerprints import GRAM, LANE, WORD, Numbers, Words, words_at

# So far runs are followed all at once, a word at a time; those that go on longer are few, and followed one by one.
MAX_ROUNDS: Final = 8
# In a text that repeats itself within a gram there is a run at each offset. So many are followed at both ends of such
# a stretch, and as many for each length of the stored text between.
FOLLOWED: Final = 16

_AROUND: Final = 2 * WORD
# The least number that has another byte than 0 at each place of a word but the first.
_BYTES: Final = np.array([1 << 8 * place for place in range(1, WORD)], np.uint64)


def shared_runs(
    text: bytes, stored: bytes, positions: Numbers, places: Numbers, sizes: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """The longest runs over the places: starts and ends in the text, and starts in the stored texts; each run once.

    Shapes   positions (of the text), places (of the stored texts) and sizes (of the stored text there) are (n,); the
             three arrays that are returned are (m,), m ≤ n, in the order of the first place of each.
    text     holds no byte 0 and no byte 1. stored: texts like it with a byte 1 between them.
    Cost     O(n log n), and O(size) for each run that goes on over `MAX_ROUNDS` words behind its last place.
    """
    text = b"\0" * _AROUND + text + b"\0" * _AROUND
    stored = b"\1" * _AROUND + stored + b"\1" * _AROUND
    left, right = words_at(text, 0, 1), words_at(stored, 0, 1)
    i, j = positions + _AROUND, places + _AROUND
    order = np.flatnonzero((left[i] == right[j]) & (left[i + GRAM - WORD] == right[j + GRAM - WORD]))
    if not len(order):
        return order, order, order
    # Places on one diagonal are on one run where all between them is the same.
    order = order[np.lexsort((i[order], (j - i)[order]))]
    i, j = i[order], j[order]
    gaps = np.diff(i)
    goes_on = (np.diff(j) == gaps) & (gaps <= LANE) & (left[i + LANE - WORD] == right[j + LANE - WORD])[:-1]
    firsts = np.flatnonzero(np.append(True, ~goes_on))
    lasts = np.append(firsts[1:], len(i)) - 1
    order = np.minimum.reduceat(order, firsts)
    kept = _not_repeated(i[firsts], j[firsts], sizes[order])
    firsts, lasts, order = firsts[kept], lasts[kept], order[kept]
    before = _same_before(text, stored, i[firsts], j[firsts])
    after = _same_after(text, stored, i[lasts], j[lasts])
    starts, ends, froms = i[firsts] - before, i[lasts] + after, j[firsts] - before
    # A run on which two places are far apart was followed from both.
    others = np.append(True, (np.diff(starts) != 0) | (np.diff(froms) != 0))
    order = np.argsort(np.minimum.reduceat(order, np.flatnonzero(others)))
    starts, ends, froms = (found[others][order] - _AROUND for found in (starts, ends, froms))
    return starts, ends, froms


def _not_repeated(positions: Numbers, places: Numbers, sizes: Numbers) -> NDArray[np.bool_]:
    """Which runs to follow: all but those of a text that repeats itself within a gram."""
    order = np.lexsort((positions, places))
    at = positions[order]
    new = np.append(True, (np.diff(places[order]) != 0) | (np.diff(at) >= GRAM))
    first = np.flatnonzero(new)
    counts = np.diff(np.append(first, len(at)))
    rank = np.arange(len(at)) - np.repeat(first, counts)
    shares = (at - np.repeat(at[first], counts)) // np.maximum(GRAM, sizes // FOLLOWED)[order]
    inner = (rank >= FOLLOWED) & (rank < np.repeat(counts, counts) - FOLLOWED)
    kept = np.empty(len(at), np.bool_)
    kept[order] = ~inner | np.append(True, np.diff(shares) != 0)
    return kept


def _same_after(text: bytes, stored: bytes, i: Numbers, j: Numbers) -> Numbers:
    """How many bytes from those positions on are the same."""
    left, right = words_at(text, 0, 1), words_at(stored, 0, 1)
    sizes = np.zeros(len(i), np.int64)
    going = np.arange(len(i))
    for _ in range(MAX_ROUNDS):
        other = left[(i + sizes)[going]] ^ right[(j + sizes)[going]]
        # The lowest bit that differs.
        size = _place(other & (~other + np.uint64(1)), all_same=WORD)
        sizes[going] += size
        going = going[size == WORD]
    for one in going.tolist():
        sizes[one] += _long_after(text, int(i[one] + sizes[one]), stored, int(j[one] + sizes[one]))
    return sizes


def _same_before(text: bytes, stored: bytes, i: Numbers, j: Numbers) -> Numbers:
    """How many bytes before those positions are the same."""
    left, right = words_at(text, 0, 1), words_at(stored, 0, 1)
    sizes = np.zeros(len(i), np.int64)
    going = np.arange(len(i))
    for _ in range(MAX_ROUNDS):
        other = left[(i - sizes)[going] - WORD] ^ right[(j - sizes)[going] - WORD]
        size = WORD - 1 - _place(other, all_same=-1)
        sizes[going] += size
        going = going[size == WORD]
    for one in going.tolist():
        sizes[one] += _long_before(text, int(i[one] - sizes[one]), stored, int(j[one] - sizes[one]))
    return sizes


def _place(words: Words, *, all_same: int) -> Numbers:
    """Of each word the place of its highest byte that is not 0."""
    return np.where(words == 0, all_same, _BYTES.searchsorted(words, side="right"))


def _long_after(left: bytes, i: int, right: bytes, j: int) -> int:
    size, block = 0, 64
    while left[i + size : i + size + block] == right[j + size : j + size + block]:
        size, block = size + block, 2 * block
    while block := block >> 1:
        if left[i + size : i + size + block] == right[j + size : j + size + block]:
            size += block
    return size


def _long_before(left: bytes, i: int, right: bytes, j: int) -> int:
    size, block = 0, 64
    while left[max(0, i - size - block) : i - size] == right[max(0, j - size - block) : j - size]:
        size, block = size + block, 2 * block
    while block := block >> 1:
        if left[max(0, i - size - block) : i - size] == right[max(0, j - size - block) : j - size]:
            size += block
    return size
