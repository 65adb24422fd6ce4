"""Values too short for fingerprints, looked for whole in folded text, as they are and encoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from offprompt.wire.encoded import encoded_forms
from offprompt.wire.folding import fold

WORD: Final = 4
# A pattern this long holds an aligned word of the text wherever it stands; for shorter ones each word is looked at.
ALIGNED: Final = 2 * WORD - 1
TABLE_BITS: Final = 16

_MULTIPLIER: Final = np.uint32(0x9E3779B1)
_SHIFT: Final = np.uint32(32 - TABLE_BITS)


class ShortValues:
    """Patterns of values by the numbers that the caller gives them.

    Cost   `find` takes 0.4 ns a byte for any number of patterns: one look at each aligned word of the text, and a
           comparison where a pattern has that word; four times as much with a pattern of fewer than `ALIGNED` bytes.
    Not safe for use by several threads at once.
    """

    def __init__(self) -> None:
        self._patterns: dict[bytes, dict[tuple[int, str], None]] = {}
        self._of: dict[int, list[bytes]] = {}
        self._words: dict[bytes, dict[tuple[int, bytes], None]] = {}
        self._table: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None
        self._offsets = range(1)

    def add(self, number: int, text: str, folded: bytes) -> None:
        """Looks for a value: as it is (folded; at least `WORD` bytes), and for the encoded forms of its UTF-8."""
        forms = [("", folded)]
        forms += [(form, fold(digits)) for form, digits in encoded_forms(text.encode("utf-8", "surrogatepass"))]
        for form, pattern in forms:
            self._patterns.setdefault(pattern, {})[number, form] = None
            self._of.setdefault(number, []).append(pattern)
            for skipped, word in _first_words(pattern):
                self._words.setdefault(word, {})[-skipped, pattern] = None
        self._table = None

    def remove(self, number: int) -> None:
        """Looks for it no more; a number that is not there is no error."""
        for pattern in self._of.pop(number, ()):
            keys = self._patterns.get(pattern, {})
            for key in [key for key in keys if key[0] == number]:
                del keys[key]
            if keys or self._patterns.pop(pattern, None) is None:
                continue
            for skipped, word in _first_words(pattern):
                del self._words[word][-skipped, pattern]
                if not self._words[word]:
                    del self._words[word]
        self._table = None

    def find(self, folded: bytes) -> Iterator[tuple[int, int, int, str]]:
        """(number, start, end, form) of each place; form is empty for the value as it is. Where a pattern overlaps
        itself, the first.
        """
        if not self._patterns:
            return
        past: dict[bytes, int] = {}
        for at in self._likely(folded):
            for before, pattern in self._words.get(folded[at : at + WORD], {}):
                start = at + before
                if start >= past.get(pattern, 0) and folded.startswith(pattern, start):
                    past[pattern] = start + len(pattern)
                    for number, form in self._patterns[pattern]:
                        yield number, start, start + len(pattern), form

    def _likely(self, folded: bytes) -> list[int]:
        """Where words of the text are those of a pattern, or hash as one does; by place."""
        if self._table is None:
            self._table = np.zeros(1 << TABLE_BITS, np.bool_)
            self._table[_hashes(b"".join(self._words))] = True
            self._offsets = range(WORD if min(map(len, self._patterns)) < ALIGNED else 1)
        there = [self._table.take(_hashes(folded[offset:]), mode="clip") for offset in self._offsets]
        places = [np.flatnonzero(found) * WORD + offset for offset, found in enumerate(there)]
        return np.sort(np.concatenate(places)).tolist() if len(places) > 1 else places[0].tolist()


def _first_words(pattern: bytes) -> list[tuple[int, bytes]]:
    """The words of which an aligned one is the first in the pattern, and how many bytes stand before each."""
    return [(at, pattern[at : at + WORD]) for at in range(min(WORD, len(pattern) - WORD + 1))]


def _hashes(raw: bytes) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Multiply-shift (Dietzfelbinger et al. 1997) of each aligned word."""
    words = np.frombuffer(raw, "<u4", len(raw) // WORD)
    return ((words * _MULTIPLIER) >> _SHIFT).astype(np.intp)
