"""derive: from turns to facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from typing import Final

from offprompt.recall.derive.answers import answered
from offprompt.recall.derive.asks import asked_facts, without_doubles
from offprompt.recall.derive.chinese import chinese_facts
from offprompt.recall.derive.dates import local_day
from offprompt.recall.derive.english import english_facts
from offprompt.recall.derive.introductions import introduced
from offprompt.recall.derive.records import Derived, Language, Turn
from offprompt.recall.derive.saying import Saying
from offprompt.recall.derive.sentences import Sentence, sentences

_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
_LATIN: Final = re.compile(r"[A-Za-z]{1,}")


def derive(turns: Sequence[Turn], now: float, language: Language | None = None, *, zone: tzinfo = UTC) -> list[Derived]:
    """The profile and the facts that users' turns state, in the order said; by rules alone.

    turns     of one conversation, in order; those of other roles are only looked at for the question that a user's turn
              answers. now: the time of turns that have none, seconds since 1970.
    language  only the rules of this one; None: of both, whichever a sentence is in.
    zone      where "tomorrow" begins.
    Not       questions, conditions, quotations, code, jokes, what others are said to have said; and nothing of a clause
              that points to another ("I love it"), since it does not stand for itself.
    Cost      O(characters), at most those of the sentences that begin in the first 2,000 of a turn.
    Raises    nothing, whatever the texts.
    """
    found: list[Derived] = []
    before: Turn | None = None
    for turn in turns:
        if turn.role == "user":
            of_turn = sorted(_of_turn(turn, before, now, language, zone), key=lambda one: one.quotes[0].start)
            found += without_doubles(of_turn)
        before = turn
    return found


def _of_turn(turn: Turn, before: Turn | None, now: float, language: Language | None, zone: tzinfo) -> Iterator[Derived]:
    saying = Saying(turn, local_day(now if turn.at is None else turn.at, zone), zone)
    answer = answered(before, saying) if before is not None and before.role == "assistant" else None
    if answer is not None:
        yield answer
    for sentence in sentences(turn.text):
        yield from _of_sentence(sentence, saying, language)


def _of_sentence(sentence: Sentence, saying: Saying, language: Language | None) -> Iterator[Derived]:
    yield from introduced(sentence, saying)
    if language != "zh" and _LATIN.search(sentence.text):
        yield from asked_facts(sentence, saying, "en")
        yield from english_facts(sentence, saying)
    if language != "en" and _HAN.search(sentence.text):
        yield from asked_facts(sentence, saying, "zh")
        yield from chinese_facts(sentence, saying)
