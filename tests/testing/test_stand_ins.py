"""Stand-ins: what they understand, that they know only the request, and that each damage comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from offprompt.records import compact
from offprompt.service.replay.formats import conversation_of
from offprompt.testing.log_turns import LoggedStep, LoggedTurn, log_turns, turns_of
from offprompt.testing.mangler import ARGUMENTS, HANDLES, IN_TEXT, MEMBERS, WRONG_TOOL, Mangler
from offprompt.testing.scripted import UNKNOWN
from offprompt.testing.stand_ins import Caller, Reader, wish_of
from offprompt.testing.strict_replies import Said, SaidCall

WISHES = [
    ("My gate code is 4711.", "我的门禁码是4711。", "state"),
    ("What is my gate code?", "我的门禁码是什么？", "ask"),
    ("Forget my gate code.", "忘掉我的门禁码。", "forget"),
    ("Send my gate code to the desk.", "把我的门禁码发给前台。", "send"),
    ("Sign in with my gate code.", "用我的门禁码登录。", "sign_in"),
    ("What is the reference of the heron file?", "苍鹭文件的编号是什么？", "find"),
]


def request(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(("english", "chinese", "wants"), WISHES)
def test_what_the_user_wants(english: str, chinese: str, wants: str) -> None:
    one, two = wish_of(english), wish_of(chinese)
    assert one is not None
    assert two is not None
    assert (one.wants, two.wants) == (wants, wants)
    assert (one.slot, two.slot) == (("heron_file", "苍鹭文件") if wants == "find" else ("gate_code", "门禁码"))
    assert (one.value, two.value) == (("4711", "4711") if wants == "state" else ("", ""))
    assert wish_of("How would you bake bread?") is None


def test_a_reader_answers_from_what_stands_in_the_request() -> None:
    shown = "<memory n>\ngate_code (app, 2026-11-30): 4711\n</memory n>"
    asked = user("What is my gate code?")
    assert Reader()(**request(asked)).text == UNKNOWN[0]
    assert Reader()(**request(user(shown), asked)).text == "Your gate code is 4711."
    assert Reader()(**request(user("My gate code is 8."), user("My gate code is 9."), asked)).text.endswith("is 9.")
    told = user("For later: The reference of the heron file is FILE-7.")
    assert "FILE-7" in Reader()(**request(told, user("What is the reference of the heron file?"))).text


def test_a_caller_saves_reads_and_passes_handles_on() -> None:
    said = [Caller()(**request(user(english))) for english, _, _ in WISHES[:5]]
    assert [call for each in said for call in each.calls] == [
        SaidCall("mem_write", {"slot": "gate_code", "value": "4711"}),
        SaidCall("mem_read", {"slot": "gate_code"}),
        SaidCall("mem_forget", {"slot": "gate_code"}),
        SaidCall("send_note", {"to": "desk", "text": "gate code: [[mem:gate_code]]"}),
        SaidCall("sign_in", {"token": "[[mem:gate_code]]"}),
    ]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_each_damage_comes(wire: Literal["openai", "anthropic"]) -> None:
    model = Mangler(wire)
    for _ in range(60):
        model(**request(user("My gate code is 4711.")))
        model(**request(user("Sign in with my gate code.")))
    native = ARGUMENTS if wire == "openai" else ()
    assert set(model.done) == {*IN_TEXT, *MEMBERS, *HANDLES, WRONG_TOOL, *native}


def test_turns_of_a_log_go_with_the_results_of_their_calls() -> None:
    function = {"name": "look", "arguments": '{"at": 1}'}
    log = [
        {"role": "system", "content": "s"},
        user("One"),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
        {"role": "assistant", "content": "It is there."},
        user("Two"),
        {"role": "assistant", "content": "Yes."},
        user("Three, which nobody answers"),
    ]
    call = SaidCall("look", compact({"at": 1}))
    assert list(turns_of(conversation_of(log, "log"))) == [
        LoggedTurn("One", (LoggedStep(Said("", (call,)), ("seen",)), LoggedStep(Said("It is there.")))),
        LoggedTurn("Two", (LoggedStep(Said("Yes.")),)),
    ]


@pytest.mark.data
@pytest.mark.parametrize("language", ["en", "zh"])
def test_real_logs_have_500_turns(data: Path, language: Literal["en", "zh"]) -> None:
    turns = list(log_turns(data, language))
    assert len(turns) >= 500
    assert all(
        step.said.calls and len(step.said.calls) == len(step.results) for turn in turns for step in turn.steps[:-1]
    )
    assert not any(turn.steps[-1].said.calls for turn in turns)
