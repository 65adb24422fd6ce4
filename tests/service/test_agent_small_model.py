"""The agent with a real small model: real sampling, streams and counts. What it gets right is told, never asserted."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

import offprompt
from offprompt import Agent, AgentReply, WithoutTools
from offprompt.protocols import ChatModel
from tests.servers import Server, openai_url

TEXTS = ("My name is Ada Okafor.", "How is the weather in Lisbon?", "What is my name?")


def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


def model_of(server: Server, calls: Literal["native", "text", "schema"]) -> ChatModel:
    model = offprompt.chat_model("smollm2", base_url=openai_url(server), timeout_s=120)
    return model if calls == "native" else WithoutTools(model, calls=calls)


def answered(agent: Agent, text: str, way: str) -> AgentReply:
    if way == "run":
        return agent.run(text, user="ada")
    if way == "arun":
        return asyncio.run(agent.arun(text, user="ada"))
    stream = agent.stream(text, user="ada")
    said = "".join(piece for piece in stream if isinstance(piece, str))
    assert said.endswith(stream.reply.text)
    return stream.reply


@pytest.mark.parametrize("calls", ["native", pytest.param("text", marks=pytest.mark.long), "schema"])
def test_whatever_it_says_no_turn_is_lost_and_none_is_twice(
    small_model: Server, calls: Literal["native", "text", "schema"], record_property: Any
) -> None:
    told: list[str] = []
    with offprompt.open(":memory:") as memory:
        limits = offprompt.AgentLimits(rounds=2)
        options: dict[str, Any] = {"tools": [weather], "limits": limits, "request": {"max_tokens": 32}}
        agent = Agent(memory, model_of(small_model, calls), instructions="You are a helpful assistant.", **options)
        for text, way in zip(TEXTS, ("run", "stream", "arun"), strict=True):
            reply = answered(agent, text, way)
            told.append(f"{text} -> {reply.text[:60]!r} {[(each.name, each.ok) for each in reply.tools]}")
            assert reply.entries
            assert all(each.usage.input is not None for each in reply.entries)
            assert reply.prefill_s is not None
        session = agent.session(user="ada")
        users = [entry.text for entry in session.journal() if entry.kind == "user"]
        assert users == list(TEXTS)
        assert session.record is not None
        assert session.record.turn == len(TEXTS)
        facts = {each.text for each in memory.scope(user="ada").memories.list(kinds=["fact"])}
        assert facts == {"The user's name is Ada Okafor."}
    record_property("told", told)
    print("\n".join(told))


@pytest.mark.long
def test_a_long_talk_stays_within_its_window(small_model: Server) -> None:
    with offprompt.open(":memory:", capture="off") as memory:
        model = model_of(small_model, "native")
        assert model.context_tokens == 4096
        agent = Agent(memory, model, derive="none", request={"max_tokens": 16})
        for turn in range(12):
            said = f"Note {turn}: " + "the ferry leaves the harbour with the tide in the morning. " * 25
            reply = agent.run(said, user="ada")
            assert all((each.usage.input or 0) <= 4096 - 1024 for each in reply.entries)
        assert sum(entry.cut for entry in agent.session(user="ada").ledger()) > 0
