"""In which script a text is written: enough to see that a fact was translated."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Final

from offprompt.recall.scripts import HAN, SOUNDS

LETTERS: Final = 2
UNSPACED: Final = re.compile(f"[{HAN}{SOUNDS}]")
KEPT: Final = 0.2
"""The part of its letters that a script must have in the turns for a fact to be written in it."""


def scripts(text: str) -> Counter[str]:
    """How much of each script a text holds: of scripts with spaces two letters of each word, of others each character.

    So a foreign name weighs little. Han counts as `CJK`, Kana and Hangul as they are called.
    """
    found: Counter[str] = Counter()
    before, run = "", 0
    for char in text:
        script = unicodedata.name(char, "OTHER").partition(" ")[0] if char.isalpha() else ""
        run = run + 1 if script == before else 1
        before = script
        if script and (run <= LETTERS or UNSPACED.match(char)):
            found[script] += 1
    return found


def is_kept(text: str, said: str) -> bool:
    """Whether the script that most of a fact is written in is one of those that what was said is written in."""
    own, theirs = scripts(text), scripts(said)
    if not own or not theirs:
        return True
    main, _ = own.most_common(1)[0]
    return theirs[main] >= KEPT * theirs.total()
