"""Sessions over HTTP, call by call: what an agent in any language sends and gets."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest

import offprompt
from offprompt.records.access import Identity
from offprompt.rest import sessions
from offprompt.rest.app import make_app
from offprompt.testing.strict_chunks import Delivery
from tests.rest.running import Running
from tests.service.talk import MODELS, WIRES, Wire, as_reply, call, calls, messages_of, tool
from tests.service.test_session_streams import chunks_of, names_of, text_of

BYTES = {"Content-Type": "application/octet-stream"}
USER = {"Offprompt-User": "%E5%B0%8F%E6%98%8E"}
HELLO = [{"role": "user", "content": "Hello"}]


class Ask(Protocol):
    def __call__(self, method: str, path: str, body: Any = None, *, status: int = 200, **given: Any) -> Any: ...


def anybody(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
    del method, headers, has_body
    return Identity(roles=frozenset({"read", "write", "admin"}))


@pytest.fixture
def ask(tmp_path: Path) -> Generator[Ask]:
    """Sends to one of two workers on one store, in turn."""
    with offprompt.open(tmp_path / "a.db") as one, offprompt.open(tmp_path / "a.db") as other:
        apps = [make_app(one, anybody), make_app(other, anybody)]

        def send(method: str, path: str, body: Any = None, *, status: int = 200, **given: Any) -> Any:
            apps.reverse()

            async def once() -> httpx.Response:
                async with httpx.AsyncClient(transport=httpx.ASGITransport(apps[0]), base_url="http://t") as http:
                    return await http.request(method, path, json=body, headers=USER, **given)

            answer = asyncio.run(once())
            assert answer.status_code == status, answer.text
            return answer.json()

        yield send


@pytest.mark.parametrize("wire", WIRES)
def test_workers_take_turns_in_one_turn(ask: Ask, wire: Wire) -> None:
    ask("PUT", "/v1/slots/city", {"value": "乌尔姆, on the Danube", "policy": "by_handle"}, status=201)
    options = {"model": MODELS[wire], "wire": wire, "tools": [tool("look", wire)]}
    messages: list[Any] = [{"role": "user", "content": "Where do I live? 我住哪？"}]
    made = ask("POST", "/v1/sessions/s%2F1/prepare", {**options, "messages": messages})
    assert "乌尔姆" not in str(made["request"])
    said = as_reply(call("mem_read", "m1", slot="city"), wire)
    first = ask("POST", "/v1/sessions/s%2F1/absorb", {**options, "reply": said, "underway": made["underway"]})
    assert not first["reply"]["done"]
    again = ask("POST", "/v1/sessions/s%2F1/absorb", {**options, "reply": said, "underway": made["underway"]})
    assert again["reply"]["messages"] == first["reply"]["messages"], "the same reply once more changes nothing"
    more = {**options, "messages": [*messages, *first["reply"]["messages"]], "underway": first["underway"]}
    made = ask("POST", "/v1/sessions/s%2F1/prepare", more)
    said = as_reply(calls(call("look", "c1", text="[[mem:city]]"), text="[[mem:city]]!"), wire)
    last = ask("POST", "/v1/sessions/s%2F1/absorb", {**options, "reply": said, "underway": made["underway"]})
    assert last["reply"]["text"] == "乌尔姆, on the Danube!"
    (called,) = last["reply"]["tool_calls"]
    assert (called["call_id"], called["name"]) == ("c1", "look")
    assert json.loads(called["arguments"]) == {"text": "乌尔姆, on the Danube"}
    assert last["entry"]["seq"] == 2
    page = ask("GET", "/v1/sessions/s%2F1/ledger", params={"limit": "1"})
    assert [each["seq"] for each in page["entries"]] == [1]
    page = ask("GET", "/v1/sessions/s%2F1/ledger", params={"cursor": page["cursor"]})
    assert ([each["seq"] for each in page["entries"]], page["cursor"]) == ([2], "")
    assert ask("GET", "/v1/sessions/s%2F1/messages")["messages"] == [*messages, *last["reply"]["messages"]]
    assert ask("GET", "/v1/sessions/s%2F1")["turn"] == 1
    journal = ask("GET", "/v1/sessions/s%2F1/journal")["entries"]
    assert [each["kind"] for each in journal] == ["user", "assistant", "answer", "assistant"]
    assert len(ask("GET", "/v1/sessions/s%2F1/trace")["turns"][0]["rounds"]) == 2


def test_a_reply_never_stands_behind_a_request_that_it_does_not_answer(ask: Ask) -> None:
    first = ask("POST", "/v1/sessions/s/prepare", {"messages": HELLO})
    ask("POST", "/v1/sessions/s/prepare", {"messages": [{"role": "user", "content": "Theirs"}]})
    said = as_reply("Hello.", "openai")
    problem = ask("POST", "/v1/sessions/s/absorb", {"reply": said, "underway": first["underway"]}, status=409)
    assert problem["code"] == "ConflictError"


def test_a_session_that_is_not_there(ask: Ask) -> None:
    assert ask("GET", "/v1/sessions/s", status=404)["code"] == "NotFoundError"
    assert ask("GET", "/v1/sessions/s/trace", status=404)["code"] == "NotFoundError"
    assert ask("GET", "/v1/sessions/s/messages") == {"messages": []}
    assert ask("GET", "/v1/sessions/s/ledger") == {"entries": [], "cursor": ""}
    assert ask("DELETE", "/v1/sessions/s") == {"slots": 0, "memories": 0, "sessions": 0}
    assert ask("POST", "/v1/sessions/s/absorb", {"reply": as_reply("x", "openai")}, status=400)["code"] == "UsageError"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("prepare", {}, 422),
        ("prepare", {"messages": HELLO, "polcy": "off"}, 422),
        ("prepare", {"messages": HELLO, "policy": "none"}, 422),
        ("prepare", {"messages": HELLO, "policy": "context_editing"}, 501),
        ("prepare", {"messages": [{"role": "user"}]}, 400),
        ("prepare", {"messages": HELLO, "tools": [tool("look", "anthropic")]}, 400),
        ("prepare", {"messages": HELLO, "underway": {"asked": "1"}}, 422),
        ("absorb", {"reply": {}}, 400),
        ("resolve", {"handles": ["city"]}, 400),
        ("end", {"derive": "model"}, 501),
    ],
)
def test_what_cannot_be_done_as_asked(ask: Ask, path: str, body: Any, status: int) -> None:
    ask("POST", "/v1/sessions/s/prepare", {"messages": HELLO})
    ask("POST", f"/v1/sessions/s/{path}", body, status=status)


def test_handles_stand_for_what_this_session_gave_out(ask: Ask) -> None:
    for name, value, policy in (("city", "Ulm", "by_handle"), ("key", "Zx9-hunter2", "never")):
        ask("PUT", f"/v1/slots/{name}", {"value": value, "policy": policy}, status=201)
    ask("POST", "/v1/sessions/s/prepare", {"messages": HELLO})
    given = ["[[mem:city]]", "[[ mem : CITY ]]", "[[mem:key]]", "[[mem:nothing]]"]
    found = ask("POST", "/v1/sessions/s/resolve", {"handles": given})["handles"]
    assert found == [
        {"status": "ok", "value": "Ulm"},
        {"status": "ok", "value": "Ulm"},
        {"status": "not_issued"},
        {"status": "not_issued"},
    ]
    other = ask("POST", "/v1/sessions/other/resolve", {"handles": ["[[mem:city]]"]})["handles"]
    assert other == [{"status": "not_issued"}]


def test_a_session_is_removed_whole(ask: Ask) -> None:
    ask("POST", "/v1/sessions/s/prepare", {"messages": HELLO})
    assert ask("DELETE", "/v1/sessions/s")["sessions"] == 1
    ask("GET", "/v1/sessions/s", status=404)
    made = ask("POST", "/v1/sessions/s/prepare", {"messages": HELLO})
    assert len(messages_of(made["request"])) >= 1


class Streamed:
    """A reply that is sent up while it comes, over a connection of one's own: HTTP clients rather send first."""

    def __init__(self, server: Running, session: str, opened: dict[str, Any]) -> None:
        self._connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=30)
        self._connection.putrequest("POST", f"/v1/sessions/{session}/absorb-stream")
        for name, value in (("Offprompt-User", "alice"), ("Transfer-Encoding", "chunked")):
            self._connection.putheader(name, value)
        self._connection.putheader("Content-Type", "application/octet-stream")
        self._connection.endheaders()
        self.send(json.dumps(opened))

    def send(self, line: str) -> None:
        data = line.encode() + b"\n"
        self._connection.send(b"%x\r\n%b\r\n" % (len(data), data))

    def lines(self) -> Generator[dict[str, Any]]:
        """What is answered, as it comes."""
        answer = self._connection.getresponse()
        assert answer.status == 200, answer.read()
        while line := answer.readline():
            yield json.loads(line)

    def end(self) -> None:
        self._connection.send(b"0\r\n\r\n")

    def close(self) -> None:
        self._connection.close()


