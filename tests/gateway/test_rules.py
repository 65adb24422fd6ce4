"""What a client says beside its words holds for each request of a turn; what is counted is what would be sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offprompt.records import MEMORY_ACTIONS
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway
from tests.service.talk import Wire, call, flat, messages_of, tool

REQUIRED: dict[Wire, Any] = {"openai": "required", "responses": "required", "anthropic": {"type": "any"}}
NONE: dict[Wire, Any] = {"openai": "none", "responses": "none", "anthropic": {"type": "none"}}
OVER: dict[Wire, Callable[[Any], bool]] = {
    "openai": lambda reply: reply.choices[0].finish_reason == "stop",
    "responses": lambda reply: reply.status == "completed",
    "anthropic": lambda reply: reply.stop_reason == "end_turn",
}
NAMED: dict[Wire, Any] = {
    "openai": {"type": "function", "function": {"name": "look"}},
    "responses": {"type": "function", "name": "look"},
    "anthropic": {"type": "tool", "name": "look"},
}


def test_where_a_call_is_required_the_model_is_asked_until_it_calls_the_clients_tool(
    gateway: NewGateway, wire: Wire, streams: bool
) -> None:
    running = gateway(*script(wire, call("mem_read", "m1", slot="city"), call("look", "c1", text="a")))
    running.alice.write("city", "Ulm")
    options: dict[str, Any] = {"tools": [tool("look", wire)], "tool_choice": REQUIRED[wire]}
    with Client(running, wire, streams=streams, **options) as client:
        assert [each[0] for each in client.calls(client.say("Look"))] == ["c1"]
    assert [request["tool_choice"] for request in running.upstream.requests] == [REQUIRED[wire]] * 2
    assert running.upstream.faults == []


@pytest.mark.parametrize("choice", [NAMED, NONE], ids=["named", "none"])
def test_what_may_be_called_goes_on_as_the_client_says(
    gateway: NewGateway, wire: Wire, choice: dict[Wire, Any]
) -> None:
    said = call("look", "c1", text="a") if choice is NAMED else "It is Ulm."
    running = gateway(*script(wire, said))
    running.alice.write("home_city", "Ulm an der Donau")
    with Client(running, wire, tools=[tool("look", wire)], tool_choice=choice[wire]) as client:
        client.say("What is my home city?")
    (request,) = running.upstream.requests
    assert request["tool_choice"] == choice[wire]
    assert "Ulm an der Donau" in flat(request), "it is shown, whatever may be called"
    assert running.upstream.faults == []


def test_a_model_that_only_asks_its_memory_is_stopped(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    running = gateway(*script(wire, *[call("mem_search", f"m{at}", query=f"number {at}") for at in range(20)]))
    running.alice.write("city", "Ulm")
    with Client(running, wire, streams=streams) as client:
        reply = client.say("Where do I live?")
        assert client.calls(reply) == []
        assert "mem_" not in str(client.messages)
        assert OVER[wire](reply), "the client waits for no call"
    assert len(running.upstream.requests) <= 8
    assert running.upstream.faults == []


def test_tokens_are_counted_of_what_would_be_sent_and_nothing_is_stored(gateway: NewGateway) -> None:
    running = gateway(*script("anthropic", "Hello."))
    running.alice.write("home_city", "Ulm an der Donau")
    counted: list[dict[str, Any]] = []

    def count(request: dict[str, Any]) -> dict[str, Any]:
        counted.append(request)
        return {"input_tokens": 42}

    running.upstream.answers["POST /v1/messages/count_tokens"] = count
    with Client(running, "anthropic") as client:
        asked: list[Any] = [{"role": "user", "content": "What is my home city?"}]
        given: dict[str, Any] = {"model": "claude-sonnet-5-5", "messages": asked}
        assert client.anthropic.messages.count_tokens(**given).input_tokens == 42
        assert not list(running.alice.memories.sessions())
        assert [slot.uses for slot in running.alice.slots.list()] == [0]
        client.say("What is my home city?")
    (sent,) = [each for each in running.upstream.requests if "max_tokens" in each]
    assert "max_tokens" not in counted[0]
    assert messages_of(counted[0])[-1]["content"][-1] == messages_of(sent)[-1]["content"][-1]
    assert "Ulm an der Donau" in flat(counted[0])
    assert counted[0]["tools"] == sent["tools"]


def test_unknown_fields_go_on_as_they_are(gateway: NewGateway) -> None:
    more: dict[str, Any] = {
        "seed": 7,
        "stop": ["END"],
        "parallel_tool_calls": False,
        "max_tokens": 50,
        "metadata": {"a": "b"},
    }
    running = gateway(*script("openai", call("mem_read", "m1", slot="city"), "Ulm."))
    running.alice.write("city", "Ulm")
    with Client(running, "openai", tools=[tool("look", "openai")], **more) as client:
        assert text_of(client.say("Where?"), "openai") == "Ulm."
    for request in running.upstream.requests:
        assert {key: request[key] for key in more} == more


def test_marks_and_unknown_fields_of_system_text_and_tools_stay_and_ours_stand_behind(
    gateway: NewGateway, streams: bool
) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief.", **mark}]
    look = {**tool("look", "anthropic"), **mark}
    running = gateway(*script("anthropic", call("mem_read", "m1", slot="city"), "Ulm.", "Yes."))
    running.alice.write("city", "Ulm")
    with Client(running, "anthropic", streams=streams, system=system, tools=[look]) as client:
        client.say("Where?")
        client.say("Sure?")
    for request in running.upstream.requests:
        assert request["system"][:2] == system
        assert request["tools"][0] == look
        assert [each["name"] for each in request["tools"][1:]] == list(MEMORY_ACTIONS)
    heads = [[request["system"], request["tools"]] for request in running.upstream.requests]
    assert heads[0] == heads[1] == heads[2]
    assert running.upstream.faults == []
