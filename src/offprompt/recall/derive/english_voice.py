"""English said of oneself, said of somebody else: "I'm allergic to nuts" → "is allergic to nuts"."""

from __future__ import annotations

import re
from typing import Final

_CONTRACTED: Final = {"'m": "am", "'ve": "have", "'re": "are", "'ll": "will", "'d": "would", "'s": "is"}
_IRREGULAR: Final = {
    "am": "is",
    "are": "is",
    "have": "has",
    "do": "does",
    "go": "goes",
    "don't": "doesn't",
    "haven't": "hasn't",
    "aren't": "isn't",
    "were": "was",
    "weren't": "wasn't",
}
_UNCHANGED: Final = frozenset(
    [
        *("will", "won't", "can", "can't", "cannot", "could", "couldn't", "would", "wouldn't", "should", "must", "may"),
        *(
            "might",
            "was",
            "wasn't",
            "is",
            "isn't",
            "has",
            "hasn't",
            "does",
            "doesn't",
            "did",
            "didn't",
            "had",
            "hadn't",
        ),
        *(
            "used",
            "need",
            "better",
            "read",
            "put",
            "set",
            "cut",
            "hit",
            "let",
            "quit",
            "cost",
            "hurt",
            "beat",
            "spread",
        ),
    ]
)
PAST: Final = frozenset(
    [
        *("went", "was", "were", "had", "did", "got", "took", "made", "saw", "came", "met", "bought", "found", "began"),
        *(
            "gave",
            "told",
            "wrote",
            "ran",
            "won",
            "lost",
            "left",
            "felt",
            "kept",
            "held",
            "sold",
            "sent",
            "spent",
            "ate",
        ),
        *("built", "broke", "brought", "caught", "chose", "drove", "drew", "fell", "flew", "forgot", "grew", "heard"),
        *(
            "knew",
            "learnt",
            "led",
            "lent",
            "paid",
            "rode",
            "sang",
            "slept",
            "spoke",
            "stood",
            "swam",
            "taught",
            "threw",
        ),
        *(
            "thought",
            "understood",
            "woke",
            "wore",
            "became",
            "put",
            "quit",
            "hurt",
            "read",
            "set",
            "beat",
            "hit",
            "cut",
        ),
        *("dreamt", "fought", "hid", "rose", "sat", "shot", "slid", "stole", "stuck", "swept", "tore", "wound", "hung"),
    ]
)
_NOT_PAST: Final = frozenset(["need", "feed", "speed", "bleed", "breed", "embed", "heed", "weed", "proceed", "succeed"])
ADVERB: Final = (
    r"(?:(?:no longer|also|always|often|still|just|even|never|usually|really|actually|currently|recently|finally"
    r"|already|now|mostly"
    r"|absolutely|totally|definitely|truly|sometimes|generally|normally|typically|both|all|then|once|officially"
    r"|simply"
    r"|regularly|occasionally|rarely|frequently|mainly|primarily|personally|honestly|basically|literally|kinda"
    r"|genuinely"
    r"|particularly|especially|strongly|deeply|seriously|particularly|thoroughly|especially|only|probably) )"
)
_EITHER: Final = frozenset(["read", "put", "set", "cut", "let", "hit"])
"""Verbs of which the past looks like the present."""

_REPEATED: Final = re.compile(r"\b(?:usually|often|always|every|each|regularly|normally|typically|on weekends)\b")
_VERB: Final = re.compile(rf"(?P<adverbs>{ADVERB}{{0,3}})(?P<verb>[a-z]+(?:'t)?)", re.IGNORECASE)
_SELF: Final = {
    "my": "their",
    "our": "their",
    "me": "them",
    "us": "them",
    "myself": "themselves",
    "ourselves": "themselves",
    "mine": "theirs",
    "ours": "theirs",
}
_SELF_WORD: Final = re.compile(r"\b(?:my|our|me|us|myself|ourselves|mine|ours)\b", re.IGNORECASE)
_SELF_CLAUSE: Final = re.compile(r"\b(?:I|we)(?:'(?:m|ve|ll|d|re))?\b(?= [a-z])|\bI\b")


def expanded(subject_rest: str) -> str:
    """What follows "I" or "my wife" with its contraction written out: "'m tired" → "am tired"."""
    for short, full in _CONTRACTED.items():
        if subject_rest.lower().startswith(short) and not subject_rest[len(short) : len(short) + 1].isalnum():
            return full + subject_rest[len(short) :]
    return subject_rest.lstrip(" ")


def agreeing(predicate: str) -> str:
    """A predicate of "I" with its first verb as of "she": "love my cat" → "loves my cat"."""
    match = _VERB.match(predicate)
    if not match:
        return predicate
    verb = match["verb"]
    if verb.lower() in _EITHER and _REPEATED.search(predicate):
        verb += "s"
    return match["adverbs"] + _agreeing(verb) + predicate[match.end() :]


def about_them(text: str) -> str:
    """What stands behind the verb, with "their" for "my", "them" for "me", "they" for "I"."""

    def verb_follows(match: re.Match[str]) -> str:
        short = match[0].partition("'")[2]
        return "they" + {"m": "'re", "": ""}.get(short, f"'{short}")

    text = _SELF_CLAUSE.sub(verb_follows, text)
    text = re.sub(r"\bthey am\b", "they are", re.sub(r"\bthey was\b", "they were", text))
    return _SELF_WORD.sub(lambda match: _SELF[match[0].lower()], text)


def is_past(predicate: str) -> bool:
    """Whether the first verb of a predicate is a past form, by its ending or as one of the irregular ones."""
    match = _VERB.match(predicate)
    if not match:
        return False
    verb = match["verb"].lower()
    return verb in PAST or (verb.endswith("ed") and len(verb) > 3 and verb not in _NOT_PAST)


def _agreeing(verb: str) -> str:
    low = verb.lower()
    if low in _IRREGULAR:
        return _IRREGULAR[low]
    if (
        low.removesuffix("s") in _EITHER
        or low in _UNCHANGED
        or low in PAST
        or (low.endswith("ed") and low not in _NOT_PAST)
    ):
        return low
    if low.endswith(("ch", "sh", "s", "x", "z", "o")):
        return low + "es"
    if low.endswith("y") and low[-2:-1] not in "aeiou":
        return low[:-1] + "ies"
    return low + "s"
