"""Whether two texts say the same, as far as that can be told without understanding them."""

from __future__ import annotations

import re
from typing import Final

from offprompt.recall.analysis import search_terms
from offprompt.recall.text import fold

NEAR: Final = 0.9
"""The cosine from which two texts may say the same."""

SHARED: Final = 0.6
"""The part of all their terms that both must have."""

_ENDS: Final = re.compile(r"^[\s\"'“”‘’「」『』]+|[\s\"'“”‘’「」『』.。!！,，;；:：…~～]+$")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NEGATION: Final = re.compile(
    r"\b(?:no|not|never|none|nothing|cannot|without|hardly|stopped|quit)\b|n['’]t\b|[不没無无非未别勿]", re.IGNORECASE
)


def normalised(text: str) -> str:
    """The form in which exact duplicates are equal: case and width folded, single spaces, no marks at the ends.

    Marks inside stay: C++ is not C#, and -5 is not 5.
    """
    return _ENDS.sub("", " ".join(fold(text).split()))


def says_the_same(left: str, right: str, cosine: float) -> bool:
    """Whether the newer text adds nothing to the older one.

    cosine   of their vectors; without vectors pass 0 and only equal words count.
    Rule     close in meaning, most words in common, the same numbers, as many negations. "I like tea" and "I like
             green tea", or 5 pm and 6 pm, are kept apart: to lose a fact is worse than to keep one twice.
    """
    if _numbers(left) != _numbers(right) or _negations(left) != _negations(right):
        return False
    terms, others = set(search_terms(left)), set(search_terms(right))
    if terms == others:
        return True
    return cosine >= NEAR and len(terms & others) >= SHARED * len(terms | others)


def _numbers(text: str) -> list[str]:
    return sorted(_NUMBER.findall(fold(text)))


def _negations(text: str) -> int:
    return len(_NEGATION.findall(fold(text)))
