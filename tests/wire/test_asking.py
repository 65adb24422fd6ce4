"""Which slots a user's words ask for."""

from __future__ import annotations

import pytest

from offprompt.wire.asking import asked_for

SLOTS: dict[str, list[str]] = {
    "user_name": [],
    "agent_name": [],
    "home_city": [],
    "project_deadline": [],
    "用户偏好的语言": [],
    "favorite_colors": [],
    "api_base_url": [],
    "meeting_notes": ["周会", "weekly"],
    "workPhone": [],
}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is my name?", {"user_name": "identity"}),
        ("what's my name again", {"user_name": "identity"}),
        ("Do you remember who I am? Who am I?", {"user_name": "identity"}),
        ("What's your name?", {"agent_name": "identity"}),
        ("我叫什么名字？", {"user_name": "identity"}),
        ("还记得我的名字吗", {"user_name": "identity"}),
        ("你叫什么？", {"agent_name": "identity"}),
        ("what is user_name?", {"user_name": "name"}),
        ("Which city do I live in?", {"home_city": "alias place"}),
        ("我住在哪里？", {"home_city": "alias place"}),
        ("When is the deadline of the project?", {"project_deadline": "name"}),
        ("我一般用什么语言？", {"用户偏好的语言": "alias language"}),
        ("What is my favourite color?", {"favorite_colors": "name"}),
        ("call it with the api base url", {"api_base_url": "name"}),
        ("周会说了什么", {"meeting_notes": "alias 周会"}),
        ("what did we say in the weekly", {"meeting_notes": "alias weekly"}),
        ("dial my work phone", {"workPhone": "name"}),
    ],
)
def test_a_slot_is_asked_for_by_identity_name_or_alias(text: str, names: dict[str, str]) -> None:
    assert asked_for(text, SLOTS) == names


@pytest.mark.parametrize(
    "text",
    [
        "What can't I eat?",
        "what can i not eat",
        "Any food restrictions I told you about?",
        "有什么不能吃的",
        "我不能吃什么？",
        "有没有不能吃的东西",
        "我有哪些忌口",
    ],
)
def test_what_may_not_be_eaten_asks_for_allergies(text: str) -> None:
    assert asked_for(text, {"allergies": [], "user_name": []}) == {"allergies": "alias diet"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Tell me a joke.",
        "My name is Ann.",
        "我的名字是小明。",
        "Name three rivers.",
        "Where do you live?",
        "The user is always right.",
        "今天天气怎么样？",
        "rename the variable",
        "他叫什么？",
        "what is the name of this file",
    ],
)
def test_other_words_ask_for_nothing(text: str) -> None:
    assert asked_for(text, SLOTS) == {}


def test_the_whole_of_a_long_text_is_looked_at() -> None:
    assert asked_for("so " * 20_000 + "what is my name?", SLOTS) == {"user_name": "identity"}
