"""A client that hangs up in mid-stream: nothing is lost or twice, and the turn is asked again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from offprompt.testing.strict_chunks import Delivery, split_reply
from tests.gateway.between import Between
from tests.gateway.echo import Heard
from tests.gateway.standing import PATHS, body, said
from tests.service.talk import Wire, call, flat, messages_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
COUNTED = "One two three four five six."
PING = b": ping\n\n"


def events(reply: dict[str, Any], wire: Wire) -> Iterator[bytes]:
    """The reply's events, in small pieces of text."""
    for event in split_reply({"model": "m", **reply}, wire, Delivery(longest=4)):
        name = b"" if wire == "openai" else f"event: {event['type']}\n".encode()
        yield name + b"data: " + json.dumps(event).encode() + b"\n\n"


class Speaking:
    """An upstream that streams its replies one after the other; the one of that number stops behind `three`."""

    def __init__(self, wire: Wire, replies: list[dict[str, Any]], stops_at: int) -> None:
        self.wire: Wire = wire
        self.replies, self.stops_at = replies, stops_at
        self.heard: list[dict[str, Any]] = []
        self.over, self.let_go = threading.Event(), threading.Event()

    def __call__(self, heard: Heard) -> Any:
        number = len(self.heard)
        self.heard.append(json.loads(heard.body))
        return self._pieces(number)

    def _pieces(self, number: int) -> Iterator[bytes]:
        yield HEAD
        text = ""
        for piece in events(self.replies[number], self.wire):
            yield piece
            text += "".join(spoken(piece, self.wire))
            if number == self.stops_at and "three" in text:
                try:
                    while not self.over.wait(0.01):
                        yield PING
                finally:
                    self.let_go.set()
        if self.wire == "openai":
            yield b"data: [DONE]\n\n"


def spoken(raw: bytes, wire: Wire) -> Iterator[str]:
    """The text in events."""
    for line in raw.decode().splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line.removeprefix("data: "))
        if wire == "openai":
            yield from (choice["delta"].get("content") or "" for choice in event.get("choices", ()))
        elif wire == "anthropic" and event["type"] == "content_block_delta":
            yield event["delta"].get("text", "")
        elif wire == "responses" and event["type"] == "response.output_text.delta":
            yield event["delta"]


@pytest.mark.parametrize("behind", ["", "call"], ids=["first", "behind_a_call"])
def test_a_client_that_is_gone_in_mid_stream_lets_go_of_the_upstream_and_may_ask_again(wire: Wire, behind: str) -> None:
    """The upstream is hung up on, what was said is kept as one branch, and the same request is a regeneration."""
    calls = [call("mem_write", slot="city", value="Ulm")] if behind else []
    speaking = Speaking(wire, said(wire, *calls, COUNTED, COUNTED, "Seven."), stops_at=len(calls))
    with Between(speaking) as between:
        url = between.url + PATHS[wire]
        alice = between.memory.scope(user="alice")
        first = body(wire, "I live in Ulm. Count", stream=True)
        with httpx.stream("POST", url, json=first, timeout=30) as answer:
            assert answer.headers["offprompt-memory"] == "on"
            got = b""
            for piece in answer.iter_raw():
                got += piece
                if "three" in "".join(spoken(got[: got.rfind(b"\n\n") + 2], wire)):
                    break
        assert speaking.let_go.wait(20), "the upstream still speaks"
        again = httpx.post(url, json=first, timeout=30)
        assert "".join(spoken(again.content, wire)) == COUNTED
        then = ["I live in Ulm. Count", {"role": "assistant", "content": COUNTED}, "And then?"]
        last = httpx.post(url, json=body(wire, *then, stream=True), timeout=30)
        speaking.over.set()
        assert "".join(spoken(last.content, wire)) == "Seven."
        assert [each.headers["offprompt-memory"] for each in (again, last)] == ["on", "on"]
        (session,) = alice.memories.sessions()
        kept = alice.session(session, wire=wire, model="")
        journal = [(entry.kind, flat(entry.message)) for entry in kept.journal()]
        held, city = kept.messages(), alice.slots.get("city")
    assert [flat(each) for each in held].count(flat({"role": "user", "content": then[0]})) == 1
    asked = flat(messages_of(speaking.heard[-1]))
    assert [asked.count(word) for word in ("Count", "three", "six", "And then?")] == [1, 1, 1, 1]
    users = [text for kind, text in journal if kind == "user"]
    assert len(users) == len(set(users)) == 2
    cut = [text for kind, text in journal if kind == "assistant" and "three" in text and "six" not in text]
    assert len(cut) == 1, "what came is kept once, as it was cut"
    assert len([text for kind, text in journal if kind == "assistant" and "six" in text]) == 1
    assert (city is None) is (not behind)
    assert city is None or (city.value, city.version) == ("Ulm", 1)
