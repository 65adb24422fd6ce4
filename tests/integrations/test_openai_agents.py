"""OpenAI Agents SDK: two sessions and a restart, what its own session does, and the gateway before it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner, function_tool
from agents.memory import Session, SQLiteSession
from hypothesis import given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.integrations.openai_agents import OffpromptSession, memory_tools
from offprompt.service.offprompt import Offprompt
from offprompt.testing.upstream import Upstream
from tests.gateway.client import script
from tests.gateway.conftest import before
from tests.service.talk import MODELS, Wire, call, calls, flat

WIRED = pytest.mark.parametrize("wire", ["responses", "openai"])


def ask(
    url: str, wire: Wire, text: str, *, streams: bool = False, tools: list[Any] | None = None, **options: Any
) -> Any:
    """One run of the SDK's own loop; the final output."""

    async def run() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-theirs", max_retries=0) as client:
            make = OpenAIResponsesModel if wire == "responses" else OpenAIChatCompletionsModel
            model = make(MODELS[wire], openai_client=client)
            agent = Agent(name="Helper", instructions="Be brief.", model=model, tools=tools or [])
            options["run_config"] = RunConfig(tracing_disabled=True)
            if not streams:
                return (await Runner.run(agent, text, **options)).final_output
            result = Runner.run_streamed(agent, text, **options)
            async for _ in result.stream_events():
                pass
            return result.final_output

    return asyncio.run(run())


@WIRED
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_an_agent_remembers_in_a_second_session_and_goes_on_with_the_first_after_a_restart(
    tmp_path: Path, wire: Wire, streams: bool
) -> None:
    store = str(tmp_path / "agent.db")

    def run(said: list[Any], text: str, session_id: str) -> tuple[str, list[dict[str, Any]]]:
        with Upstream(script(wire, *said)) as upstream, offprompt.open(store) as memory:
            session = OffpromptSession(session_id, memory, user="alice")
            tools = memory_tools(memory, user="alice")
            done = ask(upstream.url, wire, text, streams=streams, tools=tools, session=session)
            return done, upstream.requests

    done, requests = run([call("mem_write", "m1", name="city", value="乌尔姆 (Ulm)"), "Noted."], "I live in Ulm.", "s1")
    assert done == "Noted."
    assert len({tool.get("name") or tool["function"]["name"] for tool in requests[0]["tools"]}) == 5
    done, requests = run([call("mem_read", "m2", name="city"), "In Ulm."], "Where do I live?", "s2")
    assert done == "In Ulm."
    assert "I live in Ulm" not in flat(requests[0])
    assert "乌尔姆 (Ulm)" in flat(requests[1])
    done, requests = run(["You are welcome."], "Thanks!", "s1")
    assert done == "You are welcome."
    assert ["I live in Ulm." in flat(requests[0]), "Noted." in flat(requests[0])] == [True, True]
    with offprompt.open(store) as memory:
        alice = memory.scope(user="alice")
        assert alice.read("city") == "乌尔姆 (Ulm)"
        assert "I live in Ulm." in [each.text for each in alice.recall("where does the user live?", top_k=20)]


@WIRED
def test_what_the_gateway_keeps_off_the_prompt_is_in_no_request(wire: Wire) -> None:
    shipped: list[str] = []

    @function_tool
    def ship(order: str) -> str:
        """Ship an order."""
        shipped.append(order)
        return "done"

    order = "ORD-2291-KX-7-upper-deck-window"
    said = script(wire, calls(call("ship", "c1", order="[[mem:order]]")), "Shipped [[mem:order]].", "Yes.")
    with before(Upstream(said)) as running:
        running.alice.write("order", order, policy="by_handle")
        session = OffpromptSession("s1", running.memory, user="alice", capture="off")
        done = ask(running.url, wire, "Ship my order.", tools=[ship], session=session)
        assert (done, shipped) == (f"Shipped {order}.", [order])
        assert ask(running.url, wire, "Has it left?", tools=[ship], session=session) == "Yes."
        assert order not in flat(running.upstream.requests)
        assert "[[mem:order]]" in flat(running.upstream.requests[-1])


SAID: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=4)}
)
CALLED: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ]
)
Step = tuple[str, Any]
ADDING: st.SearchStrategy[Step] = st.tuples(st.just("add_items"), st.lists(SAID | CALLED, max_size=3))
OTHERS: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from(["pop_item", "clear_session", "get_items"]), st.none() | st.integers(1, 4)
)


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(ADDING | OTHERS, max_size=12))
def test_it_does_what_the_sdks_own_session_does(steps: list[Step]) -> None:

    async def play(session: Any) -> list[Any]:
        assert isinstance(session, Session)
        done: list[Any] = []
        for name, value in steps:
            takes = name == "add_items" or (name == "get_items" and value is not None)
            done.append(await getattr(session, name)(*([value] if takes else [])))
        return [*done, await session.get_items()]

    with offprompt.open(":memory:") as memory:
        ours = asyncio.run(play(OffpromptSession("s", memory, user="alice", capture="off")))
    theirs = SQLiteSession("s")
    try:
        assert ours == asyncio.run(play(theirs))
    finally:
        theirs.close()


def tool_of(memory: Offprompt, name: str) -> Any:
    return next(tool for tool in memory_tools(memory, user="alice") if tool.name == name)


def test_what_a_tool_cannot_do_is_told_to_the_model() -> None:
    with offprompt.open(":memory:") as memory:
        memory.scope(user="alice").write("pin", "4711-0815", policy="never")
        answers = [
            asyncio.run(tool_of(memory, name).on_invoke_tool(None, given))
            for name, given in [
                ("mem_read", "{"),
                ("mem_read", "[]"),
                ("mem_read", ""),
                ("mem_read", '{"name": "pin"}'),
            ]
        ]
    assert [("no JSON object" in answer, "4711" in answer) for answer in answers] == [
        (True, False),
        (True, False),
        (False, False),
        (False, False),
    ]
    with offprompt.open(":memory:") as memory, pytest.raises(offprompt.ScopeError, match="no scope"):
        OffpromptSession("s1", memory)