def opened_session(server: Running, session: str, wire: Wire) -> dict[str, Any]:
    """How a session is opened, with a request under way."""
    server.ask("PUT", "/v1/slots/city", json={"value": "Reykjavík, am Meer"})
    options = {"model": MODELS[wire], "wire": wire}
    made = server.ask("POST", f"/v1/sessions/{session}/prepare", json={**options, "messages": HELLO})
    assert made.status_code == 200, made.text
    return {**options, "underway": made.json()["underway"]}


@pytest.mark.parametrize("wire", WIRES)
def test_a_streamed_reply_is_answered_as_it_comes(server: Running, wire: Wire) -> None:
    given = opened_session(server, f"live-{wire}", wire)
    chunks = chunks_of("You live in [[mem:city]]. 你住在［［mem：city］］。", wire, Delivery(seed=2, longest=5))
    with closing(Streamed(server, f"live-{wire}", given)) as stream:
        for chunk in chunks[: len(chunks) // 2]:
            stream.send(json.dumps(chunk))
        answered = stream.lines()
        first = next(answered)
        for chunk in chunks[len(chunks) // 2 :]:
            stream.send(json.dumps(chunk))
        stream.end()
        *pieces, last = [first, *answered]
    text = "You live in Reykjavík, am Meer. 你住在Reykjavík, am Meer。"
    assert text_of([piece["chunk"] for piece in pieces]) == last["absorbed"]["reply"]["text"] == text


@pytest.mark.parametrize("wire", WIRES)
def test_a_providers_event_stream_is_passed_on_unread(server: Running, wire: Wire) -> None:
    given = opened_session(server, f"sse-{wire}", wire)
    chunks = chunks_of(calls(call("look", "c1", text="[[mem:city]]"), text="So"), wire, Delivery(seed=3, longest=9))
    events = [f"event: {chunk.get('type', 'x')}\r\ndata: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks]
    content = "\n".join([json.dumps(given), ": ping", *events, "data: [DONE]", ""])
    answer = server.ask("POST", f"/v1/sessions/sse-{wire}/absorb-stream", content=content.encode(), headers=BYTES)
    *pieces, last = [json.loads(line) for line in answer.text.splitlines()]
    (called,) = last["absorbed"]["reply"]["tool_calls"]
    assert json.loads(called["arguments"]) == {"text": "Reykjavík, am Meer"}
    assert names_of([piece["chunk"] for piece in pieces]) == ["look"]


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        ("", 400, "the first line is not JSON"),
        ("data: {}", 400, "the first line is not JSON"),
        ('{"messages": []}', 422, "the first line does not fit"),
        ('{"policy": "context_editing"}', 501, "only Anthropic"),
        ('{"model": "gpt-4o-mini"}\n', 200, "absorb came before prepare"),
        ('{"model": "gpt-4o-mini"}\n{"a', 200, "a line of 3 bytes is no JSON"),
    ],
)
def test_a_stream_that_cannot_be_read(server: Running, content: str, status: int, says: str) -> None:
    answer = server.ask("POST", "/v1/sessions/none/absorb-stream", content=content.encode(), headers=BYTES)
    assert answer.status_code == status, answer.text
    problem = answer.json() if status != 200 else json.loads(answer.text.splitlines()[-1])["problem"]
    assert says in problem["detail"]


def test_a_stream_that_breaks_off_is_absorbed_as_far_as_it_came(server: Running) -> None:
    given = opened_session(server, "broken", "openai")
    chunks = chunks_of("One two three four five six seven.", "openai", Delivery(seed=2, longest=5))
    with closing(Streamed(server, "broken", given)) as stream:
        for chunk in chunks[: len(chunks) // 2]:
            stream.send(json.dumps(chunk))
        next(stream.lines())
    found = list[Any]()
    for _ in range(200):
        if not found:
            time.sleep(0.05)
            found = server.ask("GET", "/v1/sessions/broken/ledger").json()["entries"]
    assert [entry["outcome"] for entry in found] == ["cut"]


def test_a_conversation_may_hold_pictures(ask: Ask) -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 9_000_000}"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}]
    made = ask("POST", "/v1/sessions/s/prepare", {"model": "gpt-4o-mini", "messages": messages})
    assert made["request"]["messages"][-1] == messages[0]


def test_no_answer_is_kept_for_a_repetition() -> None:
    """A conversation would lie in the store once more, where no erasure looks for it."""
    assert not any(each.is_once for each in sessions.ENDPOINTS)
