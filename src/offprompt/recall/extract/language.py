"""In which script a text is written: enough to see that a fact was translated."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Final

KEPT: Final = 0.2
"""The part of its letters that a script must have in the turns for a fact to be written in it."""


def scripts(text: str) -> Counter[str]:
    """How many letters of each script a text holds; Kana and Hangul count as they are, Han as `CJK`."""
    found: Counter[str] = Counter()
    for char in text:
        if char.isalpha():
            found[unicodedata.name(char, "OTHER").partition(" ")[0]] += 1
    return found


def is_kept(text: str, said: str) -> bool:
    """Whether the script that most of a fact is written in is one of those that what was said is written in."""
    own, theirs = scripts(text), scripts(said)
    if not own or not theirs:
        return True
    main, _ = own.most_common(1)[0]
    return theirs[main] >= KEPT * theirs.total()
