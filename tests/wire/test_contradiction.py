"""What counts as a contradiction, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.wire.contradiction import Known, contradictions


def faults(answer: str, name: str, *values: str, asked: bool = True, names: tuple[str, ...] = ()) -> list[str]:
    return [one.fault for one in contradictions(answer, [Known(name, values, names, asked)])]


@pytest.mark.parametrize(
    ("answer", "name", "value"),
    [
        ("Your name is Ming.", "user_name", "Ming"),
        ("Your name is **Ming Li**!", "user_name", "Ming"),
        ("你叫小明。", "user_name", "小明"),
        ("ＭＩＮＧ it is.", "user_name", "Ming"),
        ("You live in Shanghai, I don't know the street.", "city", "Shanghai is where she lives since May"),
        ("你住在上海市。", "city", "上海"),
        ("你住在上海。我不知道具体地址。", "home_city", "上海"),
        ("Your birthday is May 3, 2024.", "birthday", "2024-05-03"),
        ("The budget is 30,000 yuan.", "budget", "30000"),
        ("预算是30000元。", "预算", "30,000"),
        ('{"floor": 7}', "floor", '{"floor":7}'),
    ],
)
def test_an_answer_that_holds_the_value_fits(answer: str, name: str, value: str) -> None:
    assert faults(answer, name, value) == []


@pytest.mark.parametrize(
    ("answer", "name", "value"),
    [
        ("Your name is Bob.", "user_name", "Ming"),
        ("Your name is Bob, not Ming.", "user_name", "Ming"),
        ("Your name's Anna.", "user_name", "Ann"),
        ("您的名字是小王。", "user_name", "小明"),
        ("你叫小王，不是小明。", "user_name", "小明"),
        ("You live in Beijing.", "home_city", "Shanghai"),
        ("你现在住在北京。", "home_city", "上海"),
        ("The budget is 50,000 yuan.", "budget", "30000"),
        ("预算是50000元。", "预算", "30000"),
        ("Your favourite colour is red.", "favourite_colour", "blue"),
        ("喜欢的颜色：红色", "喜欢的颜色", "蓝色"),
    ],
)
def test_another_value_is_stated(answer: str, name: str, value: str) -> None:
    assert faults(answer, name, value) == ["states_other"]
    assert faults(answer, name, value, asked=False) == ["states_other"]


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know.",
        "Not found.",
        "I have no record of that.",
        "You haven't told me.",
        "Your city is not stored.",
        "没有记录。",
        "不知道你住哪。",
        "我没有找到相关信息。",
        "（无记录）",
        "(not found)",
    ],
)
def test_nothing_is_known_it_says(answer: str) -> None:
    assert faults(answer, "city", "Rotterdam", asked=False) == ["says_unknown"]


def test_an_answer_about_something_else_is_only_told_where_it_was_asked_for() -> None:
    assert faults("Nice weather.", "city", "Rotterdam") == ["not_used"]
    assert faults("Nice weather.", "city", "Rotterdam", asked=False) == []


def test_what_cannot_be_compared_is_not_called_another_value() -> None:
    assert faults("你住在上海。", "city", "Shanghai") == ["not_used"]
    assert faults("Your status is that half is done.", "status", "half of all the old files are converted") == []
    assert faults("Your city is a beautiful place.", "city", "Rotterdam", asked=False) == []
    assert faults("My city is Beijing.", "city", "Rotterdam", asked=False) == []


def test_other_names_of_a_slot_count() -> None:
    assert faults("Your residence is Utrecht.", "place_1", "Rotterdam", names=("residence",)) == ["states_other"]


def test_any_version_of_the_turn_fits_and_no_value_says_nothing() -> None:
    assert faults("You live in Utrecht.", "city", "Rotterdam", "Utrecht") == []
    assert faults("I don't know.", "city") == []


def test_the_quote_is_the_answers_own_words() -> None:
    (one,) = contradictions("Well. Your name is Bob. Bye.", [Known("user_name", ("Ming",))])
    assert one.quote == "your name is bob"


@given(st.text(max_size=80), st.text(min_size=1, max_size=20), st.booleans())
def test_whatever_stands_there_it_raises_nothing_and_the_value_itself_is_no_fault(
    around: str, value: str, asked: bool
) -> None:
    contradictions(around, [Known("user_name", (value,), (value,), asked)])
    if value.strip():
        assert faults(f"It is: {value} .", "slot", value, asked=asked) == []
