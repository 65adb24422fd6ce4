"""Places in long texts that are escaped all through."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from offprompt.wire.leaks import LeakIndex

CHINESE = "笔笔秋山锡羊车琴桥桥门雨茶诗牛砚，笔柴米鱼夏夏油棋诗木醋柴鸟夏棋云"


def once(text: str) -> str:
    return quote(text)


def twice(text: str) -> str:
    return quote(quote(text))


def json_once(text: str) -> str:
    return json.dumps(text)[1:-1]


def json_twice(text: str) -> str:
    return json_once(json_once(text))


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
