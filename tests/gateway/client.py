"""Applications that know nothing of memory: real SDKs, whose base URL is the gateway's."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai

from tests.gateway.conftest import Running
from tests.service.talk import MODELS, Say, Wire, as_reply, result

THINKERS: dict[Wire, str] = {
    "openai": "deepseek-chat",
    "anthropic": MODELS["anthropic"],
    "responses": MODELS["anthropic"],
}
"""Models whose thoughts go back, on the wires bound to the prompt that they were made with."""


class Client:
    """An application that knows nothing of memory: it sends its messages and appends what comes back."""

    def __init__(self, running: Running, wire: Wire, *, streams: bool = False, **options: Any) -> None:
        self.openai: Any = openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-theirs", max_retries=0)
        self.anthropic: Any = anthropic.Anthropic(base_url=running.url, api_key="sk-theirs", max_retries=0)
        self.wire: Wire = wire
        self.model = (THINKERS if running.thinks else MODELS)[wire]
        if running.thinks and wire == "anthropic":
            options = {"thinking": {"type": "adaptive"}, **options}
        self.streams, self.options = streams, options
        self.messages: list[Any] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.openai.close()
        self.anthropic.close()

    def say(self, text: str) -> Any:
        self.messages.append({"role": "user", "content": text})
        return self.ask()

    def answer(self, *answers: tuple[str, Any]) -> Any:
        """The results of the client's own tools."""
        self.messages += result(self.wire, *answers)
        return self.ask()

    def calls(self, reply: Any) -> list[tuple[str, str, Any]]:
        """The calls that the client is to run: id, name, arguments."""
        if self.wire == "openai":
            own: list[Any] = reply.choices[0].message.tool_calls or []
            return [(each.id, each.function.name, json.loads(each.function.arguments)) for each in own]
        if self.wire == "anthropic":
            return [(each.id, each.name, each.input) for each in reply.content if each.type == "tool_use"]
        return [
            (each.call_id, each.name, json.loads(each.arguments))
            for each in reply.output
            if each.type == "function_call"
        ]

    def ask(self) -> Any:
        given: dict[str, Any] = {"model": self.model, **self.options}
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
        for each in message.get("tool_calls", ()):
            each.pop("index", None)  # the SDK's helper leaves it there, and the API does not take it
            each["function"].pop("parsed_arguments", None)
        self.messages.append({key: message[key] for key in ("role", "content", "tool_calls") if key in message})
        return reply

    def _anthropic(self, given: dict[str, Any]) -> Any:
        given |= {"messages": self.messages, "max_tokens": 500}
        if self.streams:
            with self.anthropic.messages.stream(**given) as stream:
                reply: Any = stream.get_final_message()
        else:
            reply = self.anthropic.messages.create(**given)
        self.messages.append(
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]}
        )
        return reply


def text_of(reply: Any, wire: Wire) -> str:
    if wire == "openai":
        return reply.choices[0].message.content
    if wire == "anthropic":
        return "\n".join(block.text for block in reply.content if block.type == "text")
    return reply.output_text


def script(wire: Wire, *said: str | Say) -> list[dict[str, Any]]:
    return own_ids([as_reply(each, wire) for each in said])


def own_ids(replies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages of the responses wire with an id each, as providers give them."""
    for at, reply in enumerate(replies):
        for item in reply.get("output", ()):
            item["id"] = f"{item['id']}_{at}"
    return replies
