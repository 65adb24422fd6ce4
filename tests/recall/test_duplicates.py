"""What says the same, and what only looks like it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from offprompt.recall.docs import Doc, Query, analyse
from offprompt.recall.duplicates import normalised
from offprompt.recall.scope_index import ScopeIndex

PAIRS = Path(__file__).parent.parent / "data" / "duplicates" / "pairs.jsonl"


def pairs(*, same: bool) -> list[Any]:
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(row["left"], row["right"]) for row in rows if "left" in row and row["same"] == same]


@pytest.mark.parametrize(("left", "right"), pairs(same=False))
def test_what_only_looks_alike_is_kept_apart(left: str, right: str) -> None:
    assert normalised(left) != normalised(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("I can't eat fish", "I cannot eat fish."),
        ("I’m a nurse", "I am a nurse"),
        ("Well, I really like tea!", "i like tea"),
        ("Please note that the invoice is due", "The invoice is due"),
        ("我很喜欢喝茶", "我喜欢喝茶。"),
        ("我女儿叫小雨", "我的女儿叫小雨"),
        ("我用 Python 写程序", "我用Python写程序"),
        ("Ｉ　ｌｉｋｅ tea", "I like tea"),
    ],
)
def test_words_that_add_nothing_make_no_difference(left: str, right: str) -> None:
    assert normalised(left) == normalised(right)


@pytest.mark.parametrize("text", ["!!!", "really", "很", "…", "“”", "啊", "I", "不很", "well,"])
def test_something_is_left_of_every_text(text: str) -> None:
    assert normalised(text)
    assert normalised(normalised(text)) == normalised(text)


def test_hits_that_only_look_alike_are_both_shown() -> None:
    made = ScopeIndex()
    said = ["I write C++ every day", "I write C# every day", "I write C++ every day!"]
    made.add(Doc(doc_id=str(at), content=analyse(text)) for at, text in enumerate(said))
    found = made.search(Query(text="what do I write every day?"))
    assert (len(found.hits), found.repeated) == (2, 1)
