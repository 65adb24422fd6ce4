"""The agent: tools, rounds, streams, async, and sessions that go on whatever happened."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import offprompt
from offprompt import Agent, AgentLimits, AgentReply, ModelError, ToolRun, UsageError
from offprompt.records import Cancel, ModelWire
from offprompt.service.agent_turn import NO_MORE
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict import RefusedError, Said, SaidCall

WAYS = ("run", "arun", "stream", "astream")


class Played:
    """A model that says one after the other; an exception among them is raised in its place."""

    def __init__(self, *said: Said | str | Exception) -> None:
        self.said = list(said)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, **request: Any) -> Said | str:
        self.asked.append(request)
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


@pytest.fixture
def memory(clock: MovedClock) -> Iterator[Offprompt]:
    with offprompt.open(":memory:", clock=clock) as opened:
        yield opened


@pytest.fixture(params=["openai", "anthropic"])
def model_wire(request: pytest.FixtureRequest) -> ModelWire:
    return request.param


def asked(agent: Agent, way: str, text: str, **options: Any) -> AgentReply:
    """The reply in any of the ways; of a stream its text must be the reply's."""
    if way == "run":
        return agent.run(text, user="alice", **options)
    if way == "arun":
        return asyncio.run(agent.arun(text, user="alice", **options))
    pieces: list[str | ToolRun] = []
    if way == "stream":
        stream = agent.stream(text, user="alice", **options)
        pieces += stream
        reply = stream.reply
    else:

        async def read() -> AgentReply:
            stream = agent.astream(text, user="alice", **options)
            pieces.extend([piece async for piece in stream])
            return stream.reply

        reply = asyncio.run(read())
    assert "".join(each for each in pieces if isinstance(each, str)).endswith(reply.text)
    ran = tuple(each for each in pieces if isinstance(each, ToolRun))
    assert ran == tuple(each for each in reply.tools if NO_MORE["en"] not in each.result)
    return reply


def weather(city: str, days: int = 1) -> dict[str, Any]:
    """The weather."""
    return {"city": city, "days": days, "sky": "雨"}


async def stock(item: str) -> str:
    """How many are left."""
    await asyncio.sleep(0)
    return f"7 {item}"


def failing(item: str) -> str:
    """It fails."""
    raise RuntimeError(f"no {item} today")


def call(name: str, call_id: str = "", **arguments: Any) -> SaidCall:
    return SaidCall(name, arguments, call_id)


@pytest.mark.parametrize("way", WAYS)
def test_a_turn_with_memory_and_tools(memory: Offprompt, model_wire: ModelWire, way: str) -> None:
    memory.scope(user="alice").write("city", "Lisbon")
    model = Played(
        Said(calls=(call("mem_read", slot="city"),)),
        Said(
            "Let me look.",
            (call("weather", city="[[mem:city]]"), call("stock", item="boats"), call("failing", item="x")),
        ),
        Said("In [[mem:city]] it rains."),
    )
    tools = [weather, stock, failing]
    # Anthropic's newest models take no temperature.
    heat = 0.5 if model_wire == "openai" else None
    stand_in = StandInModel(model, wire=model_wire)
    agent = Agent(memory, stand_in, tools=tools, instructions="Be short.", temperature=heat)
    reply = asked(agent, way, "How is the weather, and how many boats are left?")
    assert reply.text == "In Lisbon it rains."
    assert [(each.name, each.ok, each.result) for each in reply.tools] == [
        ("weather", True, '{"city":"Lisbon","days":1,"sky":"雨"}'),
        ("stock", True, "7 boats"),
        ("failing", False, "error: RuntimeError: no x today"),
    ]
    assert reply.tools[0].arguments == '{"city":"Lisbon"}'
    assert len(reply.entries) == 3
    assert [each.name for each in reply.shown] == ["city"]
    assert reply.tokens_in > 0 < reply.tokens_out
    assert (reply.stopped, reply.price) == ("", None)
    assert {each.get("temperature") for each in model.asked} == {heat}


