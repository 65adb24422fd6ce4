"""Days, weeks, months and years that are said, as times; and how a sentence says them for good."""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from offprompt.recall.derive.records import Language
from offprompt.records import Precision

_MONTHS: Final = tuple(calendar.month_name)


@dataclass(frozen=True, slots=True)
class Day:
    """A date that is said in a text: characters start to end; the first day that is meant.

    minute   of the day, where precision is `minute`.
    name     of the season or weekend, where no more is said. A weekend is its Saturday, known to the week.
    """

    start: int
    end: int
    day: date
    precision: Precision
    minute: int = 0
    name: str = ""

    def at(self, zone: tzinfo) -> float:
        """Seconds since 1970 at which the minute, day, week, month or year of it begins there."""
        day = self.day - timedelta(days=self.day.weekday()) if self.precision == "week" else self.day
        begin = datetime(day.year, day.month, day.day, tzinfo=zone)
        return (begin + timedelta(minutes=self.minute)).timestamp()

    @property
    def after(self) -> date | None:
        """The day after the last one that is meant; None beyond the calendar."""
        match self.precision:
            case "year":
                return plus_months(self.day, 12)
            case "month":
                return plus_months(self.day, 1)
            case "week":
                return plus_days(self.day, 7 - self.day.weekday())
            case _:
                return plus_days(self.day, 1)

    def is_ahead(self, today: date) -> bool:
        """Whether some of it lies behind today: a later day, a time of today, the rest of this week, month or year."""
        if self.precision == "day":
            return self.day > today
        return self.day >= today or self.after is None or self.after > today

    def moved(self, by: int) -> Day:
        """The same, that many characters further on."""
        return replace(self, start=self.start + by, end=self.end + by)


def local_day(at: float, zone: tzinfo) -> date:
    """The day that it is there at a time; times that no calendar has are taken as its first or last day."""
    try:
        return datetime.fromtimestamp(at, zone).date()
    except (ValueError, OverflowError, OSError):
        return date.max if at > 0 else date.min


def said_for_good(day: Day, language: Language) -> str:
    """The date in words that stay right."""
    one = day.day
    if language == "zh":
        month = f"{one.year}年{one.month}月"
        words = {
            "year": f"{one.year}年{day.name}",
            "month": month,
            "day": f"{month}{one.day}日",
            "week": f"{month}{one.day}日{day.name or '那一周'}",
            "minute": f"{month}{one.day}日{day.minute // 60}:{day.minute % 60:02}",
        }
        return words[day.precision]
    full = f"{one.day} {_MONTHS[one.month]} {one.year}"
    words = {
        "year": f"in the {day.name} of {one.year}" if day.name else f"in {one.year}",
        "day": f"on {full}",
        "month": f"in {_MONTHS[one.month]} {one.year}",
        "week": f"on the {day.name} of {full}" if day.name else f"in the week of {full}",
        "minute": f"on {full} at {day.minute // 60}:{day.minute % 60:02}",
    }
    return words[day.precision]


def apart(found: Iterable[Day]) -> list[Day]:
    """The dates in order of their places, without those that lie over one before."""
    kept: list[Day] = []
    for day in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or day.start >= kept[-1].end:
            kept.append(day)
    return kept


def valid_date(year: int, month: int, day: int) -> date | None:
    """The date, or None where there is none such."""
    try:
        return date(year, month, day)
    except (ValueError, OverflowError):
        return None


def plus_days(day: date, days: int) -> date | None:
    """The day so many days on; None beyond the calendar."""
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return None


def plus_months(day: date, months: int) -> date | None:
    """The first day of the month so many months on; None beyond the calendar."""
    count = day.year * 12 + day.month - 1 + months
    return valid_date(count // 12, count % 12 + 1, 1)


def week_of(day: date, weeks: int = 0) -> date | None:
    """The Monday of the week so many weeks on."""
    return plus_days(day, 7 * weeks - day.weekday())


def weekday_near(day: date, weekday: int, *, past: bool) -> date | None:
    """The nearest such weekday before the day, or after it."""
    ahead = (weekday - day.weekday()) % 7
    return plus_days(day, ahead - 7 if past else ahead or 7)


def month_near(day: date, month: int, *, past: bool) -> date | None:
    """The first day of the nearest such month, this one included, before or after the day."""
    year = day.year - (month > day.month) if past else day.year + (month < day.month)
    return valid_date(year, month, 1)


def month_day_near(day: date, month: int, number: int, *, past: bool) -> date | None:
    """The nearest such day of the year before or after the day, this one included."""
    years = [day.year, day.year - 1, day.year + 1]
    found = [one for year in years if (one := valid_date(year, month, number))]
    fitting = [one for one in found if (one <= day if past else one >= day)]
    return min(fitting or found, key=lambda one: abs((one - day).days), default=None)
