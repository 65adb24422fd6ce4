"""Faults that sessions of hundreds of turns brought to light, each as small as it gets."""

from __future__ import annotations

import pytest

from offprompt.service.bound import BoundScope
from tests.service.conftest import NewTalk
from tests.service.talk import Wire, call, result, tool

SHORT = {"en": "What about part {0} of the plan?", "zh": "计划的第{0}部分怎么样了？"}
LONG = {"en": "Nothing of note happened on day {0}, as usual. ", "zh": "第{0}天一切照旧，没有什么值得记下的事。"}
FACT = {"en": "The reference of the stork file is FILE-1039. ", "zh": "白鹳文件的编号是FILE-1039。"}
QUERY = {"en": "stork plan", "zh": "白鹳计划"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_long_body_is_found_among_many_short_messages(talk: NewTalk, wire: Wire, language: str) -> None:
    one = talk(policy="stubs+window", tools=[tool("look", wire)], context_tokens=6000)
    one.turn("Look", call("look", "c1", text="x"))
    days = [LONG[language].format(day) for day in range(300)]
    one.messages += result(wire, ("c1", "".join([*days[:150], FACT[language], *days[150:]])))
    one.go("Seen.")
    for number in range(60):
        one.turn(SHORT[language].format(number), f"Good {number}. " * 8)
    reply = one.turn("Find it", call("mem_search", query=QUERY[language]), "Found.")
    assert reply.done
    assert "FILE-1039" in one.replies[-2].receipts[0].shown


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_split_value_is_found_among_many_short_ones(talk: NewTalk, alice: BoundScope, language: str) -> None:
    days = [LONG[language].format(day) for day in range(400)]
    alice.write("diary", "".join([*days[:200], FACT[language], *days[200:]]), split=True)
    for number in range(40):
        alice.write(f"part{number}", SHORT[language].format(number), policy="by_handle")
    one = talk()
    one.turn("Find it", call("mem_search", query=QUERY[language]), "Found.")
    name, tokens = one.replies[0].receipts[0].shown.splitlines()[0].split()
    assert (name, int(tokens) > 4000) == ("diary", True)


@pytest.mark.parametrize(("name", "question"), [("tone", "What is my tone?"), ("语气", "我的语气是什么？")])
def test_a_standing_wish_written_after_the_head_is_shown_when_asked_for(
    talk: NewTalk, alice: BoundScope, name: str, question: str
) -> None:
    one = talk()
    one.turn("Hello", "Hello.")
    assert alice.write(name, "dry and brief").policy == "card"
    one.turn(question, "Dry and brief.")
    assert "dry and brief" in one.sent
    one.turn("Thanks", "Welcome.")
    assert "dry and brief" not in one.sent
