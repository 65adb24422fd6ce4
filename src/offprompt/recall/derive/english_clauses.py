"""The clauses of an English sentence that state something: who, and what of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from typing import Final

from offprompt.recall.derive.english_dates import english_dates
from offprompt.recall.derive.rules import word
from offprompt.recall.derive.sentences import Sentence

_NAME: Final = r"[A-Z][\w-]{1,20}(?:'[A-Z]\w+)?(?: [A-Z][\w-]{1,20})?"
_NOT_NAME: Final = r"(?!I\b|I'|We\b|My\b|He\b|She\b|They\b|And\b|But\b|The\b|It\b|Is\b|Mrs?\b|Ms\b|Dr\b)"
_OPENERS: Final = re.compile(
    r"(?:\s*(?:oh|well|yeah|yes|yep|no|nope|hey|hi|hello|also|actually|honestly|anyway|btw|by the way|and|but|so"
    r"|because"
    r"|'cause|cause|since|plus|ok|okay|lol|haha|hahaha|wow|thanks|thank you|you know|you see|to be honest|tbh"
    r"|personally"
    r"|lately|recently|currently|right now|nowadays|these days|of course|sure|in fact|unfortunately|luckily"
    r"|fortunately"
    r"|then|now|besides|in addition|additionally|as for me|for me|yet|however|or|nor|fyi|note|again|basically"
    r"|absolutely"
    r"|definitely|totally|sadly|finally|outside of work|in my (?:free|spare) time|for work|on top of that|after work"
    r"|guys|man|dude|hmm+|um+|uh+|ah+|aw+|yay|great|cool|good|nice|please|since then|growing up|at the moment"
    r"|as you know|as a matter of fact|speaking of which|first(?: of all)?|second(?:ly)?|for context|for the record)"
    r"(?:[,:!.\s]+|\Z))*\s*",
    re.IGNORECASE,
)
_BREAK: Final = re.compile(
    r"[,;:—–()|*•\"，：（）、]|\s-{1,2}\s|\b(?:and|but|so|because|since|plus|as)\b", re.IGNORECASE
)
_DOUBT: Final = re.compile(
    r"\b(?:if|unless|whether|suppose|supposing|imagine|imagining|pretend|pretending|hypothetically|wish|wishes"
    r"|wished"
    r"|let's say|as though|would have|could have|should have|if only|in case|assuming|roleplay|role-play|in the story"
    r"|in the novel|in the movie|in (?:a|my|the) dream|dreamt|dreamed|says|said|tells|told|claims?|claimed|thinks"
    r"|heard"
    r"|quotes?|wrote|sings|lyrics|character|example|e\.g|maybe|perhaps|for instance|rumor|apparently|supposedly"
    r"|would you|could you|not sure|as an? (?:ai|language model|assistant)|translate|summarize|rewrite|proofread"
    r"|paraphrase)\b|\u2588",
    re.IGNORECASE,
)
_CUT: Final = re.compile(
    r"(?<!\d):|:(?!\d)|[;—–()|*\u2588\"，：（）、]|\s-{1,2}\s|,\s*(?:but|so|because|since|which|who|where|when|while"
    r"|though"
    r"|although|as"
    r"|especially|even|like|including|plus|too|right|you know|I|i|we|my|it|that|this|he|she|they|you|not|thanks"
    r"|please"
    r"|to be|just|then|what|how|can|could|would|do|does|is|are|any|let|what's|it's)\b"
    r"|\b(?:because|(?<!a )(?<!the )(?<!good )cause(?= (?:I|it|they|he|she|we|my|you|the|there|that)\b)"
    r"|cuz|which|although|though|(?<!a )while|whereas|unless|until|who|whose|where|when|whenever"
    r"|if|but|yet|albeit"
    r"|hopefully|especially)\b"
    r"|\b(?:and|but) (?=[\u4e00-\u9fff])"
    r"|\b(?:and|so|as|since|or|before|after) (?:I|i|we|my|it|it's|that|that's|this|he|she|they|you|the|there|have"
    r"|am|would"
    r"|can|could|will|was|were|is|are|had|got|what|how|our|then|do|don't|now|need|want|maybe|even|been|just|a lot"
    r"|his|her"
    r"|hope|think|feel|felt|ended|haven't|hasn't|didn't|I'm|I've|I'd|I'll|we're|we've|she's|he's|they're)\b"
    r"|\b(?:I'm|I've|I'd|I'll|we're|we've|we'll)\b|\bso (?:that|much|far|if|excited|many)\b|\b(?:I|we) (?:guess"
    r"|think|hope|believe|mean)\b"
)
_TRAIL: Final = re.compile(
    r"(?:[\s,.!]+(?:too|as well|so much|a lot|the most|most of all|though|lol"
    r"|haha|anyway|right now|at the moment|very much|either"
    r"|actually"
    r"|honestly|already|again|lately|recently|and|or|so|now|btw"
    r"|by the way|as always|you know|to be honest|tbh|for sure|of course"
    r"|xd|:\)"
    r"|thanks|thank you|please|please note|these days|nowadays|currently|just|really|also|the|a|an|to|of|with|in"
    r"|for))+$"
    r"|[\s,.!:~^)(*-]+$",
    re.IGNORECASE,
)
_ASK_BREAK: Final = re.compile(
    r"[,;—–]\s*(?:and |but |so |then )?(?:can|could|would|will|do|does|did|is|are|what|how|where|why|which|who|any"
    r"|should"
    r"|may|shall|have|when|what's|how's|got|right|huh|no|yes|yeah|ok|okay)\b"
    r"|\s(?:and|so|but) (?:can|could|would|will|do|does|did|is|are|what|how|where|why|which|who|should|may)\b",
    re.IGNORECASE,
)
_TAG: Final = re.compile(r"[,;—–]\s*(?:right|huh|no|yes|yeah|ok|okay)\s*$", re.IGNORECASE)
_ITEM: Final = r"(?!(?:at|in|on|during|while|for|then|not|rain) )[\w'&/-]+(?: [\w'&/-]+){0,3}"
_LIST: Final = re.compile(rf"(?:, {_ITEM}){{1,8}},? (?:and|or) {_ITEM}$|, [A-Z]\w+(?: [A-Z]\w+)?$|(?<=\d),\d{{3}}\b")
_ADJECTIVES: Final = re.compile(
    r"\b(?:an?|the|such|very|more) [a-z]+, [a-z]+(?:ing|ful|ive|ous|ble|al|ic|ed|y|ant|ent) [a-z]"
)
"""A comma between two adjectives."""

_MORE: Final = re.compile(
    r"(?:,| and|, and| but|, but) (?=(?:live|work|love|enjoy|hate|prefer|have|am|own|play|study|speak|moved|dislike"
    r"|can't stand|don't like|don't eat)\b (?!to\b))"
)


_DROPPED: Final = re.compile(
    r"\s*(?:(?:hey|oh|wow|yay|guess what|well|so|btw|by the way)[,!.]? )?"
    r"(?P<verb>(?:just|recently|finally) (?:[a-z]+ed|got|bought|won|wrote|made|took|began|became|built|met|went"
    r"|saw)\b)",
    re.IGNORECASE,
)
"""A sentence that leaves out its "I"."""

MAX_LEAD: Final = 80
"""Characters before a subject in which a date may stand."""


@cache
def _subject() -> re.Pattern[str]:
    people = "|".join(word("en", name) for name in ("FAMILY", "PETS", "OTHERS"))
    return re.compile(
        rf"(?<![\w'])(?:(?P<self>I|i|[Ww]e)(?=['\s])"
        rf"|[Mm]y (?P<relation>{word('en', 'KIND')}(?:{people}))\b(?:,? {_NOT_NAME}(?P<name>{_NAME})(?<!'s)\b,?)?"
        rf"|(?P<thing>[Mm]y)(?= ))"
    )


@cache
def _pair() -> re.Pattern[str]:
    """Somebody else before "and I", at the beginning of what is said."""
    people = "|".join(word("en", name) for name in ("FAMILY", "PETS", "OTHERS"))
    return re.compile(
        rf"(?:^|[,;:!]) ?(?P<who>(?:[Mm]y|[Oo]ur) {word('en', 'KIND')}(?:{people})s?(?: {_NAME})?"
        rf"|(?!(?:Thanks|Congrats|Awesome|Yes|Great|Cool|Wow|Sure)\b){_NOT_NAME}[A-Z][a-z]+) and $"
    )


@dataclass(frozen=True, slots=True)
class Clause:
    """Somebody, and what is said of them.

    subject    `I`, `we`, `my` (then rest begins with the thing), or a relation such as `wife`. name: with a relation.
    rest       what follows the subject, up to the end of the clause; start, end: of the turn, subject and all.
    lead       what stands before the subject, such as "last Friday".
    """

    subject: str
    name: str
    rest: str
    start: int
    end: int
    lead: str = ""
    cut: str = ""


def stated(sentence: Sentence) -> str:
    """The part of a sentence that states: of a question what stands before the asking; empty if all of it asks."""
    text = sentence.text
    if not sentence.asks:
        return text
    found = None if _TAG.search(text) else _last(_ASK_BREAK, text)
    return text[: found.start()] if found else ""


def clauses(sentence: Sentence, said: date) -> Iterator[Clause]:
    """The clauses about the speaker or their people that a sentence states. Cost: O(n)."""
    text = stated(sentence)
    doubt = _DOUBT.search(text)
    limit = doubt.start() if doubt else len(text)
    dropped = _DROPPED.match(text)
    if dropped and limit:  # "Just finished my novel!"
        begin = dropped.start("verb")
        clause, _ = _clause(text, "I", "", begin, begin)
        if clause is not None:
            yield replace(clause, start=sentence.start + begin, end=sentence.start + clause.end)
    breaks = [0, *(match.end() for match in _BREAK.finditer(text))]
    at = 0
    for match in _subject().finditer(text):
        if match.start() >= limit:
            return
        while at + 1 < len(breaks) and breaks[at + 1] <= match.start():
            at += 1
        lead = _lead(text, breaks, at, match.start(), said)
        if lead is None:
            continue
        subject = (match["self"] or match["relation"] or "my").lower()
        begin, from_ = match.start(), match.end()
        if subject == "i":
            pair = _pair().search(text, max(0, begin - MAX_LEAD), begin)
            subject, begin = ("we", pair.start("who")) if pair else ("I", begin)
        while True:
            clause, more = _clause(text, subject, (match["name"] or "").strip(), begin, from_)
            if clause is not None:
                yield replace(clause, start=sentence.start + begin, end=sentence.start + clause.end, lead=lead)
            if more is None or subject == "my" or more >= limit:
                break
            begin = from_ = more


def _clause(text: str, subject: str, name: str, begin: int, from_: int) -> tuple[Clause | None, int | None]:
    """The clause whose predicate begins at `from_`, by places of the sentence; and where one more begins."""
    rest = text[from_ : from_ + 300]
    more = _MORE.search(rest, 2)
    end, word = _cut(rest[: more.start()] if more else rest)
    kept = _TRAIL.sub("", rest[:end])
    clause = Clause(subject, name, kept, begin, from_ + len(kept), "", word) if kept.strip() else None
    # One more predicate of the same subject: "I'm 35, live in Seattle and love hiking".
    goes_on = more is not None and end == more.start()
    return clause, from_ + more.end() if more is not None and goes_on else None


def _lead(text: str, breaks: list[int], at: int, start: int, said: date) -> str | None:
    """What stands between the last break and a subject, if that is nothing, small words or a date; else None."""
    opener = _OPENERS.match(text, breaks[at], start)
    bare = text[opener.end() if opener else breaks[at] : start].strip()
    for back in range(at, max(-1, at - 3), -1):
        piece = text[breaks[back] : start]
        if len(piece) > MAX_LEAD:
            break
        dates = english_dates(piece, said, past=True)
        if dates and not _OPENERS.sub("", piece[: dates[0].start]).strip(" ,"):
            rest = piece[dates[-1].end :].strip(" ,")
            if not rest or _OPENERS.fullmatch(rest):
                return piece
    return None if bare else ""


def _cut(rest: str) -> tuple[int, str]:
    """Where a clause ends, at a conjunction or at a comma that is not of a list, and the word that stands there."""
    found = _CUT.search(rest)
    end = found.start() if found else len(rest)
    word = found[0].strip(" ,").split(" ")[0].lower() if found else ""
    for comma in re.finditer(",", rest[:end]):
        listed = _LIST.match(rest[:end].rstrip(), comma.start())
        if listed and listed.end() >= len(rest[:end].rstrip()):
            break
        if not listed and not _ADJECTIVES.search(rest[max(0, comma.start() - 40) : comma.end() + 20]):
            return comma.start(), ""
    return end, word


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found
