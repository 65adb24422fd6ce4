"""The time that a question names in its own words, as a window."""

from __future__ import annotations

import re
from datetime import date, datetime, tzinfo
from itertools import chain
from typing import Final

from offprompt.recall.analysis import asks
from offprompt.recall.derive.chinese_dates import chinese_dates
from offprompt.recall.derive.dates import local_day
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
        if (after := day.after) is not None
    ]
    if not ends:
        return None
    return _moment(min(first for first, _ in ends), zone), _moment(max(after for _, after in ends), zone)


def _moment(day: date, zone: tzinfo) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
