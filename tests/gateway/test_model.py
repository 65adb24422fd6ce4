"""A real small model behind the gateway: what it makes up is relayed, counted and kept, whatever that is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai

from offprompt.testing.strict import request_faults
from tests.gateway.between import Between
from tests.gateway.echo import Heard
from tests.servers import Server, openai_url
from tests.service.talk import flat, tool

MODEL = "smollm2"
SAID = ("My home city is Lisbon.", "What is my home city?", "Is my home city by the sea?")
SAMPLING: dict[str, Any] = {"temperature": 0.9, "seed": 7, "max_tokens": 48}


class Passed:
    """Stands before the model and keeps what it answered."""

    def __init__(self, model: Server) -> None:
        self._url = openai_url(model)
        self.bodies: list[bytes] = []

    def __call__(self, heard: Heard) -> Any:
        return self._pieces(heard)

    def _pieces(self, heard: Heard) -> Iterator[bytes]:
        url = self._url + heard.line.split()[1].removeprefix("/v1")
        kind = {"content-type": "application/json"}
        with httpx.stream("POST", url, content=heard.body, headers=kind, timeout=120) as reply:
            lines = f"HTTP/1.1 {reply.status_code} Odd\r\nContent-Type: {reply.headers['content-type']}\r\n\r\n"
            yield lines.encode()
            self.bodies.append(b"")
            for piece in reply.iter_raw():
                self.bodies[-1] += piece
                yield piece

    def usages(self) -> list[tuple[int, int]]:
        """What the model's server counted of each request: tokens in and out."""
        found: list[tuple[int, int]] = []
        for body in self.bodies:
            chunks = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: {")]
            usage = json.loads((chunks or [body])[-1])["usage"]
            found.append((usage["prompt_tokens"], usage["completion_tokens"]))
        return found

    def text(self) -> str:
        """What the model said last."""
        chunks = [line.removeprefix(b"data: ") for line in self.bodies[-1].splitlines() if line.startswith(b"data: {")]
        if not chunks:
            return json.loads(self.bodies[-1])["choices"][0]["message"]["content"] or ""
        deltas = [choice["delta"] for chunk in chunks for choice in json.loads(chunk)["choices"]]
        return "".join(delta.get("content") or "" for delta in deltas)


def asked(client: Any, text: str, *, streams: bool) -> tuple[str, list[str], tuple[int, int]]:
    """What the client is told in a new conversation with one question: text, names of calls, tokens in and out."""
    given: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": text}], **SAMPLING}
    given["tools"] = [tool("look", "openai")]
    create: Any = client.chat.completions.create
    if not streams:
        reply: Any = create(**given)
        message = reply.choices[0].message
        calls: list[Any] = message.tool_calls or []
        names: list[str] = [call.function.name for call in calls]
        return message.content or "", names, (reply.usage.prompt_tokens, reply.usage.completion_tokens)
    chunks: list[Any] = list(create(**given, stream=True, stream_options={"include_usage": True}))
    deltas: list[Any] = [choice.delta for chunk in chunks for choice in chunk.choices]
    names: list[str] = []
    for delta in deltas:
        pieces: list[Any] = delta.tool_calls or []
        names += [call.function.name for call in pieces if call.function.name]
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    texts: list[str] = [delta.content or "" for delta in deltas]
    return "".join(texts), names, (usage.prompt_tokens, usage.completion_tokens)


def test_a_real_model_has_memory_of_another_conversation_and_each_token_is_counted(
    small_model: Server, streams: bool
) -> None:
    passed = Passed(small_model)
    with Between(passed) as between, openai.OpenAI(base_url=f"{between.url}/v1", api_key="k", max_retries=0) as client:
        scope = between.memory.scope(user="alice")
        for number, question in enumerate(SAID):
            before = len(passed.bodies)
            text, names, usage = asked(client, question, streams=streams)
            sent = [json.loads(heard.body) for heard in between.upstream.heard][before:]
            assert [fault for body in sent for fault in request_faults(body, "openai")] == []
            if number:
                assert "Lisbon" in flat(sent[0]["messages"]), "what another conversation said is shown"
            counted = passed.usages()[before:]
            assert usage == (sum(given for given, _ in counted), sum(made for _, made in counted))
            assert not [name for name in names if name.startswith("mem_")]
            if len(counted) == 1 and "[[" not in passed.text():
                assert text == passed.text()
        ledgers = [scope.session(each, wire="openai", model=MODEL).ledger() for each in scope.memories.sessions()]
        assert len(ledgers) == len(SAID)
        noted = sorted((entry.usage.input, entry.usage.output) for entries in ledgers for entry in entries)
        assert noted == sorted(passed.usages())
