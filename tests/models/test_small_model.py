"""A real language model on the loopback: its tokenizer, sampling, streaming and limits. What it says proves nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import offprompt
from offprompt import UsageError
from offprompt.protocols import ChatModel
from offprompt.wire.streams import assemble
from tests.servers import Server, openai_url

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["city", "year"],
    "additionalProperties": False,
}
ASK = [{"role": "user", "content": "I moved to Ulm in 2019. Give my city and the year as JSON."}]


@pytest.fixture
def model(small_model: Server) -> ChatModel:
    return offprompt.chat_model("smollm2", base_url=openai_url(small_model), timeout_s=120)


def test_it_tells_its_window_and_counts_its_tokens(model: ChatModel) -> None:
    assert model.context_tokens == 4096
    answer = model.complete([{"role": "user", "content": "Say hello."}], max_tokens=8)
    assert answer.finish in ("stop", "length")
    assert answer.usage.output is not None
    assert 0 < answer.usage.output <= 8
    assert 0 < (answer.usage.input or 0) < 100


def test_under_a_schema_it_writes_json(model: ChatModel, record_property: Any) -> None:
    answer = model.complete(ASK, schema=SCHEMA, max_tokens=200)
    record_property("answer", answer.text)
    assert answer.finish == "length" or set(answer.data) == {"city", "year"}


def test_an_answer_that_its_limit_cuts_has_no_data(model: ChatModel) -> None:
    answer = model.complete(ASK, schema=SCHEMA, max_tokens=3)
    assert (answer.finish, answer.data) == ("length", None)


def test_a_session_talks_with_it_whole_streamed_and_awaited(model: ChatModel) -> None:
    mem = offprompt.open(":memory:")
    ada = mem.scope(user="ada")
    session = ada.session("s1", model=model.name, wire=model.wire, context_tokens=model.context_tokens)
    talk: list[Any] = [{"role": "user", "content": "My name is Ada. Answer in one word."}]
    reply = session.absorb(model.create({**session.prepare(talk), "max_tokens": 8, "temperature": 0}))
    assert reply.text or reply.tool_calls
    talk += [*reply.messages, {"role": "user", "content": "What is my name?"}]
    streamed = session.absorb_stream(model.stream({**session.prepare(talk), "max_tokens": 8}))
    assert list(streamed)
    assert streamed.reply.messages
    later = ada.async_session("s2", model=model.name, wire=model.wire)

    async def go() -> str:
        payload = {**await later.prepare(talk[:1]), "max_tokens": 4}
        return (await later.absorb(await model.acreate(payload))).text

    assert isinstance(asyncio.run(go()), str)
    assert all((entry.usage.input or 0) > 0 for entry in session.ledger())


def test_more_than_its_window_is_refused_with_its_own_numbers(model: ChatModel) -> None:
    with pytest.raises(UsageError, match=r"HTTP 400.*(4096|context)"):
        model.create({"messages": [{"role": "user", "content": "word " * 5000}], "max_tokens": 4})


def test_a_stream_that_is_left_frees_the_model_for_the_next_call(model: ChatModel) -> None:
    payload = {"messages": [{"role": "user", "content": "Count to a thousand."}], "max_tokens": 2000}
    got: list[dict[str, Any]] = []
    for chunk in model.stream(payload):
        got.append(chunk)
        if len(got) == 5:
            break
    assert json.dumps(got)
    assert assemble(got, wire="openai")["choices"][0]["message"]["role"] == "assistant"
    assert model.complete([{"role": "user", "content": "Hi"}], max_tokens=2).usage.output
