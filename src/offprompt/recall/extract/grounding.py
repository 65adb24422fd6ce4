"""Whether a fact says no more than the turns that it names."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, tzinfo
from typing import Final

from offprompt.recall.analysis import search_terms
from offprompt.recall.derive.chinese_dates import chinese_dates
from offprompt.recall.derive.dates import Day, local_day
from offprompt.recall.derive.english_dates import english_dates
from offprompt.recall.extract.records import Line, Strictness
from offprompt.recall.text import fold

SHARES: Final[Mapping[Strictness, int]] = {"low": 2, "normal": 5, "high": 10**6}
"""One word in so many may be the model's own, beyond those that only say it in the third person."""

_FREE: Final = frozenset(
    search_terms(
        """user users person people speaker say says said mention mentions tell told state states report reports name
        named call called live lives living reside resides stay work works working job employed like likes liked love
        loves enjoy enjoys prefer prefers preferred favorite favourite dislike dislikes hate hates want wants wish
        wishes need needs plan plans planning intend intends hope hopes own owns use uses using go goes going come comes
        get gets become becomes became make makes take takes keep keeps know knows think thinks feel feels find finds
        interested interest currently recently now today usually often always still ask asks asked request requests
        identify goal please one thing way time new practice practices practise start starts started begin play plays
        eat eats drink drinks avoid avoids former formerly longer anymore stop stopped quit visit visits travel
        since during while because until around near also never none nothing nobody without does
        reply replies answer answers respond years old others favourites remember remembers reminded"""
    )
)
_NOBODY: Final = frozenset(search_terms("user users years old"))
_FREE_HAN: Final = re.compile(
    "用户|本人|表示|提到|说过|告诉|名字|名叫|叫做|叫|喜欢|喜爱|热爱|最爱|偏好|偏爱|讨厌|不喜欢|居住|居住在|住在|住|工作"
    "|从事|就职于|任职于|计划|打算|希望|想要|想|需要|要求|请求|拥有|使用|经常|平时|目前|现在|已经|正在|最近|开始|停止"
    "|不再|曾经|以前|去|前往|吃|喝|做|玩|岁|回答|回复|交流|要记得|记得|自己|得到|要|是|有|在|于|为|的|了|会|一个|一只|位|名"
)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NAME: Final = re.compile(r"(?<![.!?:]\s)(?<!^)(?<![\w'’-])[A-Z][\w'’-]*[^\W\d_]")
_WORDS: Final = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty",
)
_DIGITS: Final = {word: str(at) for at, word in enumerate(_WORDS)}
_HAN_DIGITS: Final = dict(zip("零一二三四五六七八九", range(10), strict=True)) | {"两": 2}
_HAN_NUMBER: Final = re.compile(r"([一二三四五六七八九]?)十([一二三四五六七八九]?)|[零一二三四五六七八九两]")


def days_in(line: Line, zone: tzinfo) -> list[Day]:
    """The days that a turn names, in either sense of a bare "on Friday"."""
    said = local_day(line.at, zone)
    return [
        day
        for past in (False, True)
        for find in (english_dates, chinese_dates)
        for day in find(line.text, said, past=past)
    ]


def day_words(line: Line, zone: tzinfo) -> str:
    """What a fact may say of the days and times that a turn names, and of the one on which it was said."""
    said = local_day(line.at, zone)
    named = days_in(line, zone)
    times = [f"{day.minute // 60}:{day.minute % 60:02} {day.minute // 60} {day.minute % 60}" for day in named]
    return " ".join([*_day_words([said, *(day.day for day in named)]), *times])


def is_grounded(text: str, support: str, strictness: Strictness) -> bool:
    """Whether the words of a fact stand in what supports it.

    support   the turns that it names with `day_words`, what they answer, the fact that it changes, who speaks.
    Rule      each number and each name must be there; of the other telling words, without those that only say in the
              third person what was said in the first, one in five may be the model's own (`high`: none, `low`: half).
    Source    none: a rule of this product; docs/extraction.md has what it lets through.
    """
    folded = fold(support)
    numbers = _numbers(text)
    if not numbers <= _numbers(support):
        return False
    terms = set(search_terms(support))
    own_names = (match[0] for match in _NAME.finditer(text))
    if any(not set(search_terms(name)) <= terms | _FREE for name in own_names):
        return False
    own = set(_content(text)) or set(search_terms(_FREE_HAN.sub(" ", text))) - numbers - _NOBODY
    missing = {term for term in own if term not in terms and (term.isascii() or term not in folded)}
    return bool((own - missing) or (numbers and not own)) and len(missing) <= len(own) // SHARES[strictness]


def _content(text: str) -> Iterator[str]:
    """The telling words of a fact that are not free; of Han its characters."""
    plain = _FREE_HAN.sub(" ", text)
    for term in search_terms(plain):
        if _HAN.search(term):
            yield from (char for char in term if _HAN.match(char))
        elif term not in _FREE and not term[0].isdigit():
            yield term


def _numbers(text: str) -> set[str]:
    """The numbers of a text, in digits or as words up to twenty, 九十九."""
    plain = _THOUSANDS.sub("", fold(text))
    found = {match[0].lstrip("0") or "0" for match in _NUMBER.finditer(plain)}
    found |= {part.lstrip("0") or "0" for number in found for part in number.split(".")}
    found |= {_DIGITS[word] for word in re.findall(r"[a-z]+", plain) if word in _DIGITS}
    return found | {_han_number(match) for match in _HAN_NUMBER.finditer(plain)}


def _han_number(match: re.Match[str]) -> str:
    if "十" in match[0]:
        return str(10 * (_HAN_DIGITS[match[1]] if match[1] else 1) + (_HAN_DIGITS[match[2]] if match[2] else 0))
    return str(_HAN_DIGITS[match[0]])


def _day_words(days: Sequence[date]) -> Iterator[str]:
    for day in days:
        yield f"{day.isoformat()} {day.year} {day.month} {day.day} {day.year % 100}"
        yield f"{calendar.month_name[day.month]} {calendar.month_abbr[day.month]} {calendar.day_name[day.weekday()]}"
        yield f"{day.year}年{day.month}月{day.day}日 {day.day}号"
