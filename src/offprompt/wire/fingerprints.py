"""Which stored texts share a run of bytes with another text: rolling fingerprints, sampled so that none is missed.

Guarantee   a run of `RUN` bytes that a stored text shares with the scanned one is met by `candidates`.
Sampling    stored texts are fingerprinted at every third byte, scanned ones at three neighbouring bytes of every 15:
            whatever the offset between the two, one pair of positions falls together in each 15 bytes. A difference
            cover (Colbourn & Ling 2000; Burkhardt & Kärkkäinen 2003) in the place of winnowing's local minima
            (Schleimer, Wilkerson & Aiken 2003): the same guarantee, and the positions need no search.
Hash        multiply-shift (Dietzfelbinger et al. 1997) of 8 bytes; all positions of a chunk at once, each in a lane of
            15 bytes of one big integer, wide enough for the product.
Filter      three bits of one byte a fingerprint (a Bloom filter blocked to a byte; Putze, Sanders & Singler 2007).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import combinations
from operator import itemgetter
from struct import Struct
from typing import Final

GRAM: Final = 8
STRIDE: Final = 3
LANE: Final = 15
RUN: Final = LANE + GRAM - 1
LANES: Final = 4096
CHUNK: Final = LANES * LANE
MULTIPLIER: Final = 0xD6E8FEB86659FD
SHIFT: Final = 40
# Up to here a filter has eight bytes for each fingerprint; larger ones save memory and let more pass in vain.
ROOMY_BITS: Final = 25
SMALL: Final = 6000
MAX_WALK: Final = 512
FIRST_BITS: Final = 14

_ONES: Final = int.from_bytes((b"\1" + bytes(LANE - 1)) * (LANES + 1), "little")
_GRAMS: Final = tuple(_ONES * ((1 << 64) - 1) << 8 * place for place in range(STRIDE))
_WORDS: Final = tuple(_ONES * 0xFFFFFFFF << 32 * place for place in range(STRIDE))
_SIZE: Final = (LANES + 1) * LANE
_LAYOUT: Final = Struct("<" + "3I3x" * LANES + f"{LANE}x")
_PATTERNS: Final = bytes(
    [sum(1 << bit for bit in bits) for bits in combinations(range(8), 3)] * 5,
)[:256]


def bits_for(size: int) -> int:
    """The `bits` of a table that takes texts of that many bytes in all without being full."""
    roomy, tight = (8 * size // STRIDE).bit_length(), (2 * size // STRIDE).bit_length()
    return max(FIRST_BITS, min(roomy, ROOMY_BITS), tight)


class Fingerprints:
    """Fingerprints of folded texts by number; texts are added one after the other.

    Memory   5 bytes for each third byte of the texts, and for filter and chains 2.5 to 20 more. The texts
             themselves are not kept.
    Not safe for use by several threads at once.
    """

    def __init__(self, *, bits: int = FIRST_BITS) -> None:
        self.bits = bits
        self._filter = bytearray(1 << bits)
        self._heads = array("I", bytes(4 << (bits - 4)))
        self._next = array("I", [0])
        self._tags = bytearray(1)
        self._starts = array("I")
        self._mask = _ONES * ((1 << bits) - 1) * (1 | 1 << 32 | 1 << 64)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def bytes(self) -> int:
        """Memory held, in bytes."""
        arrays = (self._heads, self._next, self._starts)
        return sum(a.buffer_info()[1] * a.itemsize for a in arrays) + len(self._filter) + len(self._tags)

    @property
    def full(self) -> bool:
        """Whether the filter holds so much that a table with more bits pays."""
        return len(self._next) > len(self._filter) // (8 if self.bits < ROOMY_BITS else 2)

    def add(self, folded: bytes) -> None:
        """Takes in a text under the next number. Under 1 µs a byte."""
        first = len(self._next)
        self._starts.append(first)
        bits, seen, heads, following, tags = self.bits, self._filter, self._heads, self._next, self._tags
        slots = (1 << bits) - 1
        for at in range(0, len(folded) - GRAM + 1, STRIDE):
            word = int.from_bytes(folded[at : at + GRAM], "little") * MULTIPLIER >> SHIFT
            slot = word & slots
            seen[slot] |= _PATTERNS[word >> 24 & 255]
            bucket, tag = slot >> 4, word >> 32 & 255
            last = heads[bucket]
            if last >= first and tags[last] == tag and _alike(folded, at, (last - first) * STRIDE):
                following.append(0)
            else:
                following.append(last)
                heads[bucket] = len(following) - 1
            tags.append(tag)

    def candidates(self, folded: bytes) -> Iterator[int]:
        """Positions of the text whose 8 bytes are likely to stand at a fingerprinted place of a stored text."""
        if len(folded) < SMALL:
            yield from self._few(folded)
            return
        for start in range(0, len(folded), CHUNK):
            lanes = min(LANES, -(-(len(folded) - start) // LANE))
            hits = self._hits(folded[start : start + CHUNK + LANE], lanes)
            at = hits.find(0)
            while at >= 0:
                position = start + at // STRIDE * LANE + at % STRIDE
                if position + GRAM <= len(folded):
                    yield position
                at = hits.find(0, at + 1)

    def _few(self, folded: bytes) -> Iterator[int]:
        """The same one by one, for texts that are not worth the arithmetic on a whole chunk."""
        slots = (1 << self.bits) - 1
        for lane in range(0, len(folded) - GRAM + 1, LANE):
            for at in range(lane, min(lane + STRIDE, len(folded) - GRAM + 1)):
                word = int.from_bytes(folded[at : at + GRAM], "little") * MULTIPLIER >> SHIFT
                wanted = _PATTERNS[word >> 24 & 255]
                if self._filter[word & slots] & wanted == wanted:
                    yield at

    def _hits(self, chunk: bytes, lanes: int) -> bytes:
        """A byte for each scanned position, three a lane: 0 where the filter knows the fingerprint."""
        number = int.from_bytes(chunk, "little")
        # A product begins at its gram's byte; what of it spills into the next lane fills bytes that are free there.
        words = (number & _GRAMS[0]) * MULTIPLIER >> SHIFT & _WORDS[0]
        words |= (number & _GRAMS[1]) * MULTIPLIER >> SHIFT - 24 & _WORDS[1]
        words |= (number & _GRAMS[2]) * MULTIPLIER << 48 - SHIFT & _WORDS[2]
        wide = words.to_bytes(_SIZE, "little")
        slots = _LAYOUT.unpack((words & self._mask).to_bytes(_SIZE, "little"))
        found = bytes(itemgetter(*slots)(self._filter))
        wanted = bytearray(len(found))
        for place in range(STRIDE):
            wanted[place::STRIDE] = wide[4 * place + 3 : CHUNK : LANE]
        have, want = int.from_bytes(found, "little"), int.from_bytes(wanted.translate(_PATTERNS), "little")
        return (want & ~have).to_bytes(len(found), "little")[: lanes * STRIDE]

    def places(self, gram: bytes) -> list[tuple[int, int]]:
        """Where the 8 bytes may stand: text number and offset, newest first, at most `MAX_WALK` steps."""
        word = int.from_bytes(gram, "little") * MULTIPLIER >> SHIFT
        tag, following, tags = word >> 32 & 255, self._next, self._tags
        at = self._heads[(word & (1 << self.bits) - 1) >> 4]
        found: list[tuple[int, int]] = []
        steps = MAX_WALK
        while at and steps:
            if tags[at] == tag:
                number = bisect_right(self._starts, at) - 1
                found.append((number, (at - self._starts[number]) * STRIDE))
            at = following[at]
            steps -= 1
        return found


def _alike(folded: bytes, at: int, other: int) -> bool:
    """Whether all runs of `RUN` bytes over the gram at one place stand over the other too: then one entry serves both.

    Without it a text of one letter would be one chain, and looking for it quadratic.
    """
    before, after = RUN - GRAM, RUN
    return other >= before and folded[at - before : at + after] == folded[other - before : other + after]


def common_start(left: bytes, i: int, right: bytes, j: int) -> int:
    """How many bytes from those positions on are the same."""
    size, block, limit = 0, 64, min(len(left) - i, len(right) - j)
    while block:
        while size + block <= limit and left[i + size : i + size + block] == right[j + size : j + size + block]:
            size += block
        block >>= 1
    return size


def common_end(left: bytes, i: int, right: bytes, j: int) -> int:
    """How many bytes before those positions are the same."""
    size, block, limit = 0, 64, min(i, j)
    while block:
        while size + block <= limit and left[i - size - block : i - size] == right[j - size - block : j - size]:
            size += block
        block >>= 1
    return size
