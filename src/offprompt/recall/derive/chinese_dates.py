"""Dates as Chinese says them, relative to the day on which it was said."""

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

_DIGITS: Final = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0, "俩": 2}
_DAYS: Final = {"大前天": -3, "前天": -2, "昨": -1, "今": 0, "明": 1, "后天": 2, "大后天": 3}
_YEARS: Final = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2}
_STEPS: Final = {"上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2}
_WEEK: Final = "一二三四五六日"
_N: Final = r"\d{1,3}|[零一二两三四五六七八九十]{1,3}"
_HALF: Final = r"(?P<half>凌晨|早上|早晨|上午|中午|下午|傍晚|晚上)?"
_TIME: Final = (
    rf"(?:(?:的)?{_HALF}(?:(?P<h>\d{{1,2}}|[一二两三四五六七八九十]{{1,3}})[点时:：](?P<m>半|\d{{1,2}}分?)?)?)?"
)
_SEASON: Final = {"春": "春天", "夏": "夏天", "秋": "秋天", "冬": "冬天", "暑": "暑假", "寒": "寒假"}

Maker = Callable[[re.Match[str], date, bool], tuple[date | None, Precision]]


def chinese_number(text: str) -> int:
    """A number below 1,000 in digits or in Chinese numerals: `12`, `十二`, `二十`."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.partition("十")
    if not ten:
        return _DIGITS.get(text[-1:], 0)
    return (_DIGITS.get(tens[-1:], 1) if tens else 1) * 10 + _DIGITS.get(ones[:1], 0)


def _named_day(match: re.Match[str], said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    word = match["word"]
    return plus_days(said, _DAYS.get(word, _DAYS.get(word[0], 0))), "day"


def _week(match: re.Match[str], said: date, past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    weekday = match["wd"]
    precision: Precision = "week" if weekday == "末" else "day"
    number = 5 if weekday == "末" else _WEEK.index(weekday.replace("天", "日")) if weekday else None
    if match["step"]:
        monday = week_of(said, _STEPS[match["step"]])
        if number is None:
            return monday, "week"
        return (plus_days(monday, number) if monday else None), precision
    return (None, "") if number is None else (weekday_near(said, number, past=past), precision)


def _month(match: re.Match[str], said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    first = plus_months(said, _STEPS[match["step"]])
    if match["d"] and first:
        return valid_date(first.year, first.month, chinese_number(match["d"])), "day"
    return first, "month"


def _year(match: re.Match[str], said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    year = said.year + _YEARS[match["year"]] if match["year"] else int(match["y"])
    if not match["mo"]:
        return valid_date(year, 1, 1), "year"
    month = chinese_number(match["mo"])
    if match["d"]:
        return valid_date(year, month, chinese_number(match["d"])), "day"
    return valid_date(year, month, 1), "month"


def _numbers(match: re.Match[str], _said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    return valid_date(int(match["y"]), int(match["mo"]), int(match["d"])), "day"


def _month_day(match: re.Match[str], said: date, past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    month = chinese_number(match["mo"])
    if match["d"]:
        return month_day_near(said, month, chinese_number(match["d"]), past=past), "day"
    return month_near(said, month, past=past), "month"


def _counted(match: re.Match[str], said: date, _past: bool) -> tuple[date | None, Precision]:  # noqa: FBT001
    number = chinese_number(match["n"])
    number = -number if "前" in match["way"] else number
    unit = match["unit"]
    if unit == "天":
        return plus_days(said, number), "day"
    if unit in ("周", "个星期", "星期", "个礼拜", "礼拜"):
        return week_of(said, number), "week"
    if unit == "个月":
        return plus_months(said, number), "month"
    return valid_date(said.year + number, 1, 1), "year"


FORMS: Final[tuple[tuple[re.Pattern[str], Maker], ...]] = tuple(
    (re.compile(pattern, re.ASCII), maker)
    for pattern, maker in (
        (rf"(?P<word>大前天|大后天|前天|后天|[昨今明](?:天|日|晚|早))(?!的?自己){_TIME}", _named_day),
        (
            (
                rf"(?<![一二两三四五六七八九十每\d])(?P<step>上上|下下|上|下|这|本)?个?(?:周|星期|礼拜)"
                rf"(?P<wd>[一二三四五六日天末])?(?!年|围|期|[一二三四五六日]?[到至]){_TIME}"
            ),
            _week,
        ),
        (rf"(?P<step>上上|下下|上|下|这|本)个?月(?:(?P<d>{_N})[日号])?{_TIME}", _month),
        (
            (
                rf"(?:(?P<year>去年|今年|明年|前年|后年)|(?P<y>(?:19"
                rf"|20)\d\d)年)(?:的?(?P<mo>{_N})月(?:份)?(?:(?P<d>{_N})[日号])?{_TIME}"
                r"|的?(?P<season>[春夏秋冬]天|[暑寒]假))?"
            ),
            _year,
        ),
        (rf"(?<![\d一二三四五六七八九十个])(?P<mo>{_N})月(?:份)?(?:(?P<d>{_N})[日号])?(?!前|后|大){_TIME}", _month_day),
        (rf"(?P<n>{_N})(?P<unit>天|周|个?星期|个?礼拜|个月|年)(?P<way>[之以]?前|[之以]?后)", _counted),
        (
            r"(?P<y>(?:19|20)\d\d)[-/](?P<mo>\d{1,2})[-/](?P<d>\d{1,2})(?!\d)",
            _numbers,
        ),
    )
)


def chinese_dates(text: str, said: date, *, past: bool) -> list[Day]:
    """The dates in a text, in order; parameters and cost as of `english_dates`."""
    return apart(_all(text, said, past=past))


def _all(text: str, said: date, *, past: bool) -> Iterator[Day]:
    for pattern, maker in FORMS:
        for match in pattern.finditer(text):
            day, precision = maker(match, said, past)
            if day is None:
                continue
            groups = match.groupdict()
            minute = _minute(groups) if precision == "day" else None
            name = _SEASON.get((groups.get("season") or "")[:1], "周末" if groups.get("wd") == "末" else "")
            yield Day(match.start(), match.end(), day, precision if minute is None else "minute", minute or 0, name)


def _minute(groups: dict[str, str | None]) -> int | None:
    """The minute of the day that is said with a date."""
    if not groups.get("h"):
        return None
    hour = chinese_number(groups["h"] or "0")
    late = hour < 12 and (groups.get("half") in ("下午", "傍晚", "晚上") or (groups.get("word") or "").endswith("晚"))
    said = groups.get("m") or "0"
    minute = 30 if said == "半" else int(said.rstrip("分"))
    return (hour + 12 * late) * 60 + minute if hour < 24 and minute < 60 else None
