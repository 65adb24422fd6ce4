"""An agent whose memory a server keeps: the loop is here, the session there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from offprompt import Agent, ScopeError
from offprompt.client.clients import Client
from offprompt.testing.chat_stand_in import StandInModel
from tests.client.borrowed import borrowed
from tests.rest.running import running
from tests.service import test_agent
from tests.service.test_agent import Played

globals().update(borrowed(test_agent, "test_the_store_may_fail"))  # it breaks the store itself


@pytest.fixture(scope="module")
def kept() -> Iterator[Client]:
    with running() as server, Client(server.url) as opened:
        yield opened


@pytest.fixture
def memory(kept: Client) -> Any:
    """In place of the borrowed tests' own; each of them begins with an empty memory."""
    for user in ("alice", "bob"):
        kept.scope(user=user).clear()
    return kept


def test_another_process_goes_on(alice: Any) -> None:
    first = Agent(alice, StandInModel(Played("Hello.")))
    first.run("Hello")
    second = Agent(alice, StandInModel(Played("You said hello.")))
    second.run("What did I say?")
    assert [each["content"] for each in second.session().messages()] == [
        "Hello",
        "Hello.",
        "What did I say?",
        "You said hello.",
    ]


def test_an_agent_over_a_client_takes_users_and_says_when_there_is_none(memory: Any) -> None:
    agent = Agent(memory, StandInModel(Played("Hello.")), name="helper")
    assert agent.run("Hello", user="alice").text == "Hello."
    assert agent.session(user="alice").scope.agent == "helper"
    with pytest.raises(ScopeError):
        agent.run("Hello")
