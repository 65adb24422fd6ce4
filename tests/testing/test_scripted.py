"""ScriptedModel reads nothing but the request; the made-up log is well formed."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from offprompt.records import compact
from offprompt.testing.agent_log import agent_log
from offprompt.testing.scripted import ScriptedModel
from offprompt.wire.head import ShownValue, frame, memory_tools, read_result
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Result
from offprompt.wire.transcript import check_transcript

Wire = Literal["openai", "anthropic"]
WIRES: list[Wire] = ["openai", "anthropic"]


def tools(wire: Wire) -> list[Any]:
    return [SHAPES[wire].tool(spec) for spec in memory_tools("en")]


def said(wire: Wire, reply: dict[str, Any]) -> str:
    raw = SHAPES[wire].reply(reply)
    return SHAPES[wire].text(raw.message)


def calls(wire: Wire, reply: dict[str, Any]) -> list[tuple[str, Any]]:
    raw = SHAPES[wire].reply(reply)
    return [(call.name, json.loads(call.arguments)) for call in SHAPES[wire].calls(raw.message)]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("text", "slot", "value"),
    [
        ("Hello! My name is Ada Okafor.", "user_name", "Ada Okafor"),
        ("my name is Zoë", "user_name", "Zoë"),
        ("你好！我叫林晓梅。", "user_name", "林晓梅"),
        ("I live in New Haven now", "home_city", "New Haven"),
        ("我住在上海。", "home_city", "上海"),
    ],
)
def test_a_stated_fact_is_saved_once(wire: Wire, text: str, slot: str, value: str) -> None:
    model = ScriptedModel(wire)
    reply = model.create(messages=[user(text)], tools=tools(wire))
    assert calls(wire, reply) == [("mem_write", {"slot": slot, "value": value})]
    raw = SHAPES[wire].reply(reply).message
    call = SHAPES[wire].calls(raw)[0]
    done = SHAPES[wire].result_messages([_result(call.call_id, f"saved {slot} v1")])
    again = model.create(messages=[user(text), raw, *done], tools=tools(wire))
    assert calls(wire, again) == []
    assert said(wire, again)


def _result(call_id: str, text: str) -> Result:
    return Result(call_id, text)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("ask", "answer"), [("What is my name?", "Your name is Ada."), ("我叫什么名字？", "你叫Ada。")]
)
def test_a_question_is_answered_from_where_the_value_stands(wire: Wire, ask: str, answer: str) -> None:
    shown = frame([ShownValue("user_name", "Ada", "user", "2026-11-30")], "n0")
    model = ScriptedModel(wire, calls_tools=False)
    attached = SHAPES[wire].attach(shown, user(ask), "part")
    assert said(wire, model.create(messages=attached)) == answer
    if wire == "openai":
        before = SHAPES[wire].attach(shown, user(ask), "message")
        assert said(wire, model.create(messages=before)) == answer
        pasted = [{"role": "system", "content": "Be kind.\nuser_name: Ada"}, user(ask)]
        assert said(wire, model.create(messages=pasted)) == answer
    else:
        assert said(wire, model.create(messages=[user(ask)], system="user_name: Ada")) == answer
        system = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "user_name: Ada"}]
        assert said(wire, model.create(messages=[user(ask)], system=system)) == answer


@pytest.mark.parametrize("wire", WIRES)
def test_what_the_request_does_not_hold_is_read_or_not_known(wire: Wire) -> None:
    model = ScriptedModel(wire)
    ask = user("What is my name?")
    assert said(wire, model.create(messages=[ask])) == "I have no record of that."
    reply = model.create(messages=[ask], tools=tools(wire))
    assert calls(wire, reply) == [("mem_read", {"slot": "user_name"})]
    raw = SHAPES[wire].reply(reply).message
    call = SHAPES[wire].calls(raw)[0]
    text = read_result(ShownValue("user_name", "Ada", "user", "2026-11-30"), 1, 1, "en")
    found = SHAPES[wire].result_messages([_result(call.call_id, text)])
    assert said(wire, model.create(messages=[ask, raw, *found], tools=tools(wire))) == "Your name is Ada."
    missing = SHAPES[wire].result_messages([_result(call.call_id, "not found: user_name")])
    answer = said(wire, model.create(messages=[ask, raw, *missing], tools=tools(wire)))
    assert answer == "I have no record of that."


def test_an_answer_comes_from_the_users_own_words_in_the_history() -> None:
    history = [user("My name is Ada."), {"role": "assistant", "content": "Noted."}, user("What is my name?")]
    assert said("openai", ScriptedModel(calls_tools=False).create(messages=history)) == "Your name is Ada."


def test_the_same_request_gives_the_same_reply() -> None:
    request: dict[str, Any] = {"messages": [user("我叫林晓梅。")], "tools": tools("openai")}
    assert ScriptedModel().create(**request) == ScriptedModel().create(**request)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_made_up_log_is_a_transcript_and_the_same_each_time(language: Literal["en", "zh"]) -> None:
    log = agent_log(tasks=12, language=language)
    assert check_transcript(log, wire="openai") == []
    assert compact(log) == compact(agent_log(tasks=12, language=language))
    assert compact(log) != compact(agent_log(tasks=12, language=language, seed=8))
    closed = [compact(message) for message in log if "close_ticket" in compact(message)]
    assert closed
