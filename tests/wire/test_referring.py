"""Cues: words that refer to what was said before, in English and Chinese."""

from __future__ import annotations

import pytest

from offprompt.wire.referring import asks_for_wishes, is_question, refers_back, stands_on_the_last, states_wish


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Last time you said it was two coats.",
            "I mentioned before that she can't eat it.",
            "As I said, not on Sunday.",
        ),
        *(
            "What did I ask you to always do?",
            "Which one did you recommend?",
            "Didn\u2019t we agree on Thursday?",
            "REMIND ME",
        ),
        *(
            "上次你说要两遍",
            "我之前提到过",
            "之前那家店",
            "你推荐的那家",
            "还记得吗",
            "我让你以后怎么做来着",
            "说好的周四",
        ),
    ],
)
def test_what_refers_back_outright(text: str) -> None:
    assert refers_back(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Call me before ten.", "Bread the day before yesterday was dry.", "What is the capital of Mongolia?"),
        *(
            "thanks",
            "Sailed east.",
            "The pearlier shells.",
            "好的",
            "明天十点开会",
            "吃饭之前要洗手吗？",
            "火车前面有什么？",
            "蒙古的首都是哪里？",
        ),
    ],
)
def test_what_does_not(text: str) -> None:
    assert not refers_back(text)


@pytest.mark.parametrize(
    "text",
    ["Still not working.", "and the other one?", "What about Tuesday?", "还是不行", "那个呢？", "那另外一个呢？"],
)
def test_what_stands_on_the_turn_before(text: str) -> None:
    assert stands_on_the_last(text)


@pytest.mark.parametrize("text", ["thanks", "ok", "Distilled water", "好的", "谢谢"])
def test_what_stands_alone(text: str) -> None:
    assert not stands_on_the_last(text)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("What did I ask you to always do?", True),
        ("What did I tell you to never do with mails?", True),
        ("我让你以后都要怎么做来着？", True),
        ("我之前让你写邮件时避免什么？", True),
        ("Why does the cat always sleep?", False),
        ("猫为什么总是睡觉？", False),
    ],
)
def test_asking_for_standing_wishes(text: str, asks: bool) -> None:
    assert asks_for_wishes(text) is asks


@pytest.mark.parametrize(
    "text", ["From now on use miles.", "Never copy my boss.", "以后一律用海里", "永远不要抄送主管"]
)
def test_how_wishes_are_said(text: str) -> None:
    assert states_wish(text)


@pytest.mark.parametrize("text", ["Where is it", "Is it done?", "她住在哪里", "几号房"])
def test_questions(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize("text", ["Book it.", "订吧", "Somewhere warm"])
def test_no_questions(text: str) -> None:
    assert not is_question(text)
