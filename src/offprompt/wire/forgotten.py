"""Forgotten values in words that were said: they are not told again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MASK: Final = "…"
FEWEST_CHARS: Final = 3
FEWEST_HAN: Final = 2
_HAN: Final = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Values that were forgotten, as a pattern; None: there are none."""

    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, values: Iterable[str]) -> Forgotten:
        """Of values of at least 3 characters (2 Han): shorter ones stand everywhere by chance."""
        told = {value.strip() for value in values}
        long = [value for value in told if len(value) >= (FEWEST_HAN if _HAN.search(value) else FEWEST_CHARS)]
        if not long:
            return cls()
        return cls(re.compile("|".join(map(_bounded, sorted(long, key=len, reverse=True))), re.IGNORECASE))

    def masked(self, text: str) -> str:
        """The text with `…` for each of the values."""
        return text if self.pattern is None else self.pattern.sub(MASK, text)


def _bounded(value: str) -> str:
    """The value between edges of words, with any space for its own."""
    words = r"\s+".join(map(re.escape, value.split()))
    before = r"(?<![^\W_])" if value[0].isalnum() and not _HAN.match(value[0]) else ""
    after = r"(?![^\W_])" if value[-1].isalnum() and not _HAN.match(value[-1]) else ""
    return before + words + after
