"""A turn through the gateway: the client's SDK unchanged, memory calls run inside, the reply is one."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.conftest import NewGateway, Running
from tests.service.talk import MODELS, WIRES, Say, Wire, as_reply, call, calls, flat, messages_of


class Client:
    """An application that knows nothing of memory: it sends its messages and appends what comes back."""

    def __init__(self, running: Running, wire: Wire, *, streams: bool = False, **options: Any) -> None:
        self.openai: Any = openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-theirs", max_retries=0)
        self.anthropic: Any = anthropic.Anthropic(base_url=running.url, api_key="sk-theirs", max_retries=0)
        self.wire: Wire = wire
        self.streams, self.options = streams, options
        self.messages: list[Any] = []

    def close(self) -> None:
        self.openai.close()
        self.anthropic.close()

    def say(self, text: str) -> Any:
        self.messages.append({"role": "user", "content": text})
        return self.ask()

    def ask(self) -> Any:
        given: dict[str, Any] = {"model": MODELS[self.wire], **self.options}
        if self.wire == "openai":
            return self._chat(given)
        if self.wire == "anthropic":
            return self._anthropic(given)
        given["input"] = self.messages
        if self.streams:
            with self.openai.responses.stream(**given) as stream:
                for _ in stream:
                    pass
                reply = stream.get_final_response()
        else:
            reply = self.openai.responses.create(**given)
        self.messages += [item.model_dump(exclude_none=True) for item in reply.output]
        return reply

    def _chat(self, given: dict[str, Any]) -> Any:
        given["messages"] = self.messages
        if self.streams:
            with self.openai.chat.completions.stream(**given) as stream:
                for _ in stream:
                    pass
                reply: Any = stream.get_final_completion()
        else:
            reply = self.openai.chat.completions.create(**given)
        message = reply.choices[0].message.model_dump(exclude_none=True)
        self.messages.append({key: message[key] for key in ("role", "content", "tool_calls") if key in message})
        return reply

    def _anthropic(self, given: dict[str, Any]) -> Any:
        given |= {"messages": self.messages, "max_tokens": 500}
        if self.streams:
            with self.anthropic.messages.stream(**given) as stream:
                reply: Any = stream.get_final_message()
        else:
            reply = self.anthropic.messages.create(**given)
        self.messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
        return reply


def text_of(reply: Any, wire: Wire) -> str:
    if wire == "openai":
        return reply.choices[0].message.content
    if wire == "anthropic":
        return "\n".join(block.text for block in reply.content if block.type == "text")
    return reply.output_text


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return request.param


def script(wire: Wire, *said: str | Say) -> list[dict[str, Any]]:
    return own_ids([as_reply(each, wire) for each in said])


def own_ids(replies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages of the responses wire with an id each, as providers give them."""
    for at, reply in enumerate(replies):
        for item in reply.get("output", ()):
            item["id"] = f"{item['id']}_{at}"
    return replies


def test_memory_calls_run_inside_and_the_client_sees_one_reply(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    saved = calls(call("mem_write", slot="city", value="Ulm an der Donau"), text="One moment.")
    running = gateway(*script(wire, saved, "Noted.", "You live there."))
    client = Client(running, wire, streams=streams)
    try:
        reply = client.say("I live in Ulm an der Donau")
        assert "mem_write" not in json.dumps(client.messages)
        assert "One moment." in text_of(reply, wire)
        assert text_of(reply, wire).endswith("Noted.")
        assert running.alice.read("city") == "Ulm an der Donau"
        client.say("Where do I live?")
    finally:
        client.close()
    assert running.upstream.faults == []
    first, second, third = running.upstream.requests
    assert messages_of(second)[: len(messages_of(first))] == messages_of(first)
    assert messages_of(third)[: len(messages_of(second))] == messages_of(second)
    assert "Ulm" in flat(messages_of(third)[-2:])
