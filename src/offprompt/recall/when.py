"""The time that a question names in its own words, as a window."""

from __future__ import annotations

import re
from datetime import date, datetime, tzinfo
from itertools import chain
from typing import Final

from offprompt.recall.analysis import asks
from offprompt.recall.derive.chinese_dates import chinese_dates
from offprompt.recall.derive.dates import Day, local_day, plus_days, plus_months
from offprompt.recall.derive.english_dates import english_dates

_SENTENCES: Final = re.compile(r"(?<=[.!?。！？\n])")


def window_of(text: str, now: float, zone: tzinfo) -> tuple[float, float] | None:
    """From the first to the last moment that the words name ("last week", "in May 2023", 上周, 去年三月), or None.

    now      what relative words are counted from. A bare "in May" is the last one.
    Several  times make one window over all of them ("from May to July"). Of several sentences only those count that
             ask something: "Yesterday was great. Who won?" does not ask about yesterday.
    Cost     O(n).
    """
    said = local_day(now, zone)
    sentences = [each for each in _SENTENCES.split(text) if each.strip()]
    asked = " ".join(each for each in sentences if asks(each)) if len(sentences) > 1 else text
    ends = [
        (day.day, after)
        for day in chain(english_dates(asked, said, past=True), chinese_dates(asked, said, past=True))
        if (after := _after(day)) is not None
    ]
    if not ends:
        return None
    return _moment(min(first for first, _ in ends), zone), _moment(max(after for _, after in ends), zone)


def _after(said: Day) -> date | None:
    """The day after the last one that is meant."""
    match said.precision:
        case "year":
            return plus_months(said.day, 12)
        case "month":
            return plus_months(said.day, 1)
        case "week":
            return plus_days(said.day, 7)
        case _:
            return plus_days(said.day, 1)


def _moment(day: date, zone: tzinfo) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
