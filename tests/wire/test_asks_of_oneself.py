"""Which words ask for something that concerns the user."""

from __future__ import annotations

import pytest

from offprompt.wire.referring import asks_of_oneself


@pytest.mark.parametrize(
    "text",
    [
        "Where do I live?",
        "Thanks. And what was my flight's number?",
        "Tell me what my sister is allergic to",
        "Which paw did our dog break?",
        "我住在哪里？",
        "告诉我，我的航班是几点？",
        "我们家的狗叫什么？",
    ],
)
def test_what_concerns_the_user(text: str) -> None:
    assert asks_of_oneself(text)


@pytest.mark.parametrize(
    "text",
    [
        "I live in Oslo.",
        "What is your name?",
        "Can you tell me what to cook?",
        "How can I sleep better?",
        "Tell me of rain",
        "What is the capital of Peru?",
        "I like trains. How fast are they?",
        "你叫什么名字？",
        "我应该怎么办？",
        "告诉我今天星期几？",
        "我住在成都。",
    ],
)
def test_what_does_not(text: str) -> None:
    assert not asks_of_oneself(text)
