"""Models without native calls: tools in the system text, calls in the replies' text, the rest as with any model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest

import offprompt
from offprompt import Agent, UnsupportedError, WithoutTools
from offprompt.records import canonical
from offprompt.service.offprompt import Offprompt
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.wire.text_calls import call_reply, text_request
from tests.service.test_agent import Played, asked, weather

CALLS: list[Literal["text", "schema"]] = ["text", "schema"]
ways = pytest.mark.parametrize("way", ["run", "arun", "stream", "astream"])


@pytest.fixture
def memory() -> Iterator[Offprompt]:
    with offprompt.open(":memory:") as opened:
        yield opened


def called(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def answered(text: str, calls: str) -> str:
    return json.dumps({"answer": text}, ensure_ascii=False) if calls == "schema" else text


@pytest.mark.parametrize("calls", CALLS)
@ways
def test_memory_and_tools_work_without_native_calls(
    memory: Offprompt, way: str, calls: Literal["text", "schema"]
) -> None:
    memory.scope(user="alice").write("city", "Lisbon")
    model = Played(
        called("mem_read", slot="city"),
        called("weather", city="[[mem:city]]", days=2),
        answered("In [[mem:city]] it rains.", calls),
        answered("Yes.", calls),
    )
    agent = Agent(memory, WithoutTools(StandInModel(model), calls=calls), tools=[weather], instructions="Be short.")
    reply = asked(agent, way, "How is the weather where I live?")
    assert reply.text == "In Lisbon it rains."
    assert [(each.arguments, each.ok) for each in reply.tools] == [('{"city":"Lisbon","days":2}', True)]
    assert asked(agent, way, "Sure?").text == "Yes."
    last = model.asked[-1]
    assert "tools" not in last
    assert {each["role"] for each in last["messages"]} == {"system", "user", "assistant"}
    assert '{"name":"weather","arguments":{"city":"[[mem:city]]","days":2}}' in str(last["messages"])
    assert "[result of weather]" in str(last["messages"])
    assert ("response_format" in last) == (calls == "schema")
    for before, after in zip(model.asked, model.asked[1:], strict=False):
        assert canonical(after["messages"][0]) == canonical(before["messages"][0]), "the system text changed"


@ways
def test_what_cannot_be_read_is_answered(memory: Offprompt, way: str) -> None:
    model = Played('{"name":"weather","arguments":{"city":', '{"name":"mem_read","arguments":"city"}', "I give up.")
    agent = Agent(memory, WithoutTools(StandInModel(model)), tools=[weather])
    reply = asked(agent, way, "Weather?")
    assert reply.text == "I give up."
    assert [each.ok for each in reply.tools] == [False]
    assert "not JSON" in reply.tools[0].result


def test_a_schema_is_what_a_reply_may_be() -> None:
    tool: dict[str, Any] = {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
    }
    payload: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "你好"}], "tools": [tool]}
    request = text_request(payload, "schema")
    shapes = request["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [list(each["properties"]) for each in shapes] == [["answer"], ["name", "arguments"]]
    assert request["messages"][0]["role"] == "system"
    assert payload["messages"] == [{"role": "user", "content": "你好"}]


def test_a_plain_answer_under_a_schema_is_an_answer() -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]}
    assert call_reply(reply, {"messages": [], "tools": []}, "schema")["choices"][0]["message"]["content"] == "Hello."


def test_other_wires_have_calls() -> None:
    with pytest.raises(UnsupportedError, match="have native calls"):
        WithoutTools(StandInModel(Played(), wire="anthropic"))
