"""What left the prompt is read again by pages, once, as it is; and a turn shows the same in each of its requests."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from offprompt.records import canonical
from offprompt.testing.upstream import Upstream
from offprompt.wire.shapes import Wire
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway, Running, before, worker
from tests.service.provider import tokens
from tests.service.talk import WIRES, Say, as_reply, call, flat, messages_of, parts, tool

LOG = "".join(f"line {at} of a long log, in which little happens\n" for at in range(2000))


@contextmanager
def stubbed(wire: Wire, *, streams: bool) -> Generator[tuple[Running, Client, str]]:
    """A conversation whose long result became a stub, its client and the stub's id."""
    with (
        before(Upstream(script(wire, call("look", "c1", text="a"), "Seen."))) as running,
        Client(running, wire, streams=streams, tools=[tool("look", wire)]) as client,
    ):
        client.say("Look at the log")
        client.answer(("c1", LOG))
        (session,) = running.memory.parts.main.sessions()
        (body,) = running.memory.parts.main.bodies(session.scope)
        yield running, client, f"@{body.body_id}"


def go_on(running: Running, wire: Wire, *said: str | Say) -> None:
    for at, reply in enumerate(said):
        made = as_reply(reply, wire)
        for item in made.get("output", ()):
            item["id"] = f"{item['id']}_then_{at}"
        running.upstream.replies.append(made)


def test_a_body_is_read_by_pages_and_what_is_read_is_no_stub_again(wire: Wire, streams: bool) -> None:
    with stubbed(wire, streams=streams) as (running, client, name):
        go_on(
            running,
            wire,
            call("mem_read", "m1", slot=name, page=1),
            call("mem_read", "m2", slot=name, page=2),
            "It begins so.",
        )
        assert text_of(client.say("Read the log's beginning"), wire) == "It begins so."
        *_, before_it, one, two = running.upstream.requests
        first, second = flat(one), flat(two)
        assert "line 9 of a long log" in first, "beyond the stub's head"
        assert tokens(first) - tokens(flat(before_it)) < 400, "a page, not all of it"
        assert tokens(second) - tokens(first) < 400
        assert second.count(f"[[mem:{name}]] ") == 1, "what was read did not become one"
        assert messages_of(two)[: len(messages_of(one))] == messages_of(one)
        assert "mem_read" not in str(client.messages)
        assert running.upstream.faults == []


def test_the_same_page_again_and_again_is_bounded_and_the_model_is_told(wire: Wire, streams: bool) -> None:
    with stubbed(wire, streams=streams) as (running, client, name):
        asked = len(running.upstream.requests)
        go_on(running, wire, *[call("mem_read", f"m{at}", slot=name) for at in range(9)])
        reply = client.say("Read it")
        assert client.calls(reply) == []
        seen = running.upstream.requests[asked:]
        assert len(seen) <= 5
        sizes = [tokens(flat(request)) for request in seen]
        assert max(sizes) - sizes[0] < 700, "the page is there once"
        assert "shown above" in flat(seen[2])
        assert running.upstream.faults == []


def test_a_stub_does_not_invite_to_read_it(wire: Wire) -> None:
    with stubbed(wire, streams=False) as (running, client, _):
        go_on(running, wire, "You are welcome.")
        client.say("Thanks")
        said = flat(running.upstream.requests[-1])
        stub = said[said.index("[[mem:@") :].split("\n")[0]
        assert stub.endswith("kept outside; mem_read shows it.")
        assert "must" not in stub
        assert "first" not in stub
        assert len(running.upstream.requests) == 3


def test_recall_is_the_same_in_all_requests_of_a_turn_on_any_worker(wire: Wire, streams: bool, tmp_path: Path) -> None:
    said = [
        call("look", "c1", text="a"),
        call("mem_search", "m1", query="dentist"),
        call("look", "c2", text="b"),
        "OK.",
    ]
    store = tmp_path / "memory.db"
    with before(Upstream(script(wire, *said)), store=store) as running, worker(running.upstream, store=store) as other:
        running.alice.remember("The dentist moved to Oak Street 12 last week")
        with (
            Client(running, wire, streams=streams, tools=[tool("look", wire)]) as one,
            Client(other, wire, streams=streams, tools=[tool("look", wire)]) as two,
        ):
            one.say("Where is my dentist now?")
            running.alice.remember("The dentist has a new phone")
            two.messages = one.messages
            two.answer(("c1", "nothing"))
            one.messages = two.messages
            one.answer(("c2", "nothing"))
        sent = [messages_of(request) for request in running.upstream.requests]
        assert len(sent) == 4
        assert "Oak Street 12" in flat(sent[0])
        for earlier, later in itertools.pairwise(sent):
            assert canonical(later[: len(earlier)]) == canonical(earlier)
        kept = [one.text for one in running.alice.memories.list(states=("live",)).memories if one.role == "user"]
        assert sum("Oak Street" in text for text in kept) == 0
        assert "Where is my dentist now?" in kept
        assert running.upstream.faults == []


def test_a_turn_with_calls_is_captured_once_it_is_over(gateway: NewGateway, wire: Wire, streams: bool) -> None:
    said = [Say("I look it up.", call("look", "c1", text="a").calls), "The train is at nine."]
    running = gateway(*script(wire, *said))
    with Client(running, wire, streams=streams, tools=[tool("look", wire)]) as client:
        client.say("When is the train to Ulm?")
        assert running.alice.memories.list().memories == ()
        client.answer(("c1", "09:00"))
    stored = {one.role: one.text for one in running.alice.memories.list().memories}
    assert stored["user"] == "When is the train to Ulm?"
    assert stored["assistant"] == "The train is at nine."
    (session,) = running.memory.parts.main.sessions()
    kinds = [entry.kind for entry in running.memory.parts.main.journal(session.scope)]
    assert kinds == ["user", "assistant", "tool", "assistant"], "the calls are in the journal"


PICTURE: dict[Wire, Any] = {
    "openai": {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
    "anthropic": {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
    "responses": {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "auto"},
}


WHERE: list[tuple[Wire, str]] = [
    *((wire, "message") for wire in WIRES),
    ("anthropic", "result"),
    ("responses", "result"),
]
"""Chat completions take no picture in a result."""


@pytest.mark.parametrize(("wire", "where"), WHERE)
def test_a_picture_is_in_the_ledger(gateway: NewGateway, wire: Wire, where: str) -> None:
    shown = parts([PICTURE[wire], {"type": "text", "text": "This."}], wire)
    running = gateway(*script(wire, call("look", "c1", text="a"), "Nice."))
    with Client(running, wire, tools=[tool("look", wire)]) as client:
        client.say(shown if where == "message" else "Look")
        client.answer(("c1", shown if where == "result" else "nothing"))
    (session,) = running.memory.parts.main.sessions()
    first, second = running.memory.parts.main.ledger(session.scope)
    assert second.sent.tokens > 1000
    assert (first.sent.tokens > 1000) == (where == "message")
    assert running.upstream.faults == []
