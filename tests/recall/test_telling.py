"""Telling words: what a text is about, in English and Chinese."""

from __future__ import annotations

import pytest

from offprompt.recall.telling import coverage, is_weak, searchable_terms, telling_terms, telling_words, words_with


@pytest.mark.parametrize(
    "text",
    [
        *(
            "thanks",
            "Thank you so much!",
            "ok, that's great",
            "Yes, please go on.",
            "Could you tell me more about it?",
            "",
        ),
        *("好的", "谢谢", "没问题，继续吧", "你能告诉我吗？", "！？"),
    ],
)
def test_some_texts_tell_of_nothing(text: str) -> None:
    assert telling_terms(text) == {}
    assert telling_words(text) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [("parked cars", "Parking the car"), ("stories", "story"), ("Marta's dogs", "marta dog"), ("planned", "plan")],
)
def test_endings_make_no_difference(one: str, other: str) -> None:
    assert telling_terms(one).keys() == telling_terms(other).keys()


def test_common_words_part_chinese_runs() -> None:
    assert set(telling_terms("我的车停在哪个车位？")) == {"车停", "车位"}
    assert set(telling_terms("请问小唐的咖啡")) == {"小唐", "咖啡"}


def test_a_common_character_within_a_word_does_not_part_it() -> None:
    assert "会计" in telling_terms("我的会计在哪？")
    assert is_weak("会计")
    assert not is_weak("咖啡")


def test_texts_are_found_by_single_characters_too() -> None:
    assert searchable_terms("咖啡")["啡"] == 1


@pytest.mark.parametrize(
    ("text", "words"), [("Which bay of the Kestrel garage?", 3), ("金桥商场的车位", 3), ("still not working", 0)]
)
def test_words_are_counted(text: str, words: int) -> None:
    assert telling_words(text) == words


def test_coverage_is_the_weight_held() -> None:
    assert coverage({"gate": 3.0, "code": 1.0}, ["gate", "gate", "yard"]) == 0.75
    assert coverage({}, ["gate"]) == 0.0


def test_the_words_of_a_text_as_they_stand_there() -> None:
    assert words_with("He parked two cars", {"park", "car"}) == "parked cars"
