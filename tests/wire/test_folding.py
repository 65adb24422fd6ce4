"""Places in long texts that are escaped all through."""

from __future__ import annotations

import json
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote

import pytest

from offprompt.wire.leaks import LeakIndex

ENGLISH = "the red-brown fox-glove stands behind the well-built garden-shed"
CHINESE = "笔笔秋山锡羊车琴桥桥门雨茶诗牛砚，笔柴米鱼夏夏油棋诗木醋柴鸟夏棋云"


def once(text: str) -> str:
    return quote(text)


def twice(text: str) -> str:
    return quote(quote(text))


def json_once(text: str) -> str:
    return json.dumps(text)[1:-1]


def json_twice(text: str) -> str:
    return json_once(json_once(text))


def base64(text: str) -> str:
    return b64encode(text.encode()).decode()


@pytest.mark.parametrize("escape", [once, twice, json_once, json_twice])
@pytest.mark.parametrize("between", ["", "天地", "😀", "e\u0301 ", "１２ａ"])
def test_a_value_in_long_runs_of_escapes_is_found_where_it_stands(escape: Callable[[str], str], between: str) -> None:
    index, spelled = LeakIndex(), escape(CHINESE)
    index.add("k", CHINESE, secret=True)
    text = ""
    for at in range(40):
        text += escape(between * at) + "|" + spelled + "|"
    found = index.find(text)
    assert [text[leak.start : leak.end] for leak in found] == [spelled] * 40


EMOJI = "暗号👨\u200d👩\u200d👧\u200d👦🔑🐘🌊🔥🎲🎯🍀🏮👩\u200d🚀"
KOREAN = "비밀번호는 파란 코끼리 일곱 마리 그리고 흰 고래"
PATH = "the key is in C:\\ backup\\ notes\\ roof of the house"
KANA = "パスワードはガラスの蛙と銀のペンギンです"
SPELLED: dict[str, tuple[str, Callable[[str], str]]] = {
    "joiners in JSON": (EMOJI, lambda text: base64(json_once(text))),
    "joiners in percent": (EMOJI, lambda text: base64(once(text))),
    "marks of direction": (ENGLISH, "\u200f".join),
    "isolates": (KOREAN, "\u2069\u2067".join),
    "soft hyphens": (CHINESE, "\u00ad".join),
    "thin spaces": (ENGLISH, lambda text: text.replace(" ", "\u2009")),
    "wide spaces behind backslashes": (PATH, lambda text: text.replace(" ", "\u3000")),
    "wide spaces, escaped": (ENGLISH, lambda text: once(text.replace(" ", "\u3000"))),
    "en dashes": (ENGLISH, lambda text: text.replace("-", "\u2013")),
    "hyphens that do not break": (ENGLISH, lambda text: text.replace("-", "\u2011")),
    "variation selectors": (EMOJI, "\ufe0f".join),
    "Korean in single letters": (KOREAN, lambda text: unicodedata.normalize("NFD", text)),
    "Korean in whole letters": (unicodedata.normalize("NFD", KOREAN), lambda text: unicodedata.normalize("NFC", text)),
    "kana with marks of their own": (KANA, lambda text: unicodedata.normalize("NFD", text)),
}


@pytest.mark.parametrize("spelling", SPELLED)
def test_what_cannot_be_seen_or_is_composed_hides_nothing(spelling: str) -> None:
    value, spell = SPELLED[spelling]
    index = LeakIndex()
    index.add("k", value, secret=True)
    for before in ("", "word 天 ", "ㅎ한 글 " * 90):
        spelled = spell(value)
        found = index.find(f"{before}|{spelled}|")
        assert [(leak.name, leak.whole) for leak in found] == [("k", True)]
        assert found[0].start <= len(before) + 2
        assert found[0].end >= len(before) + len(spelled.rstrip("=")) - 1
