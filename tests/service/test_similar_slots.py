"""Slots that are asked for in other words than their names have."""

from __future__ import annotations

from typing import Final

import pytest

import offprompt
from offprompt.service.bound import BoundScope
from tests.service.conftest import NewTalk

ENGLISH: Final = {
    "seat": "aisle",
    "favorite_editor": "vim",
    "pet": "a beagle called Bello",
    "coffee": "oat flat white",
    "blood_type": "O negative",
    "shoe_size": "43",
    "wifi_router": "Fritzbox in the hall",
    "gym_days": "Tuesday and Thursday",
    "favorite_color": "green",
}
CHINESE: Final = {
    "座位": "靠过道",
    "宠物": "一只叫豆豆的猫",
    "咖啡": "燕麦拿铁",
    "鞋码": "43",
    "健身日": "周二和周四",
    "最喜欢的颜色": "绿色",
    "结婚纪念日": "6月12日",
}
ASKED: Final = [
    ("Which text editor do I use?", "vim"),
    ("What is my dog called?", "beagle"),
    ("Which blood group am I?", "O negative"),
    ("What size are my trainers?", "43"),
    ("What colour do I like best?", "green"),
    ("我坐飞机喜欢坐哪儿？", "靠过道"),
    ("我的猫叫什么？", "豆豆"),
    ("我穿多大的鞋？", "43"),
    ("我哪几天去锻炼？", "周二"),
    ("我哪天结的婚？", "6月12日"),
]
NOT_ASKED: Final = [
    "What should I cook tonight?",
    "How do I sort a list in Python?",
    "Where can I buy stamps?",
    "What did I do wrong in this function?",
    "How much tax do I pay in Spain?",
    "Why am I always tired?",
    "Where do I put the config file?",
    "Thanks, that is all.",
    "Bello and I go out now.",
    "我今晚该做什么菜？",
    "我怎么给列表排序？",
    "我为什么总是累？",
    "我在哪里能买到邮票？",
    "我这段代码哪里错了？",
    "好的，谢谢。",
]


def fill(scope: BoundScope, said: str) -> None:
    """The slots in the language of what is said."""
    for name, value in (ENGLISH if said.isascii() else CHINESE).items():
        scope.write(name, value, policy="when_asked")


@pytest.mark.parametrize(("question", "value"), ASKED)
def test_a_question_in_other_words_shows_the_closest_slot_alone(
    alice: BoundScope, talk: NewTalk, question: str, value: str
) -> None:
    fill(alice, question)
    one = talk()
    one.turn(question, "I see.")
    assert value in one.sent
    shown = one.session.ledger()[-1].shown
    assert [each.why for each in shown] in (["similar"], [f"alias {shown[0].name}"], ["name"])
    one.turn("Thanks.", "You are welcome.")
    assert value not in one.sent.replace(question, "")


@pytest.mark.parametrize("said", NOT_ASKED)
def test_words_that_ask_for_no_slot_show_none(alice: BoundScope, talk: NewTalk, said: str) -> None:
    fill(alice, said)
    one = talk()
    one.turn(said, "I see.")
    assert one.session.ledger()[-1].shown == ()


def test_without_an_embedder_names_decide(talk: NewTalk) -> None:
    with offprompt.open(":memory:", embedder="none") as memory:
        bob = memory.scope(user="bob")
        bob.write("pet", "a beagle called Bello", policy="when_asked")
        one = talk(scope=bob)
        one.turn("What is my dog called?", "I do not know.")
        assert one.session.ledger()[-1].shown == ()


def test_a_secret_is_never_close(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("dog", "Bello the beagle", policy="never")
    one = talk()
    one.turn("What is my hound called?", "I do not know.")
    assert "Bello" not in one.sent
