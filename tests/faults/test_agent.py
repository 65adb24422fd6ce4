"""An agent whose model, or process, fails in every way: no turn is lost, none is twice, nothing invented is stored."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

import offprompt
from offprompt import Agent, ModelError
from offprompt.models.chat_anthropic import AnthropicChatModel
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.protocols import ChatModel
from offprompt.service.audit import audit
from offprompt.service.maintenance import doctor
from offprompt.service.offprompt import Offprompt
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict import Said
from offprompt.testing.strict_chunks import Delivery
from offprompt.testing.strict_server import StrictServer, Trouble

TEXTS = ("My name is Ada Okafor.", "How would you bake bread?", "我住在上海。", "What is my name?")
FACTS = {"The user's name is Ada Okafor.", "用户住在上海。"}
STORM = [Trouble(status=429, headers={"retry-after": "0"}) for _ in range(6)]
TROUBLES: dict[str, list[Trouble]] = {
    "a 429 storm": STORM,
    "overloaded": [Trouble(status=503)] * 4,
    "dropped": [Trouble(drop=True)] * 4,
    "cut": [Trouble(cut=40)] * 4,
    "no JSON": [Trouble(text="<html>gateway</html>")],
    "hanging": [Trouble(hang=True)],
    "an empty answer": [Trouble(text="{}")],
}


class Saying:
    """A model that says the same to all."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __call__(self, **request: Any) -> Said:
        del request
        return Said(self._words)


def model_at(server: StrictServer, wire: Literal["openai", "anthropic"]) -> ChatModel:
    options: dict[str, Any] = {"retries": Retries(times=2, base_s=0.0), "timeout_s": 1.0}
    if wire == "anthropic":
        return AnthropicChatModel("claude-sonnet-5-5", base_url=server.url, key="k", **options)
    return OpenAIChatModel("small", base_url=f"{server.url}/v1", **options)


def asked(agent: Agent, text: str, way: str) -> str:
    """The answer; whoever gets an error asks again, at most five times."""
    for _ in range(5):
        try:
            if way == "run":
                return agent.run(text, user="ada").text
            stream = agent.stream(text, user="ada")
            assert list(stream) is not None
            return stream.reply.text  # noqa: TRY300 - what was read to its end
        except ModelError:
            continue
    raise AssertionError("it never answered")


def all_is_well(memory: Offprompt, *, users: tuple[str, ...] = TEXTS) -> None:
    session = memory.scope(user="ada").session("main", wire=memory.parts.sessions.sessions()[0].wire)  # type: ignore[arg-type]
    assert tuple(entry.text for entry in session.journal() if entry.kind == "user") == users
    assert session.record is not None
    assert session.record.turn == len(users)
    ada = memory.scope(user="ada")
    assert {each.text for each in ada.memories.list(kinds=["fact"])} == FACTS
    said = [each.text for each in ada.memories.list(kinds=["episode"]) if each.text in users]
    assert sorted(said) == sorted(users)
    assert [one.broken for one in audit(memory.parts, verify=True).sessions] == [None]
    assert doctor(memory.parts.sessions).is_sound


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(("wire", "way"), [("openai", "run"), ("anthropic", "stream")])
def test_whatever_the_model_does_no_turn_is_lost_or_twice(
    tmp_path: Path, wire: Literal["openai", "anthropic"], way: str, trouble: str
) -> None:
    with (
        StrictServer(ScriptedModel(wire)) as server,
        offprompt.open(str(tmp_path / "agent.db")) as memory,
    ):
        agent = Agent(memory, model_at(server, wire))
        answers: list[str] = []
        for text in TEXTS:
            server.troubles.extend(TROUBLES[trouble])
            answers.append(asked(agent, text, way))
        assert answers[-1] == "Your name is Ada Okafor."
        assert server.faults == []
        all_is_well(memory)


@pytest.mark.parametrize("stall", [True, False])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_streams_that_break_off_leave_what_came(
    tmp_path: Path, wire: Literal["openai", "anthropic"], stall: bool
) -> None:
    words = "A long answer about ferries and tides. " * 5
    with (
        StrictServer(Saying(words)) as server,
        offprompt.open(str(tmp_path / "agent.db")) as memory,
    ):
        agent = Agent(memory, model_at(server, wire))
        server.deliver(Delivery(cut=9, stall=stall))
        stream = agent.stream("Tell me of ferries.", user="ada")
        pieces: list[str] = []
        with contextlib.suppress(ModelError):
            pieces.extend(piece for piece in stream if isinstance(piece, str))
            assert any("cut off" in each for each in stream.reply.warnings)
        assert words.startswith("".join(pieces))
        server.deliver(Delivery())
        assert agent.run("And of tides?", user="ada").text.strip() == words.strip()
        session = agent.session(user="ada")
        users = [entry.text for entry in session.journal() if entry.kind == "user"]
        assert users == ["Tell me of ferries.", "And of tides?"]
        assert server.faults == []


KILLED = """
import os, sys
import offprompt
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.strict import Said, SaidCall

def pay(amount: int) -> str:
    "Pay."
    if sys.argv[2] == "tool":
        os._exit(9)
    return "paid"

replies = [Said(calls=(SaidCall("pay", {"amount": 5}, "c1"),))]

def says(**request):
    if not replies:
        os._exit(9)
    return replies.pop(0)

memory = offprompt.open(sys.argv[1])
offprompt.Agent(memory, StandInModel(says), tools=[pay]).run("Pay five.", user="ada")
"""


@pytest.mark.parametrize("where", ["tool", "model"])
def test_another_process_goes_on_after_a_kill(tmp_path: Path, where: str) -> None:
    file = tmp_path / "agent.db"
    ran = subprocess.run([sys.executable, "-c", KILLED, str(file), where], check=False)
    assert ran.returncode == 9
    seen: list[Any] = []

    def says(**request: Any) -> Said:
        seen.append(request["messages"])
        return Said("It is paid, or I look.")

    def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError(amount)

    with offprompt.open(str(file)) as memory:
        reply = Agent(memory, StandInModel(says), tools=[pay]).run("Pay five.", user="ada")
        assert reply.text == "It is paid, or I look."
        results = [each["content"] for each in seen[-1] if each["role"] == "tool"]
        assert len(results) == 1
        assert ("broken off" in results[0]) == (where == "tool")
        session = memory.scope(user="ada").session("main")
        assert [entry.text for entry in session.journal() if entry.kind == "user"] == ["Pay five."]