@pytest.mark.parametrize("way", WAYS)
def test_a_conversation_goes_on_and_in_another_process_too(memory: Offprompt, model_wire: ModelWire, way: str) -> None:
    scripted = ScriptedModel(model_wire).create
    agent = Agent(memory, StandInModel(scripted, wire=model_wire))
    asked(agent, way, "My name is Ada Okafor.")
    asked(agent, way, "How would you bake bread?")
    other = Agent(memory, StandInModel(scripted, wire=model_wire))
    reply = asked(other, way, "What is my name?")
    assert reply.text == "Your name is Ada Okafor."
    session = memory.scope(user="alice").session("main", wire=model_wire)
    assert session.record is not None
    assert session.record.turn == 3
    entries = session.journal()
    assert len({entry.parent for entry in entries}) == len(entries), "a branch"


@pytest.mark.parametrize("way", WAYS)
def test_unknown_tools_and_bad_arguments_are_answered(memory: Offprompt, way: str) -> None:
    bad = (call("weather", town="x"), call("wether", city="x"), SaidCall("weather", "{", "c9"))
    model = Played(Said(calls=bad), Said("I see."))
    reply = asked(Agent(memory, StandInModel(model), tools=[weather]), way, "Weather?")
    told = [each.result for each in reply.tools]
    assert "it has no argument `town`; weather takes city: string, days (optional): integer" in told[0]
    assert told[1] == "error: not run: there is no tool 'wether'; there are: weather"
    assert "not JSON" in told[2]
    assert not any(each.ok for each in reply.tools)


@pytest.mark.parametrize(
    "raised", [StopIteration("x"), SystemExit(3), KeyError("k"), asyncio.CancelledError()], ids=repr
)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_a_tool_raises_is_its_result(memory: Offprompt, way: str, raised: BaseException) -> None:
    def fail() -> str:
        """It fails."""
        raise raised

    async def afail() -> str:
        """It fails later."""
        raise raised

    model = Played(
        Said(calls=(call("fail"), call("afail") if isinstance(raised, KeyError) else call("fail", "c"))), "Oh."
    )
    reply = asked(Agent(memory, StandInModel(model), tools=[fail, afail]), way, "Go.")
    assert reply.text == "Oh."
    assert [each.ok for each in reply.tools] == [False, False]
    assert all(each.result.startswith("error: ") for each in reply.tools)


@pytest.mark.parametrize("way", WAYS)
def test_rounds_end(memory: Offprompt, way: str) -> None:
    model = Played(*(Said(calls=(call("weather", city="x"),)) for _ in range(4)))
    reply = asked(Agent(memory, StandInModel(model), tools=[weather], limits=AgentLimits(rounds=2)), way, "Weather?")
    assert reply.stopped == "rounds"
    assert [each.ok for each in reply.tools] == [True, True, False, False]
    assert "no more tool calls" in reply.tools[2].result
    model.said.append("Fine.")
    assert asked(Agent(memory, StandInModel(model), tools=[weather]), way, "And now?").text == "Fine."


@pytest.mark.parametrize("way", ["run", "arun"])
def test_tools_run_side_by_side(memory: Offprompt, way: str) -> None:
    together = threading.Barrier(3, timeout=20)

    def meet(who: str) -> str:
        """Wait for the others."""
        together.wait()
        return who

    model = Played(Said(calls=tuple(call("meet", who=str(at)) for at in range(3))), "Done.")
    reply = asked(Agent(memory, StandInModel(model), tools=[meet]), way, "Meet.")
    assert [each.result for each in reply.tools] == ["0", "1", "2"]


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_that_does_not_end_is_answered(memory: Offprompt, way: str) -> None:
    let_go = threading.Event()

    def hang() -> str:
        """It hangs."""
        let_go.wait(60)
        return "late"

    model = Played(Said(calls=(call("hang"), call("weather", city="x"))), "It hangs.")
    limits = AgentLimits(tool_timeout_s=0.2)
    try:
        reply = asked(Agent(memory, StandInModel(model), tools=[hang, weather], limits=limits), way, "Go.")
    finally:
        let_go.set()
    assert [each.ok for each in reply.tools] == [False, True]
    assert "not done within 0.2 s" in reply.tools[0].result
    assert reply.text == "It hangs."


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", ["first", "after tools"])
def test_after_a_failure_the_same_text_goes_on_with_its_turn(memory: Offprompt, way: str, when: str) -> None:
    ran: list[str] = []

    def pay(amount: int) -> str:
        """Pay."""
        ran.append(str(amount))
        return "paid"

    failed = RefusedError(503, {"error": {"message": "overloaded"}})
    said = [Said(calls=(call("pay", amount=5),)), Said("Paid.")]
    said.insert(0 if when == "first" else 1, failed)  # type: ignore[arg-type]
    model = Played(*said)
    for fresh in (True, False):
        if fresh:
            agent = Agent(memory, StandInModel(model), tools=[pay])
            with pytest.raises(ModelError) as caught:
                asked(agent, way, "Pay five.")
            assert caught.value.kind == "server"
    reply = asked(Agent(memory, StandInModel(model), tools=[pay]), way, "Pay five.")
    assert (reply.text, ran) == ("Paid.", ["5"])
    record = memory.scope(user="alice").session("main").record
    assert record is not None
    assert record.turn == 1
    users = [each for each in model.asked[-1]["messages"] if each["role"] == "user"]
    assert [each["content"] for each in users] == ["Pay five."]


