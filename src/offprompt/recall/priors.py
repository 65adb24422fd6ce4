"""What speaks for a turn of a session's log beside its own words; pure functions over columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.recall.rows import NOWHERE, Bools, Columns, Floats
from offprompt.recall.text import fold

SHORT_NAME: Final = 3
"""Letters of a short form of a name, at least: "Mel" is Melanie where nobody else begins so."""

MOST_USES: Final = 100

_WORD: Final = re.compile(r"[^\W\d_]+")
_FIRST_PERSON: Final = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours)\b|[我咱俺]", re.ASCII)


class Beside:
    """What each row gets from the turns beside it: the larger of two parts.

    From the turn after it     follow × that turn's own score.
    From the turn before it    follow × its score, or answer × where that turn is a question by somebody else: who
                               answers "Three, since May" has the words of the question in mind.
    Source   adjacency pairs: Schegloff & Sacks 1973, "Opening up closings"; a passage scored with those around it:
             Callan 1994, "Passage-level evidence in document retrieval".
    """

    def __init__(self, columns: Columns, rows: int, *, follow: float, answer: float) -> None:
        self._before, self._after = columns.before[:rows], columns.after[:rows]
        asked = columns.asks[self._before] & (columns.speaker[self._before] != columns.speaker[:rows])
        self._share = np.where(asked, np.float32(answer), np.float32(follow))
        self._follow = np.float32(follow)

    def take(self, own: Floats) -> Floats:
        """By row, what comes from beside; own: by row."""
        padded = np.append(own, np.float32(0))  # row -1 is nobody
        return np.maximum(self._share * padded[self._before], self._follow * padded[self._after])


def named(text: str, speakers: Mapping[str, int], *, asking: str = "") -> int:
    """The number of the one speaker whom a question is about, or -1.

    The one that it names, in full or by a part of the name; else, where it says "I" or 我, the one who asks.
    Source   none: a rule of this product, measured in docs/ranking.md.
    """
    folded = fold(text)
    words = set(_WORD.findall(folded))
    capitals = {word.casefold() for word in _WORD.findall(text) if word[:1].isupper() and len(word) >= SHORT_NAME}
    full = {number for name, number in speakers.items() if _is_named(fold(name), folded, words)}
    found = full or _by_short_form(capitals, speakers)
    if not found and asking in speakers and _FIRST_PERSON.search(folded):
        return speakers[asking]
    return found.pop() if len(found) == 1 else NOWHERE


def _is_named(name: str, folded: str, words: set[str]) -> bool:
    if not name:
        return False
    return bool(words.intersection(_WORD.findall(name))) or (not name.isascii() and name in folded)


def _by_short_form(capitals: Iterable[str], speakers: Mapping[str, int]) -> set[int]:
    found: set[int] = set()
    for word in capitals:
        meant = {number for name, number in speakers.items() if fold(name).startswith(word)}
        found |= meant if len(meant) == 1 else set()
    return found


def recency(columns: Columns, rows: int, now: float, half_life_s: float) -> Floats:
    """1 for what happens now or later, half of it for each half-life before.

    Source   Park et al. 2023, "Generative agents": exponential decay, by the hour since the last use there.
    """
    age = np.maximum(now - columns.happened[:rows], 0.0)
    return np.exp2((-age / half_life_s).astype(np.float32))


def use(columns: Columns, rows: int) -> Floats:
    """0 for what was never recalled, 1 from 100 uses on, by the logarithm between.

    Source   Anderson & Schooler 1991, "Reflections of the environment in memory".
    """
    most = np.float32(np.log1p(MOST_USES))
    return np.minimum(np.log1p(columns.uses[:rows]) / most, np.float32(1))


def within(columns: Columns, rows: int, window: tuple[float, float]) -> Bools:
    """What happened from the window's first moment to before its last."""
    happened: NDArray[np.float64] = columns.happened[:rows]
    return (happened >= window[0]) & (happened < window[1])
