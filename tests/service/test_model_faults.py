"""Conversations over endpoints that storm, break off, hang and babble: no turn is lost, none comes twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import offprompt
from offprompt import ModelError, Reply, Session
from offprompt.models.chat_anthropic import AnthropicChatModel
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.protocols import ChatModel
from offprompt.service.audit import audit
from offprompt.service.checkup import checkup
from offprompt.service.stored_session import read_session
from offprompt.service.trace import Tracer
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict_server import StrictServer, Trouble

WIRES = ("openai", "anthropic")
TURNS = (
    "My name is Ada Okafor.",
    "I moved to Ulm in May.",
    "How would you bake bread?",
    "我的猫喜欢吃鱼。",
    "What is my name?",
)
TROUBLES: Mapping[str, Callable[[], list[Trouble]]] = {
    "a storm that passes": lambda: [Trouble(429, {"retry-after": "0"})] * 2,
    "a storm that does not": lambda: [Trouble(429)] * 3,
    "overload": lambda: [Trouble(529), Trouble(503)],
    "a lost connection": lambda: [Trouble(drop=True)] * 3,
    "a reply cut in its middle": lambda: [Trouble(cut=30)] * 3,
    "a hanging endpoint": lambda: [Trouble(hang=True)],
    "a page": lambda: [Trouble(text="<html>Bad gateway</html>")],
}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def server(wire: Any) -> Iterator[StrictServer]:
    with StrictServer(ScriptedModel(wire)) as running:
        yield running
        assert running.faults == []


def model_at(server: StrictServer, wire: str) -> ChatModel:
    options: dict[str, Any] = {"retries": Retries(2, 0.0), "timeout_s": 1.0, "context_tokens": 128_000}
    if wire == "anthropic":
        return AnthropicChatModel("claude-sonnet-5-5", base_url=server.url, **options)
    return OpenAIChatModel("gpt-4o-mini", base_url=f"{server.url}/v1", **options)


def whole(session: Session, model: ChatModel, messages: list[Any]) -> Reply:
    """A turn's reply; what fails is done again, as an application does."""

    def call(**request: Any) -> dict[str, Any]:
        return model.create(request)

    while True:
        try:
            return session.complete(call, messages)
        except ModelError:
            continue


def streamed(session: Session, model: ChatModel, messages: list[Any]) -> Reply:
    """The same by streams: one that broke off was absorbed as far as it came, and the turn is asked anew."""
    said = list(messages)
    while True:
        reading = session.absorb_stream(model.stream(session.prepare(said)))
        try:
            for _ in reading:
                pass
        except ModelError:
            said = list(messages)
            continue
        if reading.reply.done:
            return reading.reply
        said = [*said, *reading.reply.messages]


@pytest.mark.parametrize("talk", [whole, streamed])
@pytest.mark.parametrize("fault", sorted(TROUBLES))
def test_no_turn_is_lost_and_none_comes_twice(
    server: StrictServer, wire: Any, fault: str, talk: Callable[[Session, ChatModel, list[Any]], Reply]
) -> None:
    mem, model = offprompt.open(":memory:"), model_at(server, wire)
    ada = mem.scope(user="ada")
    session = ada.session("s1", model=model.name, wire=model.wire)
    messages: list[Any] = []
    answers: list[str] = []
    for at, words in enumerate(TURNS):
        server.troubles = TROUBLES[fault]() if at in (1, 3) else []
        messages.append({"role": "user", "content": words})
        reply = talk(session, model, messages)
        messages += reply.messages
        answers.append(reply.text)
    assert answers[-1] == "Your name is Ada Okafor."
    said = [entry.text for entry in session.journal() if entry.kind == "user"]
    assert said == list(TURNS)
    episodes = [one.text for one in ada.memories.list(kinds=["episode"]) if one.role == "user"]
    assert sorted(episodes) == sorted(TURNS), "each turn is remembered once"
    assert ada.read("user_name") == "Ada Okafor"
    found = audit(mem.parts, verify=True)
    assert (found.broken, found.leaks) == ([], [])
    assert checkup(mem.parts).is_sound
    record = mem.parts.sessions.load(session.scope)
    assert record is not None
    traced = Tracer(mem.parts.slots, read_session(mem.parts.sessions, record), values=True).trace()
    assert [turn.user for turn in traced.turns] == list(TURNS)
    # What got no reply is there, beside what did.
    outcomes = [[one.outcome for one in turn.rounds] for turn in traced.turns]
    assert all(own[-1] == "ok" for own in outcomes), outcomes


def test_a_stream_that_breaks_off_is_kept_as_far_as_it_came(server: StrictServer, wire: Any) -> None:
    mem, model = offprompt.open(":memory:"), model_at(server, wire)
    session = mem.scope(user="ada").session("s1", model=model.name, wire=model.wire)
    talk: list[Any] = [{"role": "user", "content": "How would you bake bread?"}]
    reading = session.absorb_stream(model.stream(session.prepare(talk)))
    server.troubles = [Trouble(cut=900)]
    with pytest.raises(ModelError, match="failed"):
        for _ in reading:
            pass
    assert reading.reply is not None
    assert session.ledger()[-1].outcome == "cut"
    assert whole(session, model, talk).text
