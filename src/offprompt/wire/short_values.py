"""Values too short for fingerprints, looked for whole in folded text, as they are and encoded."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from offprompt.wire.encoded import encoded_forms
from offprompt.wire.folding import fold

WORD: Final = 4
# A pattern this long holds an aligned word of the text wherever it stands.
MIN_PATTERN: Final = 2 * WORD - 1
FEW: Final = 8


class ShortValues:
    """Patterns of values by the numbers that the caller gives them.

    Cost   `find` is 0.2 ms a pattern for 500 KB up to 8 patterns (two values); beyond, about 3 ms for any number of
           them: one pass over the aligned words of the text, then a search for each pattern whose words are all there.
    """

    def __init__(self) -> None:
        self._patterns: dict[bytes, dict[tuple[int, str], None]] = {}
        self._of: dict[int, list[bytes]] = {}
        self._words: dict[bytes, list[frozenset[int]]] = {}
        self._needles: frozenset[int] | None = None

    def add(self, number: int, text: str, folded: bytes) -> None:
        """Looks for a value: as it is (folded), and for the encoded forms of its UTF-8."""
        forms = [("", folded)]
        forms += [(form, fold(digits)) for form, digits in encoded_forms(text.encode("utf-8", "surrogatepass"))]
        for form, pattern in forms:
            if len(pattern) >= MIN_PATTERN:
                self._patterns.setdefault(pattern, {})[number, form] = None
                self._of.setdefault(number, []).append(pattern)
                self._words[pattern] = _aligned(pattern)
        self._needles = None

    def remove(self, number: int) -> None:
        """Looks for it no more; a number that is not there is no error."""
        for pattern in self._of.pop(number, ()):
            keys = self._patterns.get(pattern, {})
            for key in [key for key in keys if key[0] == number]:
                del keys[key]
            if not keys:
                self._patterns.pop(pattern, None)
                self._words.pop(pattern, None)
        self._needles = None

    def find(self, folded: bytes) -> Iterator[tuple[int, int, int, str]]:
        """(number, start, end, form) of each place; form is empty for the value as it is."""
        for pattern in self._likely(folded):
            at = folded.find(pattern)
            while at >= 0:
                for number, form in self._patterns[pattern]:
                    yield number, at, at + len(pattern), form
                at = folded.find(pattern, at + len(pattern))

    def _likely(self, folded: bytes) -> list[bytes]:
        if len(self._patterns) <= FEW:
            return list(self._patterns)
        if self._needles is None:
            self._needles = frozenset[int]().union(*(words for each in self._words.values() for words in each))
        there = self._needles.intersection(array("I", folded[: len(folded) & -WORD]))
        return [pattern for pattern, places in self._words.items() if any(words <= there for words in places)]


def _aligned(pattern: bytes) -> list[frozenset[int]]:
    """For each of the four ways to lie on the text's words: the words that the pattern then fills."""
    ways: list[frozenset[int]] = []
    for skipped in range(WORD):
        rest = pattern[skipped:]
        ways.append(frozenset(array("I", rest[: len(rest) & -WORD])))
    return ways
