"""Agents of other people's making, unchanged but for their base URL: two turns each, with a tool and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent as Pydantic
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.gateway.client import script
from tests.gateway.conftest import NewGateway, Running
from tests.gateway.sdks import (
    KEY,
    ORDER,
    QUESTIONS,
    Agent,
    Shop,
    anthropic_async,
    anthropic_async_tool_runner,
    anthropic_tool_runner,
    openai_async,
    responses_async,
)
from tests.langchain_clients import close_model
from tests.service.talk import MODELS, Wire, call, calls, flat


def said(wire: Wire) -> list[dict[str, Any]]:
    """What the model says in both turns: memory calls alone, beside the client's, and before the answer."""
    replies = script(
        wire,
        calls(call("mem_write", "m1", slot="city", value="Ulm"), call("ship", "c1", order="[[mem:order]]")),
        call("mem_read", "m2", slot="city"),
        "Shipped [[mem:order]] to Ulm.",
        call("mem_search", "m3", query="where the user lives"),
        "In Ulm.",
    )
    return [{**reply, "id": f"reply_{at}"} for at, reply in enumerate(replies)]


def langchain_agent(make: Callable[[Running, bool], Any]) -> Agent:
    def run(running: Running, shop: Shop, streams: bool) -> list[str]:

        model = make(running, streams)
        build: Any = create_agent  # pyright: ignore[reportUnknownVariableType]
        agent: Any = build(model, tools=[shop.ship], system_prompt="Be brief.")
        state: Any = {"messages": []}
        answers: list[str] = []
        for question in QUESTIONS:
            state["messages"] = [*state["messages"], {"role": "user", "content": question}]
            if streams:
                for mode, each in agent.stream(state, stream_mode=["messages", "values"]):
                    state = each if mode == "values" else state
            else:
                state = agent.invoke(state)
            answers.append(state["messages"][-1].text)
        close_model(model)
        return answers

    return run


def chat_openai(running: Running, streams: bool, **more: Any) -> Any:

    model = MODELS["responses" if more else "openai"]
    given: dict[str, Any] = {"base_url": f"{running.url}/v1", "api_key": KEY, "max_retries": 0, "streaming": streams}
    return ChatOpenAI(model=model, **given, **more)


def chat_anthropic(running: Running, streams: bool) -> Any:

    given: dict[str, Any] = {"base_url": running.url, "api_key": KEY, "max_retries": 0, "streaming": streams}
    given |= {"model": MODELS["anthropic"], "max_tokens": 500}
    return ChatAnthropic(**given)


def pydantic_ai_agent(make: Callable[[Running], Any]) -> Agent:
    def run(running: Running, shop: Shop, streams: bool) -> list[str]:

        async def ask() -> list[str]:
            model = make(running)
            agent: Any = Pydantic(model, tools=[shop.ship], instructions="Be brief.")
            answers: list[str] = []
            history: Any = None
            for question in QUESTIONS:
                if streams:
                    async with agent.run_stream(question, message_history=history) as result:
                        answers.append(await result.get_output())
                else:
                    result = await agent.run(question, message_history=history)
                    answers.append(result.output)
                history = result.all_messages()
            await model.client.close()
            return answers

        return asyncio.run(ask())

    return run


def pydantic_openai(running: Running) -> Any:

    return OpenAIChatModel(MODELS["openai"], provider=OpenAIProvider(base_url=f"{running.url}/v1", api_key=KEY))


def pydantic_responses(running: Running) -> Any:

    return OpenAIResponsesModel(MODELS["responses"], provider=OpenAIProvider(base_url=f"{running.url}/v1", api_key=KEY))


def pydantic_anthropic(running: Running) -> Any:

    return AnthropicModel(MODELS["anthropic"], provider=AnthropicProvider(base_url=running.url, api_key=KEY))


AGENTS: dict[str, tuple[Wire, Agent]] = {
    "langchain_openai": ("openai", langchain_agent(chat_openai)),
    "langchain_responses": (
        "responses",
        langchain_agent(lambda at, streams: chat_openai(at, streams, use_responses_api=True)),
    ),
    "langchain_anthropic": ("anthropic", langchain_agent(chat_anthropic)),
    "pydantic_ai_openai": ("openai", pydantic_ai_agent(pydantic_openai)),
    "pydantic_ai_responses": ("responses", pydantic_ai_agent(pydantic_responses)),
    "pydantic_ai_anthropic": ("anthropic", pydantic_ai_agent(pydantic_anthropic)),
    "anthropic_tool_runner": ("anthropic", anthropic_tool_runner),
    "openai_async": ("openai", openai_async),
    "responses_async": ("responses", responses_async),
    "anthropic_async": ("anthropic", anthropic_async),
    "anthropic_async_tool_runner": ("anthropic", anthropic_async_tool_runner),
}


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_unchanged_has_memory(gateway: NewGateway, name: str, streams: bool) -> None:
    wire, agent = AGENTS[name]
    running = gateway(*said(wire))
    running.alice.write("order", ORDER, policy="by_handle")
    shop = Shop()
    answers = agent(running, shop, streams)
    assert running.upstream.faults == []
    assert shop.shipped == [ORDER]
    assert answers == [f"Shipped {ORDER} to Ulm.", "In Ulm."]
    assert ORDER not in flat(running.upstream.requests)
    assert running.alice.read("city") == "Ulm"
    assert running.upstream.replies == []
