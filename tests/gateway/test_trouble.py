"""When memory or upstream is away, slow or cut: the agent goes on where it can, and is told."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import openai
import pytest

from offprompt.errors import BackendError
from offprompt.testing.strict_chunks import Delivery
from offprompt.testing.strict_server import Trouble
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway, Running
from tests.service.talk import Wire, call, flat, messages_of

ASKED: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}


def post(running: Running, body: dict[str, Any] = ASKED) -> httpx.Response:
    return httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=30)


def fail(*_: object, **__: object) -> Any:
    raise BackendError("the store is away")


def test_a_store_that_is_away_is_passed_by(gateway: NewGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    running = gateway(*script("openai", "Hello."))
    monkeypatch.setattr(running.memory.parts.main, "load", fail)
    answer = post(running)
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert running.upstream.requests[0]["messages"] == ASKED["messages"]


def test_a_store_that_is_away_is_an_error_where_that_is_wanted(
    gateway: NewGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = gateway(*script("openai", "Hello."), on_trouble="refuse")
    monkeypatch.setattr(running.memory.parts.main, "digest_key", fail)
    answer = post(running)
    assert answer.status_code == 503
    assert "the store is away" in answer.json()["error"]["message"]
    assert running.upstream.requests == []


def test_a_store_that_is_slow_is_waited_for_up_to_the_deadline(
    gateway: NewGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = gateway(*script("openai", "Hello."), deadline_s=0.2)
    go_on = threading.Event()
    load = running.memory.parts.main.load

    def slow(*given: Any) -> Any:
        go_on.wait(20)
        return load(*given)

    monkeypatch.setattr(running.memory.parts.main, "load", slow)
    try:
        answer = post(running)
    finally:
        go_on.set()
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert "longer than 0.2 s" in answer.headers["offprompt-memory"]
    assert running.upstream.requests[0] == ASKED


def test_an_upstream_that_is_away_is_told_as_the_wires_errors_are(gateway: NewGateway) -> None:
    running = gateway()
    running.upstream.troubles = [Trouble(drop=True)]
    with Client(running, "openai") as client, pytest.raises(openai.InternalServerError, match="does not answer"):
        client.say("Hello")


@pytest.mark.parametrize("cut", [1, 3])
def test_an_upstream_cut_in_mid_stream_is_cut_here_and_the_turn_can_be_asked_again(
    gateway: NewGateway, cut: int, wire: Wire
) -> None:
    running = gateway(*script(wire, "One two three four five six.", "One two three four five six.", "Seven."))
    running.upstream.deliver(Delivery(cut=cut, stall=True, longest=4))
    with Client(running, wire, streams=True) as client:
        with pytest.raises(Exception, match=r"(?i)incomplete|peer closed|connection|no final|not finished|stream"):
            client.say("Count")
        running.upstream.deliver(Delivery())
        assert text_of(client.ask(), wire) == "One two three four five six."
        client.say("And then?")
    last = flat(messages_of(running.upstream.requests[-1]))
    assert last.count("three") == 1
    assert running.upstream.faults == []


def test_an_upstream_that_fails_between_two_replies_of_a_turn_is_an_error_and_nothing_is_lost(
    gateway: NewGateway, wire: Wire
) -> None:
    running = gateway(*script(wire, call("mem_write", slot="city", value="Ulm"), "Noted."))
    with Client(running, wire) as client:
        replies = running.upstream.replies
        first, second = replies
        running.upstream.replies = [first]
        with pytest.raises(Exception, match=r"500|script is at its end"):
            client.say("I live in Ulm")
        assert running.alice.read("city") == "Ulm"
        running.upstream.replies = [second]
        assert text_of(client.ask(), wire) == "Noted."


def test_two_clients_in_one_conversation_wait_for_each_other(gateway: NewGateway) -> None:
    running = gateway(*script("openai", *["Hello."] * 8))
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(post(running))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.json()["choices"][0]["message"]["content"] for answer in answers} == {"Hello."}
    assert {answer.headers["offprompt-memory"] for answer in answers} == {"on"}
    assert len({answer.headers["offprompt-session"] for answer in answers}) == 1


def test_an_answer_says_what_the_request_took(gateway: NewGateway) -> None:
    running = gateway(*script("openai", "Ulm."))
    running.alice.write("home_city", "Ulm an der Donau")
    answer = post(running, {**ASKED, "messages": [{"role": "user", "content": "What is my home city?"}]})
    assert answer.headers["offprompt-memory"] == "on"
    assert int(answer.headers["offprompt-tokens"]) > 0
    assert int(answer.headers["offprompt-shown"]) > 0
    assert answer.headers["offprompt-leaked"] == "0"
    assert "Ulm an der Donau" in json.dumps(running.upstream.requests[0])


def test_the_clients_key_is_stored_nowhere(gateway: NewGateway, capfd: pytest.CaptureFixture[str]) -> None:
    running = gateway(*script("openai", call("mem_write", slot="city", value="Ulm"), "Noted."))
    with Client(running, "openai") as client:
        client.say("I live in Ulm")
    scope = running.alice
    session = next(iter(scope.memories.sessions()))
    kept = [
        repr(scope.events()),
        repr(scope.session(session, wire="openai", model="").journal()),
        repr(scope.session(session, wire="openai", model="").ledger()),
        repr(scope.slots.list(within="subtree")),
        *capfd.readouterr(),
    ]
    assert not [text for text in kept if "sk-theirs" in text]
