"""How a client gets its answers: what is asked again, which errors come back, what is said where no server answers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import offprompt
from offprompt import errors
from offprompt.client import _transport
from offprompt.client._answers import error_of
from offprompt.client._keys import key_of
from offprompt.client._requests import Request, path_of
from offprompt.client._transport import AsyncTransport, Server, Transport, server_url
from offprompt.errors import BackendError, OffpromptError, UnsupportedError, UsageError
from offprompt.records.places import token_file
from offprompt.rest.problems import problem_of
from tests.servers import free_port

URL = "http://127.0.0.1:7333"
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "WAITS_S", (0.0, 0.0))


def sending(handler: Handler, **options: Any) -> Transport:
    server = Server(URL, options.pop("key", lambda: None), None, "test", options.pop("timeout_s", 5.0))
    return Transport(server, transport=httpx.MockTransport(handler))


def answers(*replies: httpx.Response | Exception) -> tuple[Handler, list[httpx.Request]]:
    """A server that gives these, one after the other, and what it was asked."""
    asked: list[httpx.Request] = []
    left = list(replies)

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        reply = left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return handle, asked


def busy(seconds: str = "0", status: int = 503) -> httpx.Response:
    problem = {"status": status, "code": "BackendError", "detail": "the store is busy"}
    headers = {"content-type": "application/problem+json", "retry-after": seconds}
    return httpx.Response(status, content=json.dumps(problem), headers=headers)


def test_a_busy_server_is_asked_again_under_the_same_key() -> None:
    handle, asked = answers(busy(status=409), busy(status=429), httpx.Response(200, json={"name": "a"}))
    assert sending(handle).send(Request("DELETE", "/v1/slots/a")) == {"name": "a"}
    keys = [one.headers["idempotency-key"] for one in asked]
    assert (len(keys), len(set(keys)), len(keys[0]) >= 32) == (3, 1, True)


def test_two_writes_have_two_keys_and_what_changes_nothing_has_none() -> None:
    handle, asked = answers(*[httpx.Response(200, json={}) for _ in range(4)])
    transport = sending(handle)
    for request in (Request("PUT", "/a", body=1), Request("PUT", "/a", body=1)):
        transport.send(request)
    for request in (Request("GET", "/a"), Request("POST", "/a", body=1, is_read=True)):
        transport.send(request)
    keys = [one.headers.get("idempotency-key") for one in asked]
    assert keys[0] != keys[1]
    assert keys[2:] == [None, None]


@pytest.mark.parametrize("seconds", ["3600", "soon", ""])
def test_a_server_that_asks_for_a_long_pause_is_not_asked_again(seconds: str) -> None:
    handle, asked = answers(busy(seconds))
    with pytest.raises(BackendError, match="the store is busy"):
        sending(handle).send(Request("GET", "/a"))
    assert len(asked) == 1


def test_a_server_stays_busy_three_times_and_no_more() -> None:
    handle, asked = answers(busy(), busy(), busy())
    with pytest.raises(BackendError):
        sending(handle).send(Request("PUT", "/a", body=1))
    assert len(asked) == 3


def test_a_connection_that_broke_off_is_made_again() -> None:
    handle, asked = answers(httpx.ReadError("gone"), httpx.RemoteProtocolError("half"), httpx.Response(200, json=1))
    assert sending(handle).send(Request("PUT", "/a", body=1)) == 1
    assert len({one.headers["idempotency-key"] for one in asked}) == 1


def test_a_server_that_is_too_slow_is_not_asked_again() -> None:
    handle, asked = answers(httpx.ReadTimeout("slow"))
    with pytest.raises(BackendError, match=r"did not answer within 5 s; whether it was done is not known"):
        sending(handle).send(Request("PUT", "/a", body=1))
    assert len(asked) == 1
    handle, _ = answers(httpx.ReadTimeout("slow"))
    with pytest.raises(BackendError) as caught:
        sending(handle).send(Request("GET", "/a"))
    assert "whether" not in str(caught.value)


def test_a_server_that_is_not_there_is_said_with_the_command_that_starts_it() -> None:
    port = free_port()
    says = f"start it with: offprompt serve --port {port}"
    with offprompt.Client(f"http://127.0.0.1:{port}") as client, pytest.raises(BackendError, match=says):
        client.scope(user="a").read("b")
    handle, asked = answers(*[httpx.ConnectError("refused")] * 3)
    with pytest.raises(BackendError, match=r"start it with: offprompt serve$"):
        sending(handle).send(Request("GET", "/a"))
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (httpx.Response(200, html="<h1>Welcome</h1>"), BackendError),
        (httpx.Response(502, html="<h1>Bad gateway</h1>"), BackendError),
        (httpx.Response(404, text="not here"), UnsupportedError),
        (httpx.Response(403, json={"error": "no"}), UsageError),
        (httpx.Response(200, content=b"{", headers={"content-type": "application/json"}), BackendError),
        (httpx.Response(400, content=b"[]", headers={"content-type": "application/problem+json"}), UsageError),
    ],
    ids=["welcome", "gateway", "missing", "other", "half", "list"],
)
def test_what_is_no_server_of_ours_is_said_so(reply: httpx.Response, kind: type[OffpromptError]) -> None:
    handle, _ = answers(reply)
    with pytest.raises(kind, match="not as Offprompt does") as caught:
        sending(handle).send(Request("GET", "/a"))
    assert URL in str(caught.value)


ERRORS = [
    errors.UsageError("a"),
    errors.ScopeError("no scope"),
    errors.NameInvalidError("a b", "has a space", "use none"),
    errors.LimitError("slot 'a'", used=5000, limit=4096, unit="bytes", way_out="split it"),
    errors.BudgetError("tokens", used=5, limit=4, unit="tokens", way_out="wait", retry_after_s=7200.5),
    errors.RateError("requests", used=61, limit=60, unit="requests", way_out="wait", retry_after_s=2.5),
    errors.ConflictError("another version"),
    errors.HeldError("under a legal hold"),
    errors.SchemaError("age", "/0", "is no number"),
    errors.HandleError("not issued"),
    errors.LeakError("key", form="base64", chars=32, whole=False, where="tools", way_out="show it"),
    errors.UnauthenticatedError("which key"),
    errors.ForbiddenError("not yours"),
    errors.NotFoundError("no slot 'ctiy'", name="ctiy", alike=("city",)),
    errors.UnsupportedError("not by this engine"),
    errors.BackendError("the store is away"),
    errors.ModelError("too slow", kind="timeout", tries=2, status=0),
]


@pytest.mark.parametrize("at", range(len(ERRORS)))
def test_an_error_comes_back_as_it_was_raised(at: int) -> None:
    error = ERRORS[at]
    found = error_of(msgspec.to_builtins(problem_of(error)[0]))
    assert (type(found), str(found)) == (type(error), str(error))
    for name in ("used", "limit", "retry_after_s", "alike"):
        if hasattr(error, name):
            assert getattr(found, name) == getattr(error, name)
    for name in vars(error):
        assert hasattr(found, name)


def test_every_class_of_errors_is_among_those() -> None:
    def all_of(kind: type[OffpromptError]) -> set[type[OffpromptError]]:
        return {kind}.union(*(all_of(one) for one in kind.__subclasses__() if one.__module__ == errors.__name__))

    roots = {errors.OffpromptError, errors.AccessError}
    assert all_of(errors.OffpromptError) - {type(one) for one in ERRORS} - roots == set()


def test_an_error_that_is_not_known_here_is_the_nearest_one() -> None:
    assert type(error_of({"status": 418, "code": "TeapotError", "detail": "short"})) is UsageError
    assert type(error_of({"status": 500})) is BackendError


def test_a_token_that_a_new_server_left_is_read_anew() -> None:
    keys = iter(["old", "new"])
    refused = {"status": 401, "code": "UnauthenticatedError", "detail": "which key"}
    handle, asked = answers(
        httpx.Response(401, json=refused, headers={"content-type": "application/problem+json"}),
        httpx.Response(200, json=1),
    )
    assert sending(handle, key=lambda: next(keys)).send(Request("GET", "/a")) == 1
    assert [one.headers["authorization"] for one in asked] == ["Bearer old", "Bearer new"]


def test_a_key_is_the_one_given_else_the_environments_else_the_token_left_here(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    file = token_file(port)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text("left-here\n", encoding="ascii")
    url = f"http://127.0.0.1:{port}"
    try:
        assert key_of(url, None)() == "left-here"
        assert key_of(f"http://localhost:{port}", None)() == "left-here"
        assert key_of(f"https://memory.example:{port}", None)() is None
        monkeypatch.setenv("OFFPROMPT_KEY", "of-the-environment")
        assert key_of(url, None)() == "of-the-environment"
        assert key_of(url, "given")() == "given"
    finally:
        file.unlink()
    monkeypatch.delenv("OFFPROMPT_KEY")
    assert key_of(url, None)() is None


@pytest.mark.parametrize("key", ["op_1_s3cret\n", "op_1 s3cret", "op_1_s3crét", "s3cret\x00"])
def test_what_is_no_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        offprompt.Client(URL, key=key)
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong", ["http://", "ftp://x", "http://u:p4ss@x", "http://x/?q=1", "http://x:port", "127.0.0.1:7333", "http://x#f"]
)
def test_what_is_no_url_of_a_server_is_an_error_without_its_password(wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_url(wrong)
    assert "p4ss" not in str(caught.value)


def test_between_a_client_and_this_machine_stands_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    near = Transport(Server(URL, lambda: None, None, "test", 1.0))
    assert near._http._mounts == {}  # pyright: ignore[reportPrivateUsage]
    near.close()


def test_names_are_one_part_of_the_path() -> None:
    assert path_of("v1", "slots", "a/b?c#d%e ä") == "/v1/slots/a%2Fb%3Fc%23d%25e%20%C3%A4"
    assert path_of("v1", "..") == "/v1/%2E%2E"


def test_a_closed_client_refuses_work() -> None:
    client = offprompt.Client(URL)
    scope = client.scope(user="a")
    client.close()
    client.close()
    with pytest.raises(UsageError, match="is closed; open it again"):
        scope.read("b")


def test_without_the_extra_the_way_to_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    for kind in (offprompt.Client, offprompt.AsyncClient):
        with pytest.raises(UnsupportedError, match=r"pip install 'offprompt\[client\]'"):
            kind(URL)


def test_opening_a_server_takes_what_is_a_clients_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="max_slots=… is for whoever opens the store"):
        offprompt.open(URL, max_slots=5)
    with pytest.raises(UsageError, match="key=… is for a server"):
        offprompt.open(tmp_path / "a.db", key="k")
    monkeypatch.setenv("OFFPROMPT_USER", "alice")
    with offprompt.open(URL, app="shop", busy_timeout_s=3) as memory:
        assert str(memory.scope().scope) == "app=shop user=alice"
        assert repr(memory) == f"<Client {URL}>"
        with pytest.raises(UnsupportedError, match="run it where the store is"):
            _ = memory.parts


class Broken(httpx.SyncByteStream):
    """A body that breaks off behind what it holds."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        raise httpx.RemoteProtocolError("peer closed connection")


