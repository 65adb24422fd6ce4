"""Any text, any time, no exception, and no text that takes for ever."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offprompt.recall.derive import SLOTS, Turn, derive
from offprompt.recall.derive.rules import rules

WORDS = [
    *("I", "I'm", "my", "we", "name", "is", "call", "me", "you", "live", "in", "Rome", "love", "and", ",", ".", "?"),
    *("last", "Friday", "on", "5", "May", "2023", "at", "3pm", "not", "no longer", "anymore", "the", "a", "to", "!"),
    *(
        "allergic",
        "friend",
        "Jack",
        "'s",
        '"',
        "“",
        "”",
        "`",
        ">",
        "\n",
        "if",
        "said",
        "remember",
        "that",
        "from now on",
    ),
    *(
        "我",
        "叫",
        "住在",
        "北京",
        "喜欢",
        "的",
        "了",
        "，",
        "。",
        "？",
        "以后",
        "别",
        "昨天",
        "下周",
        "一",
        "朋友",
        "小",
        "对",
    ),
    *(
        "过敏",
        "岁",
        "是",
        "不",
        "再",
        "「",
        "」",
        "记住",
        "2",
        "点",
        "🙄",
        "\u0000",
        "\u2588",
        "👨‍👩‍👧",
        "İ",
        "ß",
        "\ud800",
    ),
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=60), st.sampled_from([" ", ""]))
@settings(max_examples=300)
def test_any_text_is_read(words: list[str], glue: str) -> None:
    text = glue.join(words)
    for one in derive([Turn("q", text, role="assistant"), Turn("t", text)], 1.7e9):
        assert one.text
        assert one.value
        assert one.slot == "" or one.slot in SLOTS
        assert (one.kind == "slot") == bool(one.slot)
        assert (one.event_at is None) == (one.precision == "")
        for quote in one.quotes:
            assert 0 <= quote.start < quote.end <= len(text)


@pytest.mark.parametrize("at", [0.0, -1e18, 1e18, -62135596800.0, 253402300799.0, math.inf])
def test_any_time_is_a_time(at: float) -> None:
    derive([Turn("t", "Last year I went to Rome. 去年我去了罗马。I have an exam next week.", at=at)], at)


def repeated() -> list[str]:
    """Units that rules go on over: their own words, glued and spaced."""
    data = Path(__file__).parents[2] / "data" / "derived" / "cases.jsonl"
    said = [json.loads(line)["said"] for line in data.read_text(encoding="utf-8").splitlines()]
    return [
        *said[::9],
        *WORDS,
        "I love a, ",
        "a b, ",
        "and and ",
        "oh! ",
        "oh,,,,",
        "I I ",
        "my my my ",
        "大家都",
        "以后都",
        "的的",
        "a'b ",
        "1:1 ",
    ]


@pytest.mark.parametrize("unit", repeated(), ids=lambda unit: ascii(unit)[:40])
def test_repetition_takes_no_longer_than_its_length(unit: str) -> None:
    """A pattern that tries all ways to read a text would not come back within the time that a test has."""
    for text in (unit * 4000, f"I love {unit * 400}X", f"我喜欢{unit * 400}X", f"Please remember {unit * 400}"):
        derive([Turn("t", text)], 1.7e9)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_pattern_goes_astray_on_words_of_its_own_language(language: str) -> None:
    listed = [*rules("en"), *rules("en", "mine"), *rules("en", "ask")]
    listed = listed if language == "en" else [*rules("zh"), *rules("zh", "ask")]
    runs = [word * 300 for word in ("a", "a ", "A ", "A. ", "的", "一个", "1", "very ", "my a ", "A's ")]
    for rule in listed:
        for start in ("", "loves ", "is ", "has a ", "works as a ", "对", "喜欢", "住在", "call me ", "please "):
            for run in runs:
                rule.value(start + run[:300] + "\n")


def test_only_the_beginning_of_a_long_turn_is_read() -> None:
    assert derive([Turn("t", "Hello there. " * 200 + "I live in Rome.")], 0.0) == []
    assert len(derive([Turn("t", "Hello there. " * 100 + "I live in Rome.")], 0.0)) == 1


@pytest.mark.data
@pytest.mark.parametrize("name", ["bfcl-memory/memory_customer.json", "bfcl-memory/memory_student.json"])
def test_real_turns_give_facts_that_stand_for_themselves(data: Path, name: str) -> None:
    rows = [json.loads(line) for line in (data / name).read_text(encoding="utf-8").splitlines()]
    turns = [
        Turn(f"{n}:{m}", turn[0]["content"], at=1.7e9)
        for n, row in enumerate(rows)
        for m, turn in enumerate(row["question"])
    ]
    found = derive(turns, 1.7e9)
    assert len(found) > len(turns) / 10
    assert all(one.text.startswith("The user") and one.text.endswith((".", "'")) for one in found)
