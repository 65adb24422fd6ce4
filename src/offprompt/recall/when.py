"""The time that a question names in its own words, and what it asks beside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from itertools import chain
from typing import Final

from offprompt.recall.analysis import asks
from offprompt.recall.derive.chinese_dates import chinese_dates
from offprompt.recall.derive.dates import Day, apart, local_day
from offprompt.recall.derive.english_dates import english_dates
from offprompt.recall.telling import telling_words

_SENTENCES: Final = re.compile(r"(?<=[.!?。！？\n])")
# What says the same in any text: "in May", "2023", 三月; "yesterday" in a text is another day than in the question.
_LASTING: Final = re.compile(
    r"(?:19|20)\d\d|[\d一二三四五六七八九十]月|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class NamedTime:
    """A time that a question names.

    window   its first moment, and the one after its last; seconds since 1970.
    alone    the question asks for nothing but the time: "What did I do last week?", 我上周做了什么？
    words    the question without words such as "last week", which a text says of another time; whole where `alone`.
    rest     without any words of the time; whole where `alone`.
    """

    window: tuple[float, float]
    alone: bool
    words: str
    rest: str


def time_named(text: str, now: float, zone: tzinfo) -> NamedTime | None:
    """The time that the words name ("last week", "in May 2023", 上周, 去年三月), or None.

    now      what relative words are counted from. A bare "in May" is the last one.
    Several  times make one window over all of them ("from May to July"). Of several sentences only those count that
             ask something: "Yesterday was great. Who won?" does not ask about yesterday.
    Cost     O(n).
    """
    said = local_day(now, zone)
    sentences = [each for each in _SENTENCES.split(text) if each.strip()]
    ends: list[tuple[date, date]] = []
    words, rest, alone = "", "", True
    for sentence in sentences:
        days: list[Day] = []
        if len(sentences) == 1 or asks(sentence):
            days = apart(chain(english_dates(sentence, said, past=True), chinese_dates(sentence, said, past=True)))
            bare = _without(sentence, days)
            alone &= not telling_words(bare)
            rest += bare
            words += _without(sentence, [day for day in days if not _LASTING.search(sentence[day.start : day.end])])
        else:
            rest += sentence
            words += sentence
        ends += [(day.day, after) for day in days if (after := day.after) is not None]
    if not ends:
        return None
    window = _moment(min(first for first, _ in ends), zone), _moment(max(after for _, after in ends), zone)
    return NamedTime(window, alone, text if alone else words, text if alone else rest)


def _without(text: str, days: list[Day]) -> str:
    """The text with a space in place of each of the dates."""
    for day in sorted(days, key=lambda one: -one.start):
        text = f"{text[: day.start]} {text[day.end :]}"
    return text


def _moment(day: date, zone: tzinfo) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
