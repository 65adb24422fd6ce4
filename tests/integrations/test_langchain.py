"""OffpromptMiddleware in agents of `create_agent`: on each wire, whole, streamed and async."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage

import offprompt
from offprompt.integrations.langchain import OffpromptMiddleware
from offprompt.integrations.langchain.middleware import thread_of
from offprompt.testing.strict_replies import Said, SaidCall
from offprompt.testing.strict_server import Trouble
from tests.gateway.client import script
from tests.integrations.agents import HOWS, WIRES, How, config, running
from tests.rest.running import running as serving
from tests.service.talk import Wire, call, calls, flat

REPORT = "Tides and berths: " + "the quay is dry at low water, " * 12 + "and so on."
LONG = "row after row, " * 400


class Desk:
    """The agent's own tools."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def send(self, to: str, body: str) -> str:
        """Send a message."""
        self.sent.append((to, body))
        return f"sent: {body}"

    def table(self) -> str:
        """A long table."""
        return LONG


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_turn_with_memory_and_a_tool(wire: Wire, how: How) -> None:
    desk = Desk()
    said = (
        calls(call("mem_write", "m1", slot="city", value="Ulm"), call("send", "c1", to="Ada", body="[[mem:report]]")),
        calls(call("mem_read", "m2", slot="city"), text="A moment."),
        "Sent [[mem:report#]] to Ada from Ulm.",
        call("mem_search", "m3", query="where the user lives"),
        "In Ulm.",
    )
    with running(wire, said, [desk.send]) as agent:
        agent.memory.scope(user="alice").write("report", REPORT, policy="by_handle")
        first = agent.ask("I live in Ulm. Send my report to Ada.", how)
        second = agent.ask("Where do I live?", how)
        assert desk.sent == [("Ada", REPORT)]
        assert first == f"A moment.\n\nSent {REPORT} to Ada from Ulm."
        assert second == "In Ulm."
        assert [each for each in map(flat, agent.requests) if "the quay is dry" in each] == []
        assert len(agent.requests) == len(said)
        state = agent.messages()
        assert [each.type for each in state] == ["human", "ai", "tool", "ai", "human", "ai"]
        assert "mem_" not in "".join(each.text for each in state)
        assert [each["name"] for message in state if isinstance(message, AIMessage) for each in message.tool_calls] == [
            "send"
        ]
        assert state[1].tool_calls[0]["args"] == {"to": "Ada", "body": REPORT}
        assert REPORT in state[2].text
        if how in ("stream", "astream"):
            assert {each.id: each.text for each in state if isinstance(each, AIMessage)} == agent.streamed
        usage = [each.usage_metadata for each in state if isinstance(each, AIMessage)]
        assert all(each is not None and each["output_tokens"] > 0 for each in usage)
        slot = agent.memory.scope(user="alice").slots.get("city")
        assert slot is not None
        assert slot.value == "Ulm"


@pytest.mark.parametrize("wire", WIRES)
def test_each_request_begins_with_the_one_before_it(wire: Wire) -> None:
    desk = Desk()
    said = [call("send", "c1", to="Ada", body="x"), "Sent.", "Fine.", call("mem_read", "m1", slot="city"), "Not known."]
    with running(wire, said, [desk.send]) as agent:
        for text in ("Send x to Ada.", "Thanks.", "What is the weather?"):
            agent.ask(text)
        key = "input" if wire == "responses" else "messages"
        for before, after in zip(agent.requests, agent.requests[1:], strict=False):
            known = before[key]
            assert after[key][: len(known)] == known
            assert after["tools"] == before["tools"]


