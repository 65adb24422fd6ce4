"""Which stored texts share a run of bytes with another text: fingerprints at sampled places, so that none is missed.

Guarantee   a run of `RUN` bytes that a stored text shares with the scanned one is met by `meetings`.
Sampling    stored texts are fingerprinted at every sixth byte, scanned ones at six neighbouring bytes of every 12:
            whatever the offset between the two, one pair of places falls together in each 12 bytes. A difference
            cover (Colbourn & Ling 2000; Burkhardt & Kärkkäinen 2003) in the place of winnowing's local minima
            (Schleimer, Wilkerson & Aiken 2003): the same guarantee, and the places need no search.
Hash        multiply-shift (Dietzfelbinger et al. 1997) of 11 bytes, as two words that overlap, to 36 bits.
Filter      three bits of one byte a fingerprint (a Bloom filter blocked to a byte; Putze, Sanders & Singler 2007).
Table       words of hash and place in sorted arrays, merged as they grow (O'Neil, Cheng, Gawlick & O'Neil 1996).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import LimitError

GRAM: Final = 11
STRIDE: Final = 6
LANE: Final = 12
WORD: Final = 8
RUN: Final = LANE + GRAM - 1
PLACE_BITS: Final = 28
MAX_WALK: Final = 512
FIRST_BITS: Final = 12
# Texts wait until there are so many bytes that arrays pay, or until something is looked for.
MAX_WAITING: Final = 1 << 20
# An array that is not this many times larger than the next is merged with it.
GROWTH: Final = 4
# So many meetings are given at once.
PORTION: Final = 1 << 18

Words: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]

_MULTIPLIERS: Final = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_PLACE: Final = np.uint64((1 << PLACE_BITS) - 1)
_PLACE_SHIFT: Final = np.uint64(PLACE_BITS)
_PATTERNS: Final = np.array(
    ([sum(1 << bit for bit in bits) for bits in combinations(range(8), 3)] * 5)[:256], dtype=np.uint8
)
# Between texts, and around them all: no gram and no run reaches over it. A multiple of the stride.
_GAP: Final = bytes((RUN // STRIDE + 2) * STRIDE)


class Fingerprints:
    """Fingerprints of folded texts by number; texts are added one after the other.

    Memory   8 bytes for each sixth byte of the texts, and 2 to 4 for the filter. The texts themselves are not kept,
             but for those of the last megabyte that wait for the next `meetings`.
    Not safe for use by several threads at once.
    """

    def __init__(self) -> None:
        self._starts = array("Q")
        self._end = 0
        self._waiting: list[bytes] = []
        self._waiting_from = 0
        self._sorted: list[Words] = []
        self._filter = np.zeros(1 << FIRST_BITS, np.uint8)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def bytes(self) -> int:
        """Memory held, in bytes."""
        waiting = sum(map(len, self._waiting))
        return sum(words.nbytes for words in self._sorted) + self._filter.nbytes + 8 * len(self._starts) + waiting

    def add(self, folded: bytes) -> None:
        """Takes in a text under the next number. About 40 ns a byte, most of it when they are looked for next.

        Raises LimitError over 1.3 GB of texts; nothing is changed then.
        """
        padded = folded + _GAP[: len(_GAP) - len(folded) % STRIDE]
        end = self._end + len(padded) // STRIDE
        if end >> PLACE_BITS:
            raise LimitError(
                "texts to look for leaks of",
                used=end * STRIDE,
                limit=STRIDE << PLACE_BITS,
                unit="bytes",
                way_out="use several indexes",
            )
        self._starts.append(self._end)
        self._waiting.append(padded)
        self._end = end
        if (end - self._waiting_from) * STRIDE > MAX_WAITING:
            self._take_in()

    def meetings(self, folded: bytes) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Where 11 bytes of the text are likely to stand in stored ones: positions, text numbers, offsets in those.

        By position; at most `MAX_WALK` for each in each array, those of the newest texts first. In portions of about
        `PORTION` places, since each position may stand in hundreds of stored texts.
        """
        self._take_in()
        lanes = -(-len(folded) // LANE)
        padded = folded + bytes(LANE + GRAM)
        hashes = np.empty((STRIDE, lanes), np.uint64)
        for place in range(STRIDE):
            hashes[place] = _hashes(padded, place, LANE)[:lanes]
        words = hashes.ravel()
        known = self._known(words)
        positions = known % lanes * LANE + known // lanes
        order = np.argsort(positions)
        return self._places(positions[order], words[known[order]])

    def _known(self, words: Words) -> Numbers:
        """Indices of the words that begin with the hash of a stored one."""
        if not self._sorted:
            return np.empty(0, np.int64)
        slots, patterns = self._bits(words)
        likely = np.flatnonzero((self._filter.take(slots, mode="clip") & patterns) == patterns)
        # In order, neighbours look into the same memory.
        likely = likely[np.argsort(words[likely])]
        least = words[likely] & ~_PLACE
        there = np.zeros(len(likely), np.bool_)
        for stored in self._sorted:
            first = stored.searchsorted(least)
            there |= stored.take(first, mode="clip") & ~_PLACE == least
        return likely[there]

    def _bits(self, words: Words) -> tuple[Numbers, NDArray[np.uint8]]:
        """For each word its byte of the filter, and the bits in it."""
        slots = (words >> np.uint64(65 - len(self._filter).bit_length())).view(np.int64)
        return slots, _PATTERNS.take((words >> _PLACE_SHIFT).astype(np.uint8), mode="clip")

    def _places(self, positions: Numbers, words: Words) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """The stored places of words that begin with the same hash, as `meetings` gives them."""
        if not len(words):
            return
        starts = np.frombuffer(self._starts, np.int64)
        pasts = [stored.searchsorted(words | _PLACE, side="right") for stored in self._sorted]
        firsts = [stored.searchsorted(words & ~_PLACE) for stored in self._sorted]
        sizes = [np.minimum(past - first, MAX_WALK) for past, first in zip(pasts, firsts, strict=True)]
        portions = np.cumsum(sum(sizes)) // PORTION
        ends = [*(np.flatnonzero(np.diff(portions)) + 1).tolist(), len(positions)]
        for begin, end in pairwise([0, *ends]):
            met: list[Numbers] = []
            places: list[Numbers] = []
            for stored, past, size in reversed([*zip(self._sorted, pasts, sizes, strict=True)]):
                several = size[begin:end]
                back = np.arange(int(several.sum())) - np.repeat(np.cumsum(several) - several, several)
                places.append((stored[np.repeat(past[begin:end], several) - 1 - back] & _PLACE).view(np.int64))
                met.append(np.repeat(positions[begin:end], several))
            by_position = np.argsort(np.concatenate(met), kind="stable")
            place = np.concatenate(places)[by_position]
            numbers = starts.searchsorted(place, side="right") - 1
            yield np.concatenate(met)[by_position], numbers, (place - starts[numbers]) * STRIDE

    def _take_in(self) -> None:
        """Puts the texts that wait into table and filter."""
        if not self._waiting:
            return
        joined = b"".join([_GAP, *self._waiting, _GAP])
        first, self._waiting, self._waiting_from = self._waiting_from, [], self._end
        size = self._end - first
        # Folded texts hold no byte 0, which is all that stands between them.
        codes = np.frombuffer(joined, np.uint8)[len(_GAP) :]
        places = np.flatnonzero((codes[: size * STRIDE : STRIDE] != 0) & (codes[GRAM - 1 :: STRIDE][:size] != 0))
        words = _hashes(joined, len(_GAP), STRIDE)[places] & ~_PLACE | (places + first).astype(np.uint64)
        words.sort()
        words = self._sparse(words, joined, first)
        if sum(map(len, self._sorted)) + len(words) > len(self._filter) // 2:
            self._widen(sum(map(len, self._sorted)) + len(words))
        self._mark(words)
        while self._sorted and len(self._sorted[-1]) < GROWTH * len(words):
            words = np.concatenate([self._sorted.pop(), words])
            words.sort()
        if len(words):
            self._sorted.append(words)

    def _sparse(self, words: Words, joined: bytes, first: int) -> Words:
        """Without places of which all runs of `RUN` bytes over the gram stand over another of the text too.

        Without it a text of one letter would stand at each of its places, and looking for it would be quadratic.
        """
        twice = np.flatnonzero(words[1:] & ~_PLACE == words[:-1] & ~_PLACE) + 1
        own, other = ((words[at] & _PLACE).view(np.int64) for at in (twice, twice - 1))
        starts = np.frombuffer(self._starts, np.int64)
        alike = starts.searchsorted(own, side="right") == starts.searchsorted(other, side="right")
        grams = words_at(joined, 0, 1)
        for around in (*range(GRAM - RUN, RUN - WORD, WORD), RUN - WORD):
            at = len(_GAP) - first * STRIDE + around
            alike &= grams[own * STRIDE + at] == grams[other * STRIDE + at]
        return np.delete(words, twice[alike])

    def _widen(self, size: int) -> None:
        self._filter = np.zeros(1 << max(FIRST_BITS, (2 * size - 1).bit_length()), np.uint8)
        for words in self._sorted:
            self._mark(words)

    def _mark(self, words: Words) -> None:
        slots, patterns = self._bits(words)
        np.bitwise_or.at(self._filter, slots, patterns)


def _hashes(raw: bytes, first: int, step: int) -> Words:
    """Of the gram at each step, in the upper bits."""
    words = words_at(raw, first, step) * _MULTIPLIERS[0]
    after = words_at(raw, first + GRAM - WORD, step) * _MULTIPLIERS[1]
    return words[: len(after)] + after


def words_at(raw: bytes, first: int, step: int) -> Words:
    """The 8 bytes at each step as a number, little end first; a view."""
    return np.ndarray(((len(raw) - WORD - first) // step + 1,), "<u8", raw, offset=first, strides=(step,))
