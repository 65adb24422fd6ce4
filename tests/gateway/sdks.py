"""Agents written with the providers' own clients, as their documentation shows it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anthropic
import openai
import pydantic

from tests.gateway.conftest import Running
from tests.service.talk import MODELS

ORDER = "ORD-2291-KX-7-upper-deck-window"
QUESTIONS = ("I live in Ulm. Ship my order.", "Where do I live?")
KEY = "sk-theirs"
SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}


class Shop:
    """The agent's own tool."""

    def __init__(self) -> None:
        self.shipped: list[str] = []

    def ship(self, order: str) -> str:
        """Ship an order."""
        self.shipped.append(order)
        return "done"


Agent = Callable[[Running, Shop, bool], list[str]]
"""Asks both questions, whole or streamed, and returns the answers."""


def _asked(answers: Callable[[Running, Shop, bool], AsyncIterator[str]]) -> Agent:
    """The agent of one that asks within a loop."""

    def run(running: Running, shop: Shop, streams: bool) -> list[str]:
        async def ask() -> list[str]:
            return [answer async for answer in answers(running, shop, streams)]

        return asyncio.run(ask())

    return run


def _anthropic(running: Running) -> AbstractAsyncContextManager[Any]:
    return anthropic.AsyncAnthropic(base_url=running.url, api_key=KEY, max_retries=0)


def _openai(running: Running) -> AbstractAsyncContextManager[Any]:
    return openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key=KEY, max_retries=0)


def anthropic_tool_runner(running: Running, shop: Shop, streams: bool) -> list[str]:
    """Its own loop around the tools."""
    answers: list[str] = []
    messages: list[Any] = []
    with anthropic.Anthropic(base_url=running.url, api_key=KEY, max_retries=0) as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            given: dict[str, Any] = {"model": MODELS["anthropic"], "max_tokens": 500, "messages": messages}
            tools: list[Any] = [anthropic.beta_tool(shop.ship)]
            runner: Any = client.beta.messages.tool_runner(**given, tools=tools, stream=streams)
            last: Any = None
            for each in runner:
                last = each.get_final_message() if streams else each
            messages.append({"role": "assistant", "content": last.content})
            answers.append("".join(block.text for block in last.content if block.type == "text"))
    return answers


async def _runner(running: Running, shop: Shop, streams: bool) -> AsyncIterator[str]:
    async def ship(order: str) -> str:
        """Ship an order."""
        return shop.ship(order)

    messages: list[Any] = []
    async with _anthropic(running) as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            given: dict[str, Any] = {"model": MODELS["anthropic"], "max_tokens": 500, "messages": messages}
            tools: list[Any] = [anthropic.beta_async_tool(ship)]
            runner: Any = client.beta.messages.tool_runner(**given, tools=tools, stream=streams)
            last: Any = None
            async for each in runner:
                last = await each.get_final_message() if streams else each
            messages.append({"role": "assistant", "content": last.content})
            yield "".join(block.text for block in last.content if block.type == "text")


async def _messages(running: Running, shop: Shop, streams: bool) -> AsyncIterator[str]:
    tool: Any = {"name": "ship", "description": "Ship an order.", "input_schema": SCHEMA}
    messages: list[Any] = []
    async with _anthropic(running) as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            while True:
                given: dict[str, Any] = {"model": MODELS["anthropic"], "max_tokens": 500, "messages": messages}
                if streams:
                    async with client.messages.stream(**given, tools=[tool]) as stream:
                        said = "".join([text async for text in stream.text_stream])
                        reply: Any = await stream.get_final_message()
                else:
                    reply = await client.messages.create(**given, tools=[tool])
                    said = "".join(block.text for block in reply.content if block.type == "text")
                messages.append({"role": "assistant", "content": reply.content})
                used = [block for block in reply.content if block.type == "tool_use"]
                if not used:
                    break
                told = [(block.id, shop.ship(block.input["order"])) for block in used]
                results = [{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in told]
                messages.append({"role": "user", "content": results})
            yield said


async def _chat(running: Running, shop: Shop, streams: bool) -> AsyncIterator[str]:
    tool: Any = openai.pydantic_function_tool(_model(), name="ship")
    messages: list[Any] = []
    async with _openai(running) as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            while True:
                given: dict[str, Any] = {"model": MODELS["openai"], "messages": messages, "tools": [tool]}
                if streams:
                    async with client.chat.completions.stream(**given) as stream:
                        reply: Any = await stream.get_final_completion()
                else:
                    reply = await client.chat.completions.parse(**given)
                message = reply.choices[0].message
                messages.append(message)
                if not message.tool_calls:
                    break
                for each in message.tool_calls:
                    told = shop.ship(each.function.parsed_arguments.order)
                    messages.append({"role": "tool", "tool_call_id": each.id, "content": told})
            yield message.content


def _model() -> Any:
    return pydantic.create_model("Ship", order=(str, ...))


async def _responses(running: Running, shop: Shop, streams: bool) -> AsyncIterator[str]:
    tool: Any = {"type": "function", "name": "ship", "parameters": SCHEMA, "strict": False}
    items: list[Any] = []
    async with _openai(running) as client:
        for question in QUESTIONS:
            items.append({"role": "user", "content": question})
            while True:
                given: dict[str, Any] = {"model": MODELS["responses"], "input": items, "tools": [tool], "store": False}
                if streams:
                    async with client.responses.stream(**given) as stream:
                        reply: Any = await stream.get_final_response()
                else:
                    reply = await client.responses.create(**given)
                items += reply.output
                used = [item for item in reply.output if item.type == "function_call"]
                if not used:
                    break
                for each in used:
                    told = shop.ship(json.loads(each.arguments)["order"])
                    items.append({"type": "function_call_output", "call_id": each.call_id, "output": told})
            yield reply.output_text


openai_async = _asked(_chat)
responses_async = _asked(_responses)
anthropic_async = _asked(_messages)
anthropic_async_tool_runner = _asked(_runner)