@pytest.mark.parametrize("how", ["invoke", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_long_result_is_a_stub_for_the_model_and_whole_in_the_state(wire: Wire, how: How) -> None:
    desk = Desk()
    with running(wire, [call("table", "c1"), "Long."], [desk.table], policy="stub_at_once") as agent:
        agent.ask("Show the table.", how)
        assert agent.messages()[2].text == LONG
        assert LONG not in flat(agent.requests[1])
        assert "[[mem:@" in flat(agent.requests[1])


@pytest.mark.parametrize("how", HOWS)
def test_a_secret_is_in_the_tool_and_nowhere_else(how: How) -> None:
    keys: list[str] = []

    def deploy(key: str) -> str:
        """Deploy the site."""
        keys.append(key)
        return f"deployed with {key}"

    with running("openai", [call("deploy", "c1", key="[[mem:deploy_key]]"), "Done."], [deploy]) as agent:
        alice = agent.memory.scope(user="alice")
        alice.write("deploy_key", "k-91-very-secret-2b7", policy="never")
        alice.slots.allow("deploy_key", tool="deploy", argument="key")
        assert agent.ask("Deploy the site.", how) == "Done."
        assert keys == ["k-91-very-secret-2b7"]
        state = agent.messages()
        assert state[1].tool_calls[0]["args"] == {"key": "[[mem:deploy_key]]"}
        assert "very-secret" not in "".join(map(flat, agent.requests))
        assert "very-secret" not in "".join(agent.streamed.values())


def test_a_secret_that_another_process_was_to_fill_in_is_not_run_as_a_handle() -> None:
    with running("openai", ["ok"]) as agent:
        middleware = OffpromptMiddleware(agent.memory)
        said = AIMessage("", tool_calls=[{"name": "deploy", "args": {"key": "[[mem:deploy_key]]"}, "id": "c1"}])
        said.response_metadata["offprompt_secrets"] = ["c1"]
        asked = SimpleNamespace(tool_call=said.tool_calls[0], state={"messages": [said]})
        told = middleware.wrap_tool_call(asked, lambda _: pytest.fail("it ran"))
        assert isinstance(told, ToolMessage)
        assert (told.status, told.tool_call_id) == ("error", "c1")
        agent.ask("Hello.")


def test_a_call_with_a_bad_handle_is_not_run() -> None:
    desk = Desk()
    said = [call("send", "c1", to="Ada", body="[[mem:nothing]]"), "I could not send it."]
    with running("openai", said, [desk.send]) as agent:
        assert agent.ask("Send it.") == "I could not send it."
        assert desk.sent == []
        assert [each.type for each in agent.messages()] == ["human", "ai"]


@pytest.mark.parametrize("how", ["invoke", "astream"])
@pytest.mark.parametrize("wire", ["anthropic", "responses"])
def test_thinking_stays_with_the_calls_that_it_led_to(wire: Wire, how: How) -> None:
    said = [
        Said(calls=(SaidCall("mem_read", {"slot": "city"}, "m1"),), thinking="The city first."),
        Said(
            "I send it.", calls=(SaidCall("send", {"to": "Ada", "body": "[[mem:city]]"}, "c1"),), thinking="Now send."
        ),
        Said("Sent.", thinking="Good."),
        Said("You are welcome.", thinking="Polite."),
    ]
    desk = Desk()
    model: dict[str, Any] = {"thinking": {"type": "adaptive"}}
    if wire == "responses":
        model = {"store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
    with running(wire, said, [desk.send], model=model) as agent:
        agent.memory.scope(user="alice").write("city", "Ulm")
        assert agent.ask("Send what you know to Ada.", how) == "Sent."
        assert agent.ask("Thank you.", how) == "You are welcome."
        assert desk.sent == [("Ada", "Ulm")]
        assert ["The city first." in flat(each) for each in agent.requests] == [False, True, True, True]
        assert ["Now send." in flat(each) for each in agent.requests] == [False, False, True, True]
        kinds = [block["type"] for block in agent.messages()[1].content]
        assert kinds.count("thinking" if wire == "anthropic" else "reasoning") == 2


def test_another_session_knows_what_this_one_was_told() -> None:
    with running("openai", ["Noted.", "Your name is Ada Okafor."]) as agent:
        agent.ask("My name is Ada Okafor.")
        agent.ask("What is my name?", given=config("t2"))
        assert "Ada Okafor" in flat(agent.requests[1]["messages"][-2])
        assert [each.text for each in agent.messages(config("t2"))] == ["What is my name?", "Your name is Ada Okafor."]


@dataclass
class Context:
    user_id: str


def test_users_are_apart_and_the_context_goes_before_the_config() -> None:
    with running("openai", ["Noted.", "I do not know."], agent={"context_schema": Context}) as agent:
        words = {"messages": [("user", "My name is Ada Okafor.")]}
        agent.graph.invoke(words, config(user="bo"), context=Context("alice"))
        agent.ask("What is my name?", given=config("t2", "bo"))
        assert "Okafor" not in flat(agent.requests[1])
        assert agent.memory.scope(user="alice").read("user_name") == "Ada Okafor"


@pytest.mark.parametrize(
    ("given", "words"), [({"configurable": {"user_id": "a"}}, "thread_id"), (config(user=None), "no user_id")]
)
def test_without_a_thread_or_a_user_it_says_how_to_give_one(given: dict[str, Any], words: str) -> None:
    with (
        running("openai", ["never said"], agent={"checkpointer": None}) as agent,
        pytest.raises(offprompt.ScopeError, match=words),
    ):
        agent.graph.invoke({"messages": [("user", "Hello.")]}, given)


def test_an_option_that_is_none_is_refused() -> None:
    with offprompt.open(":memory:") as memory, pytest.raises(offprompt.UsageError, match=r"polcy=.* is no option"):
        OffpromptMiddleware(memory, polcy="window")


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_breaks_off_is_absorbed_as_far_as_it_came(wire: Wire) -> None:
    with running(wire, ["One two three four five six seven.", "Once more."]) as agent:
        agent.server.troubles.append(Trouble(cut=600))
        with pytest.raises(Exception, match=r"incomplete chunked read|Connection error"):
            agent.ask("Count.", "stream")
        assert agent.ask("Go on.", "stream") == "Once more."
        ledger = agent.memory.scope(user="alice").session("t1", wire="openai").ledger()
        assert [each.outcome for each in ledger] == ["cut", "ok"]


class Place(pydantic.BaseModel):
    """Where somebody lives."""

    city: str


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_structured_answer_comes_beside_memory(wire: Wire) -> None:
    strategy: Any = ProviderStrategy(Place) if wire == "openai" else ToolStrategy(Place)
    last = json.dumps({"city": "Ulm"}) if wire == "openai" else call("Place", "p1", city="[[mem:city]]")
    said = [call("mem_read", "m1", slot="city", page=None), last]
    with running(wire, said, agent={"response_format": strategy}) as agent:
        agent.memory.scope(user="alice").write("city", "Ulm")
        done = agent.graph.invoke({"messages": [("user", "Where do I live?")]}, config())
        assert done["structured_response"] == Place(city="Ulm")


def test_a_body_in_an_argument_is_no_secret() -> None:
    desk = Desk()

    def says(**request: Any) -> Any:
        results = sum(message["role"] == "tool" for message in request["messages"])
        if results == 1:
            (handle,) = set(re.findall(r"\[\[mem:@\w+\]\]", flat(request)))
            return script("openai", call("send", "c2", to="Ada", body=handle))[0]
        return script("openai", "Sent." if results else call("table", "c1"))[0]

    with running("openai", says, [desk.table, desk.send], policy="stub_at_once") as agent:
        assert agent.ask("Send the table to Ada.") == "Sent."
        assert desk.sent == [("Ada", LONG)]
        assert agent.messages()[3].tool_calls[0]["args"] == {"to": "Ada", "body": LONG}


@pytest.mark.parametrize("how", ["invoke", "astream"])
def test_a_server_keeps_the_memory(how: How) -> None:
    said = [call("mem_read", "m1", slot="city"), calls(call("send", "c1", to="Ada", body="[[mem:city]]")), "Sent."]
    desk = Desk()
    with serving() as server, offprompt.Client(server.url) as client:
        client.scope(user="alice").write("city", "Ulm am Donauufer bei Neu-Ulm", policy="by_handle")
        with running("openai", said, [desk.send], memory=client) as agent:
            assert agent.ask("Send my city to Ada.", how) == "Sent."
            assert desk.sent == [("Ada", "Ulm am Donauufer bei Neu-Ulm")]
            assert [each.type for each in agent.messages()] == ["human", "ai", "tool", "ai"]


@pytest.mark.parametrize("how", HOWS)
def test_an_agent_goes_on_without_its_server(how: How, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    with (
        offprompt.Client("http://127.0.0.1:9", timeout_s=0.5) as client,
        running("openai", [call("send", "c1", to="Ada", body="x"), "Sent."], [desk.send], memory=client) as agent,
    ):
        assert agent.ask("Send x to Ada.", how) == "Sent."
        assert desk.sent == [("Ada", "x")]
        assert "without memory" in caplog.text
        assert "mem_" not in flat(agent.requests[0])


def test_the_session_is_the_threads_and_a_subgraph_has_its_own() -> None:
    root, nested = (
        {"thread_id": "t1", "checkpoint_ns": "model:1"},
        {"thread_id": "t1", "checkpoint_ns": "help:1|model:2"},
    )
    assert [thread_of(root), thread_of(nested), thread_of({"thread_id": 7})] == ["t1", "t1/help", "7"]