def test_another_text_behind_a_failure_is_another_turn(memory: Offprompt, model_wire: ModelWire) -> None:
    failed = RefusedError(503, {"error": {"message": "overloaded"}})
    model = Played(failed, "Hello.")
    agent = Agent(memory, StandInModel(model, wire=model_wire))
    with pytest.raises(ModelError):
        agent.run("Good day.", user="alice")
    assert agent.run("Are you there?", user="alice").text == "Hello."
    assert [each["content"] for each in model.asked[-1]["messages"] if each["role"] == "user"] == [
        "Good day.",
        "Are you there?",
    ]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_calls_of_a_run_that_was_broken_off_get_a_result(memory: Offprompt, wire: ModelWire) -> None:
    def stop(reason: str) -> str:
        """Stop everything."""
        cancel.cancel()
        return reason

    cancel = Cancel()
    model = Played(Said(calls=(call("stop", "c1", reason="enough"),)), "So it is.")
    agent = Agent(memory, StandInModel(model, wire=wire), tools=[stop])
    with pytest.raises(ModelError) as caught:
        agent.run("Stop.", user="alice", cancel=cancel)
    assert caught.value.kind == "cancelled"
    assert agent.run("What happened?", user="alice").text == "So it is."
    assert "broken off before this result was recorded" in str(model.asked[-1]["messages"])


