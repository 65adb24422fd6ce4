"""Cache marks, which clients move from message to message: they stand where the client has them now, nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offprompt.wire.payload import loose
from tests.gateway.client import Client, script
from tests.gateway.conftest import NewGateway
from tests.service.talk import Wire, call, messages_of, tool

MARKS: dict[Wire, tuple[str, dict[str, Any]]] = {
    "anthropic": ("cache_control", {"type": "ephemeral"}),
    "openai": ("prompt_cache_breakpoint", {"mode": "explicit"}),
}


@pytest.mark.parametrize("marking", MARKS)
def test_cache_marks_that_a_client_moves_on_do_not_heap_up(gateway: NewGateway, marking: Wire) -> None:
    name, mark = MARKS[marking]
    said = [call("mem_write", slot="city", value="Ulm"), "Noted.", call("look", "c1", text="a"), *"bcdefg"]
    running = gateway(*script(marking, *said))
    running.alice.remember("The dentist moved to Oak Street 12 last week")

    with Client(running, marking, tools=[tool("look", marking)]) as client:

        def say(text: str, **part: Any) -> None:
            own = part or {"type": "text", "text": text}
            client.messages = loose(client.messages)
            client.messages.append({"role": "user", "content": [{**own, name: mark}]})
            client.ask()

        for text in ("I live in Ulm, see [[mem:x]]", "Look at my dentist"):
            say(text)
        if marking == "anthropic":
            say("", type="tool_result", tool_use_id="c1", content="a long result " * 2000)
        else:
            client.answer(("c1", "a long result " * 2000))
        for text in ("Where is my dentist?", "And where do I live?", "Sure?", "Bye"):
            say(text)
    assert running.upstream.faults == []
    for request in running.upstream.requests:
        marks = [at for at, message in enumerate(messages_of(request)) if name in json.dumps(message)]
        assert len(marks) <= 1, "one mark as the client set it"
    last = messages_of(running.upstream.requests[-1])[-1]
    assert last["content"][-1][name] == mark
