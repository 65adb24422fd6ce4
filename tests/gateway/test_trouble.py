"""When memory or upstream is away, slow or cut: the agent goes on where it can, and is told."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import offprompt
from offprompt.errors import BackendError
from offprompt.testing.strict_chunks import Delivery
from offprompt.testing.strict_server import Trouble
from offprompt.testing.upstream import Upstream
from tests.gateway.client import Client, script, text_of
from tests.gateway.conftest import NewGateway, Running, before
from tests.gateway.standing import body, standing
from tests.gateway.standing import post as ask
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


@pytest.mark.parametrize("on_trouble", ["pass", "refuse"])
@pytest.mark.parametrize("place", ["digest_key", "load", "commit"])
def test_a_store_that_hangs_holds_no_request_longer_than_the_deadline_and_what_follows_works(
    gateway: NewGateway, monkeypatch: pytest.MonkeyPatch, place: str, on_trouble: str
) -> None:
    """Though it never answers while the request lasts, wherever it hangs; the conversation is free when it does."""
    running = gateway(*script("openai", "Hello.", "Hello again."), deadline_s=0.3, on_trouble=on_trouble)
    answers, own = threading.Event(), getattr(running.memory.parts.main, place)

    def hangs(*given: Any, **named: Any) -> Any:
        assert answers.wait(60)
        return own(*given, **named)

    monkeypatch.setattr(running.memory.parts.main, place, hangs)
    hung = [post(running), post(running)]
    assert not answers.is_set(), "both were answered while it hung"
    answers.set()
    monkeypatch.setattr(running.memory.parts.main, place, own)
    if on_trouble == "refuse":
        assert [answer.status_code for answer in hung] == [503, 503]
        assert "longer than 0.3 s" in hung[0].json()["error"]["message"]
    else:
        assert all("longer than 0.3 s" in answer.headers["offprompt-memory"] for answer in hung)
    running.upstream.replies = script("openai", "Hello once more.")
    after = post(running)
    while after.headers["offprompt-memory"] != "on":  # what worked on behind the last one ends first
        running.upstream.replies = script("openai", "Hello once more.")
        after = post(running)
    assert after.json()["choices"][0]["message"]["content"] == "Hello once more."
    assert running.upstream.faults == []


@pytest.mark.parametrize("on_trouble", ["pass", "refuse"])
def test_a_store_that_another_process_keeps_busy(tmp_path: Path, on_trouble: str) -> None:
    """SQLite, locked by a writer that does not end: after the deadline, and not after the store's own patience."""
    file = tmp_path / "a.db"
    upstream = Upstream(script("openai", "Hello.", "Hello."))
    with before(upstream, store=file, options={"deadline_s": 0.3, "on_trouble": on_trouble}) as running:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            answer = post(running)
            other.execute("ROLLBACK")
        assert answer.status_code == (503 if on_trouble == "refuse" else 200)
        assert "longer than 0.3 s" in (answer.headers["offprompt-memory"] + answer.text)
        while post(running).headers["offprompt-memory"] != "on":
            upstream.replies = script("openai", "Hello.")


@pytest.mark.parametrize("on_trouble", ["pass", "refuse"])
def test_a_full_store(gateway: NewGateway, monkeypatch: pytest.MonkeyPatch, on_trouble: str) -> None:
    running = gateway(*script("openai", "Hello.", "Again."), on_trouble=on_trouble)
    main = running.memory.parts.main
    with monkeypatch.context() as full:
        full.setattr(main, "commit", fail)
        answer = post(running)
    if on_trouble == "refuse":
        assert (answer.status_code, running.upstream.requests) == (503, [])
        assert "the store is away" in answer.json()["error"]["message"]
    else:
        assert answer.json()["choices"][0]["message"]["content"] == "Hello."
        assert answer.headers["offprompt-memory"].startswith("off; ")
    assert post(running).headers["offprompt-memory"] == "on"


def test_a_store_that_is_full_when_the_reply_comes_loses_no_reply(
    gateway: NewGateway, wire: Wire, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = gateway(*script(wire, "Red.", "Blue."))
    main = running.memory.parts.main
    own, commits = main.commit, list[int]()

    def second_fails(*given: Any, **named: Any) -> Any:
        commits.append(1)
        return fail() if len(commits) == 2 else own(*given, **named)

    with Client(running, wire, streams=streams) as client:
        monkeypatch.setattr(main, "commit", second_fails)
        assert text_of(client.say("Name a colour"), wire) == "Red."
        monkeypatch.setattr(main, "commit", own)
        assert text_of(client.say("Another"), wire) == "Blue."
    assert running.upstream.faults == []


def test_an_upstream_that_hangs_ends_with_its_client(gateway: NewGateway) -> None:
    """A client that gives up frees the conversation: the next request in it need not wait for the upstream."""
    running = gateway(*script("openai", "Hello.", "Hello again."))
    running.upstream.troubles = [Trouble(hang=True)]
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{running.url}/v1/chat/completions", json=ASKED, timeout=0.5)
    answer = post(running)
    assert (answer.status_code, answer.headers["offprompt-memory"]) == (200, "on")


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_an_upstream_that_is_away_is_an_error_of_the_wire(wire: Wire, streams: bool) -> None:
    with offprompt.open(":memory:") as memory, standing(memory, [], user="alice") as running:
        running.upstream.troubles = [Trouble(drop=True)]
        answer = ask(running, wire, body(wire, "Hello", stream=streams))
    told = answer.json()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert told.get("type") == ("error" if wire == "anthropic" else None)
    assert "does not answer" in told["error"]["message"]
    assert told["error"]["type"] == "api_error"


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
