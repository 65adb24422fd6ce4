"""Thinking that chat completions bring as text: it goes back with calls, in every later request, never with answers."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.service.bound import BoundScope
from offprompt.testing.strict import RefusedError, Said, SaidCall, StrictUpstream

CARD = "4111 1111 1111 1111"
# OpenAI itself does not know the field.
pytestmark = pytest.mark.illegal
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}


class Played:
    """A model that says one after the other."""

    def __init__(self, said: list[Said]) -> None:
        self._said = list(said)

    def __call__(self, **request: Any) -> Said:
        del request
        return self._said.pop(0)


def play(alice: BoundScope, said: list[Said]) -> tuple[StrictUpstream, list[dict[str, Any]]]:
    upstream = StrictUpstream("openai", Played(said), binding=True)
    session = alice.session("s1", model="deepseek-chat", tools=[TOOL])
    messages: list[dict[str, Any]] = []
    for number in range(3):
        messages.append({"role": "user", "content": f"Question {number}"})
        while True:
            reply = session.complete(upstream, messages)
            messages += reply.messages
            if not reply.tool_calls:
                break
            messages += [{"role": "tool", "tool_call_id": c.call_id, "content": "seen"} for c in reply.tool_calls]
    return upstream, messages


SCRIPT = [
    Said(calls=(SaidCall("mem_read", {"slot": "city"}),), thinking="I look it up."),
    Said(calls=(SaidCall("look", {}),), thinking="Now the weather."),
    Said("It rains in [[mem:city]].", thinking="So it is."),
    Said("Yes.", thinking="Sure."),
    Said("No.", thinking="Sure."),
]


def test_calls_go_back_with_their_thinking_and_answers_without(alice: BoundScope) -> None:
    alice.write("city", "Lisbon")
    upstream, _ = play(alice, SCRIPT)
    assert upstream.faults == []
    assistants = [each for each in upstream.requests[-1]["messages"] if each["role"] == "assistant"]
    assert [each.get("reasoning_content") for each in assistants] == ["I look it up.", "Now the weather.", None, None]


def test_thinking_that_is_sent_is_counted_and_redacted_where_it_is_kept(alice: BoundScope) -> None:
    said = [Said(calls=(SaidCall("look", {}),), thinking=f"The card is {CARD}. " + "word " * 500), *SCRIPT[2:]]
    upstream, _ = play(alice, said)
    assert upstream.faults == []
    session = alice.session("s1", model="deepseek-chat", tools=[TOOL])
    assert session.ledger()[1].parts["history"].tokens > 500
    assert CARD not in str(session.journal())


def test_the_provider_would_refuse_calls_without_it() -> None:
    upstream = StrictUpstream("openai", Played([Said(calls=(SaidCall("look", {}),), thinking="Hm.")]), binding=True)
    asked: list[dict[str, Any]] = [{"role": "user", "content": "?"}]
    said = upstream(model="m", messages=asked)["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "seen"}]
    del said["reasoning_content"]
    with pytest.raises(RefusedError, match="must be passed back"):
        upstream(model="m", messages=[*asked, said, *results])
