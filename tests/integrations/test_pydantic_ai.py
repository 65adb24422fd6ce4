"""pydantic-ai: the capability with real models before a strict upstream; two sessions and a restart, users apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import FunctionToolset

import offprompt
from offprompt.integrations.pydantic_ai import OffpromptMemory, history_processor, memory_toolset
from offprompt.service.offprompt import Offprompt
from offprompt.testing.upstream import Upstream
from tests.gateway.client import script
from tests.service.talk import MODELS, Wire, call, flat

Apart = tuple[FunctionToolset[Any], ProcessHistory[Any]]
LONG = "".join(f"row {number}: 码头 berth {number * 7}\n" for number in range(400))
WIRED = pytest.mark.parametrize("wire", ["openai", "responses"])


@dataclass(frozen=True)
class Deps:
    user: str


def look_up(what: str) -> str:
    """Look something up."""
    del what
    return LONG


def ask(
    upstream: Upstream,
    wire: Wire,
    memory: OffpromptMemory | Apart,
    text: str,
    history: list[ModelMessage] | None = None,
    *,
    user: str = "alice",
    streams: bool = False,
) -> tuple[str, list[ModelMessage]]:
    """One run: its output, and all messages as an application would store them."""
    is_one = isinstance(memory, OffpromptMemory)
    given: Any = {"capabilities": [memory]} if is_one else {"toolsets": [memory[0]], "capabilities": [memory[1]]}

    async def run() -> tuple[str, list[ModelMessage]]:
        async with openai.AsyncOpenAI(base_url=f"{upstream.url}/v1", api_key="sk-theirs", max_retries=0) as client:
            provider = OpenAIProvider(openai_client=client)
            make = OpenAIResponsesModel if wire == "responses" else OpenAIChatModel
            model = make(MODELS[wire], provider=provider)
            agent = Agent(model, deps_type=Deps, tools=[look_up], **given)
            if not streams:
                result = await agent.run(text, deps=Deps(user), message_history=history)
                return result.output, result.all_messages()
            async with agent.run_stream(text, deps=Deps(user), message_history=history) as stream:
                return await stream.get_output(), stream.all_messages()

    return asyncio.run(run())


def user_of(ctx: RunContext[Any]) -> str:
    return ctx.deps.user


@WIRED
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_an_agent_remembers_in_a_second_session_after_a_restart(tmp_path: Path, wire: Wire, streams: bool) -> None:
    store = str(tmp_path / "agent.db")
    said = script(wire, call("mem_write", "m1", name="city", value="乌尔姆 (Ulm)"), "Noted.")
    with Upstream(said) as upstream, offprompt.open(store) as memory:
        first, _ = ask(upstream, wire, OffpromptMemory(memory, user=user_of), "I live in Ulm.", streams=streams)
        assert first == "Noted."
        assert "never guess" in flat(upstream.requests[0])
    said = script(wire, call("mem_read", "m2", name="city"), "In Ulm.")
    with Upstream(said) as upstream, offprompt.open(store) as memory:
        second, _ = ask(upstream, wire, OffpromptMemory(memory, user=user_of), "Where do I live?", streams=streams)
        assert second == "In Ulm."
        assert "乌尔姆 (Ulm)" not in flat(upstream.requests[0])
        assert "乌尔姆 (Ulm)" in flat(upstream.requests[1])
        told = [each.text for each in memory.scope(user="alice").memories.list(kinds=("episode",))]
        assert told == ["I live in Ulm.", "Where do I live?"], "answers behind a tool are not remembered"
    said = script(wire, call("mem_read", "m3", name="city"), "I do not know.")
    with Upstream(said) as upstream, offprompt.open(store) as memory:
        ask(upstream, wire, OffpromptMemory(memory, user=user_of), "Where does she live?", user="bob", streams=streams)
        assert "乌尔姆" not in flat(upstream.requests)


def whole(memory: Offprompt) -> OffpromptMemory:
    return OffpromptMemory(memory, user="alice")


def apart(memory: Offprompt) -> Apart:
    """A toolset and a history processor, each alone."""
    return memory_toolset(memory, user=user_of), ProcessHistory(history_processor(memory, user=user_of))


@pytest.mark.parametrize(
    ("wire", "made"), [("openai", whole), ("responses", whole), ("openai", apart)], ids=["openai", "responses", "apart"]
)
def test_results_leave_the_prompt_with_their_turn_and_can_be_read_again(
    tmp_path: Path, wire: Wire, made: Callable[[Offprompt], OffpromptMemory | Apart]
) -> None:
    store = str(tmp_path / "agent.db")
    said = script(
        wire,
        call("look_up", "c1", what="berths"),
        call("mem_read", "m1", name="plan"),
        "Found.",
        "You are welcome.",
        "Bye.",
    )
    with Upstream(said) as upstream, offprompt.open(store) as memory:
        memory.scope(user="alice").write("plan", "Leave at dawn, by the northern lock, before the tide turns at six.")
        own = made(memory)
        _, messages = ask(upstream, wire, own, "Which berths are free, and my plan?")
        assert "row 200:" in flat(upstream.requests[2])
        given = ModelMessagesTypeAdapter.dump_json(messages)
        _, later = ask(upstream, wire, own, "Thanks!", ModelMessagesTypeAdapter.validate_json(given))
        assert ModelMessagesTypeAdapter.dump_json(messages) == given
        request = flat(upstream.requests[3])
        assert ["row 200:" in request, "northern lock" in request] == [False, False]
        assert ["row 0:" in request, "row 399:" in request, "[[mem:@" in request] == [True, True, True]
        ask(upstream, wire, own, "Bye.", later)
        assert flat(upstream.requests[4]).startswith(flat(upstream.requests[3])[: request.index("Thanks!")])
        handle = request[request.index("[[mem:@") :].partition("]]")[0] + "]]"
    said = script(wire, call("mem_read", "m2", name=handle), "Berth 1400.")
    with Upstream(said) as upstream, offprompt.open(store) as memory:
        ask(upstream, wire, made(memory), "Which was row 7?", later)
        assert "row 7: 码头 berth 49" in flat(upstream.requests[1])


def test_the_tools_alone_and_results_that_stay() -> None:
    said = script("openai", call("look_up", "c1", what="berths"), "Found.", "Bye.")
    with Upstream(said) as upstream, offprompt.open(":memory:") as memory:
        own = OffpromptMemory(memory, user="alice", result_tokens=0, capture="off")
        _, messages = ask(upstream, "openai", own, "Which berths are free?")
        ask(upstream, "openai", own, "Thanks!", messages)
        assert "row 200:" in flat(upstream.requests[2])
        assert names(own) == ["mem_write", "mem_read", "mem_forget", "mem_search", "mem_list"]
        assert kept(memory) == 0


def test_without_a_user_the_run_ends_with_the_reason() -> None:
    with (
        Upstream() as upstream,
        offprompt.open(":memory:") as memory,
        pytest.raises(offprompt.ScopeError, match="user"),
    ):
        ask(upstream, "openai", OffpromptMemory(memory), "Hello")


def names(own: OffpromptMemory) -> list[str]:
    return list(own.get_toolset().tools)


def kept(memory: Offprompt) -> int:
    return len(memory.scope(user="alice").memories.list())