def test_a_cancelled_task_leaves_the_session_able_to_go_on(memory: Offprompt) -> None:
    async def scenario() -> str:
        begun = asyncio.Event()

        async def wait(reason: str) -> str:
            """Wait."""
            begun.set()
            await asyncio.sleep(60)
            return reason

        model = Played(Said(calls=(call("wait", "c1", reason="x"),)), "Here I am.")
        agent = Agent(memory, StandInModel(model), tools=[wait])
        task = asyncio.create_task(agent.arun("Wait.", user="alice"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await agent.arun("And now?", user="alice")).text

    assert asyncio.run(scenario()) == "Here I am."


def test_a_reader_that_stops_early_calls_the_run_off(memory: Offprompt) -> None:
    model = Played(Said("A long answer that nobody reads. " * 10), "Again.")
    agent = Agent(memory, StandInModel(model))
    for _ in agent.stream("Tell me.", user="alice"):
        break
    assert agent.run("Tell me something else.", user="alice").text == "Again."


def test_one_run_at_a_time_on_a_session(memory: Offprompt) -> None:
    errors: list[str] = []

    def again() -> str:
        """Call the agent from inside."""
        try:
            agent.run("Inner.", user="alice")
        except offprompt.ConflictError as exc:
            errors.append(str(exc))
        return agent.run("Inner.", user="alice", session="other").text

    model = Played(Said(calls=(call("again"),)), "Inside.", "Outside.")
    agent = Agent(memory, StandInModel(model), tools=[again])
    assert agent.run("Outer.", user="alice").text == "Outside."
    assert len(errors) == 1
    assert "another run works on session 'main'" in errors[0]


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_answer_is_asked_for_once_more(memory: Offprompt, way: str) -> None:
    model = Played(Said(""), "Here.")
    reply = asked(Agent(memory, StandInModel(model)), way, "Hello?")
    assert (reply.text, len(reply.entries)) == ("Here.", 2)
    assert "the model answered nothing; it was asked once more" in reply.warnings
    model.said += [Said(""), Said("")]
    assert asked(Agent(memory, StandInModel(model)), way, "Hello again?").text == ""


@pytest.mark.parametrize("way", WAYS)
def test_thinking_without_an_answer_is_asked_for_once_more(memory: Offprompt, way: str) -> None:
    agent = Agent(memory, StandInModel(Played(Said("", thinking="Hm, 4711."), "Here."), binding=True))
    reply = asked(agent, way, "Is anybody there?")
    assert reply.text == "Here."
    assert "4711" not in str([reply.remembered, agent.session(user="alice").messages()])


@pytest.mark.parametrize("way", WAYS)
def test_thinking_in_the_text_is_no_answer_and_no_memory(memory: Offprompt, way: str) -> None:
    agent = Agent(memory, StandInModel(Played("<think>What a question, 4711.</think>\n\nYes, it is.")))
    reply = asked(agent, way, "Is the harbour open on Mondays?")
    assert reply.text == "Yes, it is."
    assert [each.text for each in reply.remembered if each.kind == "episode"][-1] == "Yes, it is."


def test_time_is_bounded(memory: Offprompt) -> None:
    def slow() -> str:
        """Slow."""
        time.sleep(0.3)
        return "ok"

    model = Played(Said("A moment.", (call("slow"),)), "Never asked.")
    agent = Agent(memory, StandInModel(model), tools=[slow], limits=AgentLimits(timeout_s=0.2))
    reply = agent.run("Go.", user="alice")
    assert (reply.stopped, reply.text) == ("time", "A moment.")


def test_long_results_become_bodies(memory: Offprompt) -> None:
    def report(topic: str) -> str:
        """A long report."""
        return f"{topic}: tides and berths. " * 2000

    model = Played(Said(calls=(call("report", topic="harbour"),)), "Long.")
    agent = Agent(memory, StandInModel(model), tools=[report], policy="stub_at_once")
    agent.run("The report, please.", user="alice")
    assert "[[mem:@" in str(model.asked[-1]["messages"])
    assert len(str(model.asked[-1]["messages"])) < 5000


def test_the_store_may_fail(memory: Offprompt, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(memory, StandInModel(Played("One.", "Two.", "Three.")))
    agent.run("First.", user="alice")

    def broken(*_: Any) -> Any:
        raise offprompt.BackendError("the disk is gone")

    with monkeypatch.context() as patch:
        for name in ("load", "commit", "journal"):
            patch.setattr(type(memory.parts.sessions), name, broken)
        reply = agent.run("Second.", user="alice")
    assert reply.text == "Two."
    assert any("memory is not available" in each for each in reply.warnings)
    assert agent.run("Third.", user="alice").text == "Three."


def test_agents_with_a_name_have_memories_of_their_own(memory: Offprompt) -> None:
    agent = Agent(memory, StandInModel(Played("Noted.")), name="desk")
    agent.run("The key hangs behind the door of the boat house.", user="alice")
    assert len(memory.scope(user="alice", agent="desk").recall("where hangs the key?")) > 0
    assert len(memory.scope(user="alice").recall("where hangs the key?")) == 0


def test_misuse_is_said(memory: Offprompt) -> None:
    agent, name = Agent(memory, StandInModel(Played())), "gpt-4o-mini"
    bad: dict[str, Any] = {"polic": "auto"}
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: Agent(memory, name), "is no chat model"),  # pyright: ignore[reportArgumentType]
        (lambda: Agent(memory, StandInModel(Played()), **bad), "polic='auto' is no option"),
        (lambda: agent.run(" ", user="alice"), "says nothing"),
        (lambda: agent.run("Hi."), "scope"),
        (lambda: AgentLimits(parallel=0), "parallel=0: give a number of 1 or more"),
        (lambda: agent.stream("Hi.", user="a").reply, "was not read to its end"),
    ]
    for make, why in wrong:
        with pytest.raises(UsageError, match=why):
            make()


def test_an_agent_of_the_default_user_has_memories_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFPROMPT_USER", "alice")
    with offprompt.open(":memory:") as opened:
        scope = Agent(opened, StandInModel(Played()), name="helper").session().scope
    assert (scope.user, scope.agent, scope.session) == ("alice", "helper", "main")