def lines(*documents: Any) -> httpx.Response:
    body = [json.dumps(one).encode() + b"\n" for one in documents]
    return httpx.Response(200, stream=Broken(*body), headers={"content-type": "application/x-ndjson"})


def test_lines_that_break_off_say_so_and_are_not_asked_for_again() -> None:
    handle, asked = answers(lines({"done": 1}, {"done": 2}))
    seen: list[Any] = []
    assert sending(handle).send(Request("POST", "/v1/import", on_line=seen.append)) is False
    assert (seen, len(asked)) == ([{"done": 1}, {"done": 2}], 1)


def test_a_download_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    handle, asked = answers(*[lines({"a": 1}) for _ in range(3)])
    with pytest.raises(BackendError, match="broke off"):
        sending(handle).send(Request("GET", "/v1/export", download=tmp_path / "out.jsonl"))
    assert len(asked) == 3
    assert list(tmp_path.iterdir()) == []


async def _async_send(handle: Handler, request: Request) -> Any:
    transport = AsyncTransport(Server(URL, lambda: None, None, "test", 5.0), transport=httpx.MockTransport(handle))
    try:
        return await transport.send(request)
    finally:
        await transport.close()


def test_async_code_asks_again_in_the_same_way() -> None:
    handle, asked = answers(busy(), httpx.ReadError("gone"), httpx.Response(200, json=1))
    assert asyncio.run(_async_send(handle, Request("PUT", "/a", body=1))) == 1
    assert len({one.headers["idempotency-key"] for one in asked}) == 1
