"""The form in which texts that say the same are equal, as far as that can be told without understanding them."""

from __future__ import annotations

import re
from typing import Final

from offprompt.recall.analysis import search_terms
from offprompt.recall.text import fold

SHARED: Final = 0.6
"""The part of all their terms that two texts must share to say nearly the same."""

_HAN: Final = "\u3400-\u9fff"
_ENDS: Final = re.compile(r"^[\s\"'“”‘’「」『』]+|[\s\"'“”‘’「」『』.。!！,，;；:：…~～]+$")
_FULL_FORMS: Final = (
    (re.compile(r"[‘’]"), "'"),
    (re.compile(r"\bcan(?:not|'t)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bshan't\b"), "shall not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\bi'm\b"), "i am"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
)
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NEGATION: Final = re.compile(
    r"\b(?:no|not|never|none|nothing|cannot|without)\b|n['’]t\b|[不没無无非未别勿]", re.IGNORECASE
)
_EMPTY: Final = (
    # Before a statement: "well, …", "please note that …", 嗯，…
    re.compile(
        r"^(?:(?:well|oh|hey|hi|hello|ok|okay|so|by the way|btw)\s*,\s*|(?:please )?(?:note|remember) that\s+"
        r"|(?:嗯|哦|啊|对了|那个)\s*[,、]\s*|其实)"
    ),
    re.compile(r"(?<!not )\b(?:really|very|also|please|actually)\b"),
    re.compile(r"(?<![不没])(?<!不是)(?:非常|很)"),
    re.compile(rf"(?<=[我你您他她])的(?=[{_HAN}])"),
    re.compile(r"[啊呀]+$"),
    # Spaces between Han and Latin are a matter of taste; between Han they may stand for a comma.
    re.compile(rf"(?<=[{_HAN}])\s+(?=[a-z0-9])|(?<=[a-z0-9])\s+(?=[{_HAN}])"),
)


def normalised(text: str) -> str:
    """The form in which duplicates are equal.

    Folded   case, width, spaces, marks at the ends, short forms (can't), and words that add nothing (really, very, 很).
    Kept     all else, in its order: C++ is not C#, -5 is not 5, "before" not "after", "Ann lent Bob" not "Bob lent
             Ann". To lose a fact is worse than to keep one twice; docs/memories.md has what nearness by vectors costs.
    Cost     O(n).
    """
    folded = " ".join(fold(text).split())
    bare = _ENDS.sub("", folded)
    for pattern, full in _FULL_FORMS:
        bare = pattern.sub(full, bare)
    for pattern in _EMPTY:
        bare = _ENDS.sub("", " ".join(pattern.sub("", bare).split()))
    return bare or folded


def nearly_same(left: str, right: str) -> bool:
    """Whether two texts whose vectors lie close may say the same: most terms in common, the same numbers, as many
    negations. docs/memories.md has what merging by it costs at several cosines.
    """
    if sorted(_NUMBER.findall(left)) != sorted(_NUMBER.findall(right)):
        return False
    if len(_NEGATION.findall(left)) != len(_NEGATION.findall(right)):
        return False
    terms, others = set(search_terms(left)), set(search_terms(right))
    return len(terms & others) >= SHARED * len(terms | others)
