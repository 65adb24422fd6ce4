"""Thinking and its signatures, and what else a client or a provider puts beside the words: kept as it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import pytest

from offprompt.records import as_list
from offprompt.testing.strict import Said, SaidCall
from offprompt.testing.strict_binding import sign_reasoning
from offprompt.testing.strict_server import StrictServer
from offprompt.testing.upstream import Upstream
from tests.gateway.client import Client, text_of
from tests.gateway.conftest import Running, before
from tests.service.talk import MODELS, Wire, flat, messages_of, tool

THOUGHTS = ("Let me look that up.", "Now the weather.", "So it is.")
LOOKED = Said("I look.", calls=(SaidCall("look", {}, "c1"),), thinking=THOUGHTS[1])
SAID = [
    Said(calls=(SaidCall("mem_read", {"slot": "city"}),), thinking=THOUGHTS[0]),
    LOOKED,
    Said("It rains in [[mem:city]].", thinking=THOUGHTS[2]),
    Said("Yes.", thinking="Sure."),
]
KINDS: Final[dict[str, tuple[Wire, str]]] = {
    "openai": ("openai", "deepseek-chat"),
    "anthropic": ("anthropic", MODELS["anthropic"]),
    "responses": ("responses", MODELS["responses"]),
    "responses_bound": ("responses", MODELS["anthropic"]),
}
"""Wires and models. OpenAI decrypts the reasoning that comes back and refuses another's; what stands before it may
change, where Anthropic's models have it signed along.
"""


class Binding(Upstream):
    """Thinks, and takes no call back without the thinking that led to it; where its model binds that to the prompt, it
    checks that too.
    """

    def __init__(self, kind: str, said: list[Said]) -> None:
        self._said = list(said)
        StrictServer.__init__(self, self._think, binding=kind != "responses")

    def _think(self, **request: Any) -> Said:
        del request
        return self._said.pop(0)


@dataclass
class Thinking:
    """A client with a model that thinks, behind an upstream that checks each signature and each binding.

    kind     of KINDS. forgets: the client sends no thinking back. asks: it says in its requests that it wants some.
    """

    kind: str
    streams: bool = False
    forgets: bool = False
    asks: bool = True

    @property
    def wire(self) -> Wire:
        return KINDS[self.kind][0]

    def client(self, running: Running) -> Client:
        options: dict[str, Any] = {"tools": [tool("look", self.wire)], "model": KINDS[self.kind][1]}
        if self.asks and self.wire == "anthropic":
            options["thinking"] = {"type": "adaptive"}
        if self.asks and self.wire == "responses":
            options["reasoning"] = {"effort": "low"}
        return Client(running, self.wire, streams=self.streams, **options)

    def run(self, said: list[Said], rain: str = "rain", *, known: bool = True) -> tuple[list[Any], str, Upstream]:
        """Two turns; the client's messages at the end, and the first answer. known: the user has memory."""
        upstream = Binding(self.kind, said)
        with before(upstream) as running, self.client(running) as client:
            if known:
                running.alice.write("city", "Lisbon")
            reply = client.say("How is the weather where I live?")
            self.forget(client)
            told = text_of(client.answer((client.calls(reply)[0][0], rain)), self.wire)
            self.forget(client)
            client.say("Sure?")
        assert upstream.faults == []
        return client.messages, told, upstream

    def forget(self, client: Client) -> None:
        """As clients do that know nothing of thinking."""
        if self.forgets:
            client.messages = [each for message in client.messages if (each := _without(message)) is not None]


def _without(message: Any) -> Any:
    if message.get("type") == "reasoning":
        return None
    parts = as_list(message.get("content"))
    if parts is not None:
        return {**message, "content": [part for part in parts if part.get("type") != "thinking"]}
    return {key: value for key, value in message.items() if key != "reasoning_content"}


@pytest.fixture(params=[False, True], ids=["client_keeps_it", "client_loses_it"])
def forgets(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.mark.parametrize("kind", KINDS)
def test_thinking_comes_to_the_client_and_goes_back_where_the_provider_wants_it(
    kind: str, streams: bool, forgets: bool
) -> None:
    messages, told, upstream = Thinking(kind, streams, forgets).run(SAID)
    assert told == "It rains in Lisbon."
    last = json.dumps(messages_of(upstream.requests[-1]))
    assert last.count(THOUGHTS[0]) == last.count(THOUGHTS[1]) == 1, "calls go back with their thinking"
    if not forgets and kind != "openai":
        assert all(json.dumps(messages).count(thought) == 1 for thought in THOUGHTS)
    if kind == "responses":
        check_sealed(upstream, THOUGHTS)


def check_sealed(upstream: Upstream, thoughts: tuple[str, ...]) -> None:
    """Reasoning goes back as it was sealed with the request that it answered."""
    made = zip(upstream.requests, thoughts, strict=False)
    sealed = [sign_reasoning(request, messages_of(request), thought) for request, thought in made]
    back = [item for item in messages_of(upstream.requests[-1]) if item.get("type") == "reasoning"]
    assert [item["encrypted_content"] for item in back] == sealed[: len(back)]


@pytest.mark.parametrize("kind", KINDS)
def test_thinking_behind_the_clients_own_calls_is_put_back_where_nothing_else_changed(kind: str, streams: bool) -> None:
    said = [LOOKED, Said("It rains.", thinking=THOUGHTS[2]), Said("Yes.", thinking="Sure.")]
    _, told, upstream = Thinking(kind, streams, forgets=True).run(said, known=False)
    assert told == "It rains."
    assert json.dumps(messages_of(upstream.requests[-1])).count(THOUGHTS[1]) == 1


@pytest.mark.parametrize("asks", [True, False], ids=["asked_for", "unasked"])
def test_the_head_does_not_come_behind_thinking_that_is_bound_to_its_absence(asks: bool) -> None:
    said = [LOOKED, Said("It rains.", thinking=THOUGHTS[2]), Said("Yes.", thinking="Sure.")]
    report = "a line of a very long report that says little\n" * 8000
    _, _, upstream = Thinking("anthropic", asks=asks).run(said, report, known=False)
    heads = [len(request["tools"]) for request in upstream.requests]
    assert heads == ([5, 5, 5] if asks else [1, 1, 1]), "with thinking it is there from the first request on"
    assert (report in flat(upstream.requests[1])) != asks, "what could not be read again does not leave"
