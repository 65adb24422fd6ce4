"""What a form, or a word before it, tells: e-mail addresses, passports, licence plates, ids of QQ and WeChat.

All patterns read plain text (see `privacy.plain`) in linear time: each repetition is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from offprompt.records.redaction import Span, SpanKind

_IS: Final = r"(?:[ ]{0,2}(?:是|为|就是|叫|is|was|:|：|=|->|→|[“\"'`「(]|号|码)){0,4}[ ]{0,2}[“\"'`「(]?"
_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9_%+-][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])"
)
_PASSPORT: Final = re.compile(
    rf"(?:护照(?:号码|号|编号)?|通行证(?:号码|号)?|\bpassport(?:[ ](?:number|no\.?|num|#|id))?){_IS}"
    r"(?P<it>[A-Z]{1,2}[ -]?[0-9]{6,8}|[0-9]{8,9})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_QQ: Final = re.compile(
    rf"(?:(?<![A-Za-z])QQ(?:号码|号|[ ](?:number|id|no\.?))?|扣扣号?|企鹅号){_IS}"
    r"(?P<it>[1-9][0-9]{4,10})(?![0-9A-Za-z@.])",
    re.IGNORECASE,
)
# A bare "微信" is said of many things: there the id must look like one; behind "微信号" it need not.
_WECHAT: Final = re.compile(
    rf"(?:(?P<id>微信(?:号码|号|[ ]?ID)|(?<![A-Za-z])we-?chat[ ]?(?:id|number|account|handle))|微信|加[vV]信?|[vV]信"
    rf"|(?<![A-Za-z])(?:we-?chat|weixin|vx|wx)(?![A-Za-z0-9_])){_IS}"
    r"(?P<it>[A-Za-z](?=(?P<like>[A-Za-z]{0,19}[0-9_-])?)[A-Za-z0-9_-]{5,19})(?![A-Za-z0-9_@-])",
    re.IGNORECASE,
)
_WECHAT_OWN: Final = re.compile(r"(?<![A-Za-z0-9_])wxid_[a-z0-9]{8,22}(?![A-Za-z0-9_])")

# GA 36-2018: a province, an office's letter, five characters or six of a new energy vehicle, without I and O.
_PROVINCES: Final = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"
_PLATE: Final[dict[str, str]] = {
    "CN": rf"[{_PROVINCES}][A-HJ-NP-Z][ ·•・.-]?(?=[A-Z]{{0,5}}[0-9])[A-HJ-NP-Z0-9]{{4}}"
    r"(?:[A-HJ-NP-Z0-9]{1,2}|[挂学警港澳使领])(?![A-Za-z0-9])",
    "GB": r"(?<![A-Za-z0-9-])[A-HJ-PR-Y][A-HJ-PR-Y](?:0[2-9]|[1-7][0-9])[ ][A-HJ-PR-Z]{3}(?![A-Za-z0-9-])",
    "DE": r"(?<![A-Za-z0-9-])[A-ZÄÖÜ]{1,3}-[A-Z]{1,2}[ ][1-9][0-9]{0,3}[EH]?(?![A-Za-z0-9-])",
    "FR": r"(?<![A-Za-z0-9-])[A-HJ-NP-TV-Z]{2}-[0-9]{3}-[A-HJ-NP-TV-Z]{2}(?![A-Za-z0-9-])",
}
_SAID_PLATE: Final = re.compile(
    r"(?:车牌(?:号码|号)?|\b(?:licen[cs]e|number|registration)[ ]plates?(?:[ ](?:number|no\.?))?"
    rf"|\bplate[ ](?:number|no\.?)){_IS}"
    r"(?P<it>(?=[A-Z -]{0,7}[0-9])[A-Z0-9]{1,4}(?:[ -]?[A-Z0-9]{1,5}){1,2})(?![A-Za-z0-9])"
)


def find_emails(text: str) -> Iterator[Span]:
    """Addresses of e-mail. Cost: O(n)."""
    return _whole(_EMAIL, text, "email")


def find_passports(text: str) -> Iterator[Span]:
    """Passports' numbers where a word before them says so: their forms alone are those of many numbers."""
    return _named(_PASSPORT, text, "passport")


def find_qq(text: str) -> Iterator[Span]:
    """Numbers behind "QQ"; those of groups are nobody's own."""
    return _named(_QQ, text, "qq")


def find_wechat(text: str) -> Iterator[Span]:
    """Ids behind a word for WeChat, and those that WeChat gave out itself."""
    for match in _WECHAT.finditer(text):
        if match["id"] or match["like"]:
            yield Span(match.start("it"), match.end("it"), "wechat")
    yield from _whole(_WECHAT_OWN, text, "wechat")


def plate_finder(regions: Sequence[str]) -> re.Pattern[str] | None:
    """The forms of plates of those of the regions that have one of their own."""
    forms = [_PLATE[region] for region in regions if region in _PLATE]
    return re.compile("|".join(forms)) if forms else None


def find_plates(text: str, forms: re.Pattern[str] | None) -> Iterator[Span]:
    """Licence plates in one of the forms, and in any where a word before them says so."""
    if forms is not None:
        yield from _whole(forms, text, "licence_plate")
    yield from _named(_SAID_PLATE, text, "licence_plate")


def _whole(pattern: re.Pattern[str], text: str, kind: SpanKind) -> Iterator[Span]:
    return (Span(match.start(), match.end(), kind) for match in pattern.finditer(text))


def _named(pattern: re.Pattern[str], text: str, kind: SpanKind) -> Iterator[Span]:
    return (Span(match.start("it"), match.end("it"), kind) for match in pattern.finditer(text))
