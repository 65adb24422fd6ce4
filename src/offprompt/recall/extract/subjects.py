"""Whom the words of a turn are about, as far as their form tells."""

from __future__ import annotations

import re
from typing import Final

from offprompt.recall.text import fold

_BREAK: Final = re.compile(r"[.;!?\n。；！？，,]|\b(?:and|but|while|whereas)\b|而且|但是|不过", re.IGNORECASE)
_FIRST: Final = re.compile(
    r"\b(?:I|we|us|me)\b|\bI['’](?:m|ve|d|ll)\b|[我咱俺](?!们?[的家]?[\u4e00-\u9fff]*[妈爸哥姐弟妹])"
)
_KIN: Final = re.compile(
    r"\b(?:mother|mom|mum|father|dad|parents?|brother|sister|son|daughter|wife|husband|partner|girlfriend|boyfriend"
    r"|uncle|aunt|cousin|grand(?:ma|pa|mother|father)|niece|nephew|friend|boss|colleague|neighbou?r|roommate|kids?"
    r"|child(?:ren)?|dog|cat|fianc[eé]e?)s?\b|[妈爸哥姐弟妹]|母亲|父亲|父母|儿子|女儿|妻子|老婆|丈夫|老公|女友|男友"
    r"|女朋友|男朋友|朋友|同事|老板|邻居|室友|孩子|爷爷|奶奶|外公|外婆|叔|姑|姨|舅",
    re.IGNORECASE,
)
_OTHERS: Final = re.compile(r"\b(?:he|she|they|his|her|hers|their|theirs)\b|[他她]", re.IGNORECASE)
_NAME: Final = re.compile(r"\b[A-Z][a-z]+\b")


def is_anothers(text: str, start: int, end: int, fact: str, speaker: str) -> bool:
    """Whether the clause that holds the quote tells of somebody else whom the fact leaves out.

    start, end  the quote in the turn's text. fact: a sentence about who speaks.
    Rule        the clause has no "I", and in front of the quote, or in it, a relative, a name, or "she": then the fact
                must name a relative, or that name. "My brother Jack lives in Porto" is not "The user lives in Porto".
    Source      none: a rule of this product; it knows names by their capitals, and relatives by a list.
    """
    before = [match.end() for match in _BREAK.finditer(text, 0, start)]
    clause = text[before[-1] if before else 0 : end]
    if _FIRST.search(clause):
        return False
    if _KIN.search(clause):
        return not _KIN.search(fact)
    if _OTHERS.search(clause):
        return not _KIN.search(fact)
    lead = clause[: len(clause) - (end - start)]
    names = [match[0] for match in _NAME.finditer(lead) if fold(match[0]) not in fold(speaker)]
    return bool(names) and not any(fold(name) in fold(fact) for name in names)
