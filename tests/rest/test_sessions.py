"""Sessions over HTTP, call by call: what an agent in any language sends and gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest

import offprompt
from offprompt.records.access import Identity
from offprompt.rest.app import make_app
from tests.service.talk import MODELS, WIRES, Wire, as_reply, call, calls, messages_of, tool

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
