"""A store that hangs once the upstream answers: nobody waits longer than the deadline, and nothing of the reply is lost
that the client can do with.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from offprompt.testing.strict_chunks import Delivery
from tests.gateway.client import script
from tests.gateway.conftest import NewGateway, Running
from tests.gateway.standing import body, post
from tests.service.talk import Say, Wire, call, calls, tool

LATE = "the memory took longer than 1 s"
ORDER = "ORD-2291-KX-7-upper-deck-window"


@contextmanager
def hanging(running: Running, monkeypatch: pytest.MonkeyPatch, *places: str) -> Generator[threading.Event]:
    """The store hangs at these calls from the upstream's next answer on, until the block ends. Gives: that it hangs."""
    hung, answers = threading.Event(), threading.Event()
    main, before = running.memory.parts.main, len(running.upstream.requests)
    with monkeypatch.context() as patched:
        for place in places:
            own = getattr(main, place)

            def hangs(*given: Any, _own: Any = own, **named: Any) -> Any:
                if len(running.upstream.requests) > before:
                    hung.set()
                    assert answers.wait(60)
                return _own(*given, **named)

            patched.setattr(main, place, hangs)
        try:
            yield hung
        finally:
            answers.set()


def asked(running: Running, wire: Wire, text: str, *, streams: bool, **more: Any) -> httpx.Response:
    return post(running, wire, body(wire, text, stream=streams, tools=[tool("look", wire)], **more))


def test_a_reply_that_the_store_is_late_for_goes_on_as_it_came(
    gateway: NewGateway, wire: Wire, streams: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Text and a client's own call, which otherwise waits; the conversation is free once the store answers."""
    said = calls(call("look", "c1", text="Ulm"), text="Hello there.")
    running = gateway(*script(wire, said, said, "Bye."), deadline_s=1.0)
    running.upstream.deliver(Delivery(seed=3, longest=5))
    plain = asked(running, wire, "Look there", streams=streams)
    with hanging(running, monkeypatch, "commit"):
        answer = asked(running, wire, "Look here", streams=streams)
    assert answer.status_code == 200
    if streams:
        assert LATE in caplog.text
        told = [[line for line in each.text.split("\n") if "usage" not in line] for each in (plain, answer)]
        assert [without_ids(line) for line in told[0]] == [without_ids(line) for line in told[1]]
    else:
        assert answer.headers["offprompt-memory"] == f"off; {LATE}, and the reply is not recorded"
        assert '"look"' in answer.text
        assert "Hello there." in answer.text
    again = asked(running, wire, "Look here", streams=False)
    while again.headers["offprompt-memory"] != "on":  # what worked on behind the last one ends first
        running.upstream.replies = script(wire, "Bye.")
        again = asked(running, wire, "Look here", streams=False)


def without_ids(line: str) -> str:
    return json.dumps(
        {key: value for key, value in json.loads(line[6:]).items() if key in ("choices", "delta", "content_block")}
        if line.startswith("data: {")
        else line
    )


MEMORYS: list[tuple[Wire, str | Say]] = [
    ("openai", call("mem_write", "m1", slot="city", value="Ulm")),
    ("anthropic", "It is [[mem:nothing_such]]."),
    ("responses", call("look", "c1", text="[[mem:order]]")),
]


@pytest.mark.parametrize(("wire", "said"), MEMORYS, ids=["memory_call", "bad_handle", "client_call"])
def test_what_only_the_memory_can_read_is_an_error_and_no_client_gets_it(
    gateway: NewGateway, wire: Wire, streams: bool, said: str | Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = gateway(*script(wire, said), deadline_s=1.0)
    running.alice.write("order", ORDER, policy="by_handle")
    with hanging(running, monkeypatch, "commit", "load"):
        answer = asked(running, wire, "Look", streams=streams)
    assert answer.status_code == (200 if streams else 503)
    assert LATE in answer.text
    assert "ask again" in answer.text
    assert "[[mem:" not in answer.text
    assert "mem_write" not in answer.text
    assert len(running.upstream.requests) == 1, "behind it nobody asks on"


def test_a_next_request_of_a_turn_waits_no_longer_either(
    gateway: NewGateway, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire: Wire = "openai"
    running = gateway(*script(wire, call("mem_read", "m1", slot="city"), "Ulm."), deadline_s=1.0)
    running.alice.write("city", "Ulm")
    main = running.memory.parts.main
    answers, own, commits = threading.Event(), main.commit, list[int]()

    def third_hangs(*given: Any, **named: Any) -> Any:
        commits.append(1)
        if len(commits) == 3:  # the first request, its reply, the next request
            assert answers.wait(60)
        return own(*given, **named)

    monkeypatch.setattr(main, "commit", third_hangs)
    answer = asked(running, wire, "Where do I live?", streams=streams)
    assert not answers.is_set()
    answers.set()
    assert answer.status_code == (200 if streams else 503)
    assert LATE in answer.text
    assert len(running.upstream.requests) == 1


def test_a_handle_that_hangs_in_one_stream_holds_no_other_client(
    gateway: NewGateway, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked up while the stream comes: not in the loop that serves everybody."""
    running = gateway(*script(wire, "It is [[mem:order]], and so on.", "Hello."), deadline_s=20.0)
    running.alice.write("order", ORDER, policy="by_handle")
    running.upstream.deliver(Delivery(seed=1, longest=3))
    running.upstream.answers["GET /v1/models"] = lambda _: {"data": []}
    got: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: got.append(asked(running, wire, "Where is it?", streams=True)))
    with hanging(running, monkeypatch, "batch") as hung:
        thread.start()
        assert hung.wait(20)
        other = httpx.get(f"{running.url}/v1/models", timeout=10)
    thread.join()
    assert other.status_code == 200
    assert ORDER in got[0].text
    assert "[[mem" not in got[0].text
