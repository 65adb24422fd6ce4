"""Values in texts for people: secrets always, others whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.wire.hiding import Hidden, Hider


@pytest.mark.parametrize(
    "text",
    [
        "it is Tee-grün-77",
        "IT IS TEE-GRÜN-77",
        json.dumps({"word": "Tee-grün-77"}),
        json.dumps(json.dumps("Tee-grün-77", ensure_ascii=False)),
        "xTee-grün-77x",
    ],
)
def test_a_secret_is_hidden_in_every_form(text: str) -> None:
    for secrets_only in (True, False):
        hidden = Hider([Hidden("word", "Tee-grün-77", secret=True)], secrets_only=secrets_only)(text)
        assert "77" not in hidden
        assert "[[mem:word]]" in hidden


def test_the_texts_inside_a_secret_are_hidden_too() -> None:
    hide = Hider([Hidden("login", {"user": "alice9", "codes": [77812, "x"]}, secret=True)])
    assert hide("alice9 with 77812 and x") == "[[mem:login]] with [[mem:login]] and x"
    assert hide('{"user":"alice9","codes":[77812,"x"]}') == "[[mem:login]]"


def test_others_are_hidden_whole_where_no_word_goes_on() -> None:
    hide = Hider([Hidden("user_name", "Ann"), Hidden("city", "上海"), Hidden("tiny", "no")])
    assert hide("Ann, Anna and Joann in 上海市: no") == "[[mem:user_name]], Anna and Joann in [[mem:city]]市: no"
    assert Hider([Hidden("user_name", "Ann")], secrets_only=True)("Ann") == "Ann"


def test_the_longest_value_goes_first_and_handles_stay() -> None:
    hide = Hider([Hidden("first", "Ming"), Hidden("full", "Ming the Merciless"), Hidden("x", "full")])
    assert hide("Ming the Merciless, Ming, [[mem:full]]") == "[[mem:full]], [[mem:first]], [[mem:full]]"


def test_long_values_and_values_with_patterns_in_them() -> None:
    long, odd = "line (of) [a] long* text. " * 40, "a.b*c(d"
    hide = Hider([Hidden("report", long), Hidden("odd", odd), Hidden("never", long[::-1], secret=True)])
    assert hide(f"<{long}|{odd}|{long[::-1]}|axbbc(d>") == "<[[mem:report]]|[[mem:odd]]|[[mem:never]]|axbbc(d>"


def test_a_document_is_hidden_through_and_through() -> None:
    hide = Hider([Hidden("pin", 4711, secret=True), Hidden("motto", "slow is smooth")])
    given: dict[str, Any] = {"a": [4711, "pin 4711", True, None, 47110.5], "slow is smooth": {"b": "slow is smooth!"}}
    hidden = hide.deep(given)
    assert hidden["a"][:4] == ["[[mem:pin]]", "pin [[mem:pin]]", True, None]
    assert hidden["[[mem:motto]]"] == {"b": "[[mem:motto]]!"}
    assert given["a"][0] == 4711


def test_a_name_that_is_none_still_hides() -> None:
    assert Hider([Hidden("not a name!", "something long")])("something long") == "[value]"


@given(st.text(min_size=4, max_size=30), st.text(max_size=40), st.text(max_size=40))
def test_no_secret_is_left_whatever_it_is(value: str, before: str, after: str) -> None:
    hidden = Hider([Hidden("word", value, secret=True)])(before + value + after)
    assert value not in hidden.replace("[[mem:word]]", "\0") or value in "[[mem:word]]"
