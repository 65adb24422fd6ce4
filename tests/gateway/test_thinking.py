"""Thinking and its signatures, and what else a client or a provider puts beside the words: kept as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offprompt.records import as_list
from offprompt.testing.strict import Said, SaidCall
from offprompt.testing.strict_server import StrictServer
from offprompt.testing.upstream import Upstream
from tests.gateway.client import Client, text_of
from tests.gateway.conftest import before
from tests.service.talk import Wire, messages_of, tool

THOUGHTS = ("Let me look that up.", "Now the weather.", "So it is.")
SAID = [
    Said(calls=(SaidCall("mem_read", {"slot": "city"}),), thinking=THOUGHTS[0]),
    Said("I look.", calls=(SaidCall("look", {}),), thinking=THOUGHTS[1]),
    Said("It rains in [[mem:city]].", thinking=THOUGHTS[2]),
    Said("Yes.", thinking="Sure."),
]


class Binding(Upstream):
    """Thinks, and takes no call back without the thinking that led to it; where its wire binds that to the prompt, it
    checks that too.
    """

    def __init__(self, wire: Wire) -> None:
        self._said = list(SAID)
        StrictServer.__init__(self, self._think, binding=wire != "responses")

    def _think(self, **request: Any) -> Said:
        del request
        return self._said.pop(0)


class Thinking:
    """A client with a model that thinks, behind an upstream that checks each signature and each binding."""

    def __init__(self, wire: Wire, *, streams: bool, forgets: bool) -> None:
        self.wire: Wire = wire
        self.streams, self.forgets = streams, forgets
        self.upstream = Binding(wire)

    def run(self) -> tuple[list[Any], str]:
        """Two turns; the client's messages at the end, and the first answer."""
        options: dict[str, Any] = {"tools": [tool("look", self.wire)]}
        if self.wire == "anthropic":
            options["thinking"] = {"type": "adaptive"}
        with before(self.upstream) as running, Client(running, self.wire, streams=self.streams, **options) as client:
            running.alice.write("city", "Lisbon")
            reply = client.say("How is the weather where I live?")
            self.forget(client)
            told = text_of(client.answer((client.calls(reply)[0][0], "rain")), self.wire)
            self.forget(client)
            client.say("Sure?")
        return client.messages, told

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


@pytest.mark.parametrize("forgets", [False, True], ids=["client_keeps_it", "client_loses_it"])
def test_thinking_comes_to_the_client_and_goes_back_where_the_provider_wants_it(
    wire: Wire, streams: bool, forgets: bool
) -> None:
    thinking = Thinking(wire, streams=streams, forgets=forgets)
    messages, told = thinking.run()
    assert told == "It rains in Lisbon."
    assert thinking.upstream.faults == []
    last = json.dumps(messages_of(thinking.upstream.requests[-1]))
    assert last.count(THOUGHTS[0]) == last.count(THOUGHTS[1]) == 1, "calls go back with their thinking"
    if not forgets and wire != "openai":
        assert all(json.dumps(messages).count(thought) == 1 for thought in THOUGHTS)
