"""Dates as English says them, relative to the day on which it was said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Final

from offprompt.recall.derive.dates import (
    Day,
    apart,
    month_day_near,
    month_near,
    plus_days,
    plus_months,
    valid_date,
    week_of,
    weekday_near,
)
from offprompt.records import Precision

_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NUMBERS: Final = {
    word: number
    for number, words in enumerate(
        [
            "",
            "a an one",
            "two couple",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
    for word in words.split()
}
_SEASONS: Final = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}
_WD: Final = r"(?P<wd>mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
_FULL_WD: Final = r"(?P<wd>mon|tues|wednes|thurs|fri|satur|sun)day"
_MON: Final = (
    r"(?P<mon>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_COUNT: Final = r"(?P<n>\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a couple(?: of)?)"
_ORDINAL: Final = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_TIME: Final = (
    r"(?:,? (?:at )?(?P<h>\d{1,2})(?::(?P<m>\d\d))? ?(?P<ap>[ap])\.?m\b\.?| at (?P<h2>\d{1,2}):(?P<m2>\d\d))?"
)
_PART: Final = r"(?: (?:morning|afternoon|evening|night))?"

Maker = Callable[[re.Match[str], date, bool], tuple[date | None, Precision]]


def _weekday(match: re.Match[str]) -> int:
    return _WEEKDAYS.index(match["wd"][:3].lower())


def _month(match: re.Match[str]) -> int:
    return _MONTHS.index(match["mon"][:3].lower()) + 1


def _named_day(match: re.Match[str], said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    word = match["word"].lower()
    shifts = {"the day before yesterday": -2, "yesterday": -1, "last night": -1, "tomorrow": 1}
    shift = 2 if word.startswith("the day after tom") else shifts.get(word, 0)
    return plus_days(said, shift), "day"


def _shifted(match: re.Match[str], said: date, past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    step = {"last": -1, "past": -1, "next": 1, "coming": 1}.get(match["which"].lower().split()[-1], 0)
    unit = match["unit"].lower()
    if unit == "week":
        return week_of(said, step), "week"
    if unit == "weekend":
        monday = week_of(said, step)
        return (plus_days(monday, 5) if monday else None), "week"
    if unit == "month":
        return plus_months(said, step), "month"
    if unit == "year":
        return valid_date(said.year + step, 1, 1), "year"
    if unit in _SEASONS:
        # A season of which "last" is said may have been in this year; of which "next" is said may be in this year too,
        # if it is not the coming one anyhow.
        begun = said.month >= _SEASONS[unit] + 3
        year = said.year + step + (step < 0 and begun) - (step > 0 and said.month < _SEASONS[unit] - 3)
        return valid_date(year - (unit == "winter" and past and step == 0), 1, 1), "year"
    return None, ""


def _shifted_weekday(match: re.Match[str], said: date, past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    which, weekday = match["which"].lower().split()[-1], _weekday(match)
    if which == "next":
        monday = week_of(said, 1)
        return (plus_days(monday, weekday) if monday else None), "day"
    return weekday_near(said, weekday, past=which in ("last", "past") or (which == "this" and past)), "day"


def _counted(match: re.Match[str], said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    word = match["n"].lower()
    number = int(word) if word.isdecimal() else _NUMBERS[word.split()[1] if word.startswith("a couple") else word]
    number = -number if match["ago"] else number
    unit = match["unit"].lower()
    if unit == "day":
        return plus_days(said, number), "day"
    if unit == "week":
        return week_of(said, number), "week"
    if unit == "month":
        return plus_months(said, number), "month"
    return valid_date(said.year + number, 1, 1), "year"


def _month_day(match: re.Match[str], said: date, past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    month, number = _month(match), int(match["d"])
    if match["y"]:
        return valid_date(int(match["y"]), month, number), "day"
    return month_day_near(said, month, number, past=past), "day"


def _month_year(match: re.Match[str], _said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    return valid_date(int(match["y"]), _month(match), 1), "month"


def _month_alone(match: re.Match[str], said: date, past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    which = (match["which"] or "").lower()
    return month_near(said, _month(match), past=which == "last" or (past and which != "next")), "month"


def _day_of_month(match: re.Match[str], said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    month = plus_months(said, {"last": -1, "next": 1}.get(match["which"].lower(), 0))
    return (None if month is None else valid_date(month.year, month.month, int(match["d"]))), "day"


def _year(match: re.Match[str], _said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    return valid_date(int(match["y"]), 1, 1), "year"


def _numbers(match: re.Match[str], _said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    return valid_date(int(match["y"]), int(match["mo"]), int(match["d"])), "day"


def _bare_weekday(match: re.Match[str], said: date, past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    return weekday_near(said, _weekday(match), past=past), "day"


FORMS: Final[tuple[tuple[re.Pattern[str], Maker], ...]] = tuple(
    (re.compile(rf"\b{pattern}(?![\w'])", re.IGNORECASE | re.ASCII), maker)
    for pattern, maker in (
        (
            (
                rf"(?P<word>the day before yesterday|the day after tomorrow|yesterday|tomorrow|tonight|today"
                rf"|last night"
                rf"|this (?:morning|afternoon|evening)){_PART}{_TIME}"
            ),
            _named_day,
        ),
        (
            (
                r"(?:(?:over|during|in|by|for|at|earlier|later) )?(?P<which>this past|this coming|last|past|this"
                r"|next)"
                r" (?P<unit>weekend|week|month|year|spring|summer|fall|autumn|winter)"
            ),
            _shifted,
        ),
        (
            rf"(?:on )?(?P<which>this past|this coming|last|past|this|next|coming) {_WD}{_PART}{_TIME}",
            _shifted_weekday,
        ),
        (rf"(?:about |around )?{_COUNT} (?P<unit>day|week|month|year)s? (?P<ago>ago)", _counted),
        (rf"in (?:about )?{_COUNT} (?P<unit>day|week|month|year)s?(?P<ago>)(?='| time|$|[.,!;])(?: time)?", _counted),
        (rf"(?:on |by |since )?(?:{_FULL_WD},? )?{_MON} {_ORDINAL}(?:,? (?P<y>(?:19|20)\d\d))?{_TIME}", _month_day),
        (rf"(?:on |by |since )?(?:the )?{_ORDINAL}(?: of)? {_MON}(?:,? (?P<y>(?:19|20)\d\d))?{_TIME}", _month_day),
        (
            rf"(?:on )?the {_ORDINAL} of (?P<which>last|this|next) month",
            _day_of_month,
        ),
        (rf"(?:in |since |by |back in |early |late |mid-)?{_MON},? (?:of )?(?P<y>(?:19|20)\d\d)", _month_year),
        (rf"(?:in |by |since )(?:early |late |mid-)?(?:(?P<which>last|next|this) )?{_MON}", _month_alone),
        (rf"(?P<which>last|next|this) {_MON}", _month_alone),
        (
            r"(?:in |on |since |by |back in )(?P<y>(?:19|20)\d\d)(?!-\d)",
            _year,
        ),
        (
            rf"(?:on )?(?P<y>(?:19|20)\d\d)-(?P<mo>\d\d)-(?P<d>\d\d){_TIME}",
            _numbers,
        ),
        (
            rf"(?:on |by |this coming ){_FULL_WD}{_PART}{_TIME}",
            _bare_weekday,
        ),
    )
)


def english_dates(text: str, said: date, *, past: bool) -> list[Day]:
    """The dates in a text, in order, each with the preposition before it.

    said     the day on which it was said. past: which way a bare "on Friday" or "in May" looks.
    Cost     O(n): the forms have bounded length.
    """
    return apart(_all(text, said, past=past))


def _all(text: str, said: date, *, past: bool) -> Iterator[Day]:
    for pattern, maker in FORMS:
        for match in pattern.finditer(text):
            day, precision = maker(match, said, past)
            if day is None or text[: match.start()].lower().endswith(("every ", "each ")):
                continue
            groups = match.groupdict()
            minute = _minute(groups)
            name = (groups.get("unit") or "").lower()
            yield Day(
                match.start(),
                match.end(),
                day,
                "minute" if minute is not None and precision == "day" else precision,
                minute or 0,
                name if name in _SEASONS or name == "weekend" else "",
            )


def _minute(groups: dict[str, str | None]) -> int | None:
    """The minute of the day that is said with a date."""
    hour, minute = groups.get("h") or groups.get("h2"), groups.get("m") or groups.get("m2") or "0"
    if hour is None or int(hour) > 23 or int(minute) > 59:
        return None
    half = (groups.get("ap") or "").lower()
    number = int(hour) % 12 + 12 * (half == "p") if half else int(hour)
    return number * 60 + int(minute)
