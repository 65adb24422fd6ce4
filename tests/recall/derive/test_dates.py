"""Days that are said, relative to Wednesday, 10 May 2023."""

from __future__ import annotations

from datetime import date

import pytest

from offprompt.recall.derive.chinese_dates import chinese_dates
from offprompt.recall.derive.dates import said_for_good
from offprompt.recall.derive.english_dates import english_dates

SAID = date(2023, 5, 10)


@pytest.mark.parametrize(
    ("text", "past", "good"),
    [
        ("today", False, "on 10 May 2023"),
        ("the day before yesterday", True, "on 8 May 2023"),
        ("last Friday", True, "on 5 May 2023"),
        ("next Friday at 3pm", False, "on 19 May 2023 at 15:00"),
        ("this coming Saturday", False, "on 13 May 2023"),
        ("on Monday", False, "on 15 May 2023"),
        ("on Monday", True, "on 8 May 2023"),
        ("tomorrow at 9:30 am", False, "on 11 May 2023 at 9:30"),
        ("last week", True, "in the week of 1 May 2023"),
        ("next weekend", False, "on the weekend of 20 May 2023"),
        ("next month", False, "in June 2023"),
        ("last year", True, "in 2022"),
        ("last summer", True, "in the summer of 2022"),
        ("next summer", False, "in the summer of 2024"),
        ("next winter", False, "in the winter of 2023"),
        ("three days ago", True, "on 7 May 2023"),
        ("a couple of weeks ago", True, "in the week of 24 April 2023"),
        ("in two weeks", False, "in the week of 22 May 2023"),
        ("on March 1st", True, "on 1 March 2023"),
        ("on the 5th of June, 2024", False, "on 5 June 2024"),
        ("the 15th of last month", True, "on 15 April 2023"),
        ("in December", True, "in December 2022"),
        ("in December", False, "in December 2023"),
        ("back in 2019", True, "in 2019"),
        ("on 2023-05-14", False, "on 14 May 2023"),
    ],
)
def test_english(text: str, past: bool, good: str) -> None:
    (day,) = english_dates(text, SAID, past=past)
    assert (text[day.start : day.end], said_for_good(day, "en")) == (text, good)


@pytest.mark.parametrize(
    ("text", "past", "good"),
    [
        ("今天", False, "2023年5月10日"),
        ("大前天", True, "2023年5月7日"),
        ("大后天下午三点半", False, "2023年5月13日15:30"),
        ("今晚8点", False, "2023年5月10日20:00"),
        ("上周五", True, "2023年5月5日"),
        ("下下周一", False, "2023年5月22日"),
        ("下周一上午9点", False, "2023年5月15日9:00"),
        ("周三", False, "2023年5月17日"),
        ("上周", True, "2023年5月1日那一周"),
        ("这个周末", False, "2023年5月13日周末"),
        ("下个月", False, "2023年6月"),
        ("上个月15号", True, "2023年4月15日"),
        ("去年三月", True, "2022年3月"),
        ("去年夏天", True, "2022年夏天"),
        ("明年", False, "2024年"),
        ("三天前", True, "2023年5月7日"),
        ("两个月后", False, "2023年7月"),
        ("十二月二十五号", True, "2022年12月25日"),
        ("6月5号", False, "2023年6月5日"),
        ("2019年", True, "2019年"),
        ("2023-05-14", False, "2023年5月14日"),
    ],
)
def test_chinese(text: str, past: bool, good: str) -> None:
    (day,) = chinese_dates(text, SAID, past=past)
    assert (text[day.start : day.end], said_for_good(day, "zh")) == (text, good)


@pytest.mark.parametrize(
    "text", ["I may go", "on Fridays", "every Monday", "march on", "in 20 minutes", "February 31st", ""]
)
def test_what_is_no_date_in_english(text: str) -> None:
    assert english_dates(text, SAID, past=False) == []


@pytest.mark.parametrize("text", ["周围", "星期几", "每周一", "二月三十一号", "三个月", "今后", ""])
def test_what_is_no_date_in_chinese(text: str) -> None:
    assert chinese_dates(text, SAID, past=False) == []


@pytest.mark.parametrize("said", [date.min, date.max])
def test_the_ends_of_the_calendar_are_no_trouble(said: date) -> None:
    for past in (True, False):
        english_dates("last year, next week, 999 years ago, in 12 months, tomorrow, on Monday, in May", said, past=past)
        chinese_dates("去年，下下周一，上上个月，大后天，999年前，周三，十二月一号", said, past=past)
