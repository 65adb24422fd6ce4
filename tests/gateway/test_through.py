"""What is not ours goes through as it came: bytes, status, headers, in both directions."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import zlib
from typing import Any
from urllib.parse import urlsplit

import pytest

import offprompt
from offprompt.gateway.made import gateway_for
from offprompt.gateway.options import GatewayOptions
from tests.gateway.between import Between
from tests.gateway.conftest import served
from tests.gateway.echo import Heard, whole
from tests.service.talk import as_reply


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models?after=gpt%2D4&x=%E4%B8%8A"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/embeddings"),
        ("PUT", "/v1/files/a%2Fb"),
        ("PATCH", "/anything"),
        ("HEAD", "/v1/models"),
        ("OPTIONS", "/v1/models"),
    ],
)
def test_any_other_request_goes_through(method: str, path: str) -> None:
    sent = b'{"input":  "\xe4\xb8\x8a\xe6\xb5\xb7", "a":1.0}' if method in ("POST", "PUT", "PATCH") else None
    body = b"" if method == "HEAD" else b"\x00\xff body"
    given = [("Authorization", "Bearer sk-theirs"), ("X-Twice", "1"), ("X-Twice", "2"), ("Offprompt-Key", "op_x_y")]
    back = [("Content-Type", "application/x-odd"), ("X-Request-Id", "r1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
    with Between(lambda _: whole("207 Odd", back, body)) as between:
        status, headers, answer = between.ask(method, path, given, sent)
        heard = between.upstream.heard[0]
    assert heard.line == f"{method} {path} HTTP/1.1"
    assert heard.body == (sent or b"")
    assert heard.values("authorization") == ["Bearer sk-theirs"]
    assert heard.values("x-twice") == ["1", "2"]
    assert not [name for name, _ in heard.headers if name.startswith("offprompt-")]
    assert (status, answer) == (207, body)
    assert [value for name, value in headers if name == "set-cookie"] == ["a=1", "b=2"]
    assert ("content-type", "application/x-odd") in headers


def test_a_compressed_answer_stays_compressed() -> None:
    packed = gzip.compress(b"many models " * 50)
    back = [("Content-Encoding", "gzip"), ("Content-Type", "text/plain")]
    with Between(lambda _: whole("200 OK", back, packed)) as between:
        _, headers, answer = between.ask("GET", "/v1/models", [("Accept-Encoding", "gzip, br")])
        assert between.upstream.heard[0].values("accept-encoding") == ["gzip, br"]
    assert answer == packed
    assert ("content-encoding", "gzip") in headers


def test_an_upload_in_chunks_goes_through_in_chunks() -> None:
    chunks = b"4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n"
    with Between(lambda _: whole("200 OK", [], b"ok")) as between:
        _, _, answer = between.ask("POST", "/v1/files", [("Transfer-Encoding", "chunked")], chunks)
        heard = between.upstream.heard[0]
    assert answer == b"ok"
    assert heard.body == b"abcdefg"


def test_headers_about_one_connection_end_here() -> None:
    given = [("Connection", "keep-alive, X-Mine"), ("X-Mine", "1"), ("TE", "trailers"), ("Keep-Alive", "timeout=5")]
    back = [("Connection", "X-Theirs"), ("X-Theirs", "1"), ("Keep-Alive", "timeout=5"), ("X-Stays", "1")]
    with Between(lambda _: whole("200 OK", back, b"ok")) as between:
        _, headers, _ = between.ask("GET", "/v1/models", given)
        heard = between.upstream.heard[0]
    assert not {"x-mine", "te", "keep-alive"} & {name for name, _ in heard.headers}
    assert not {"x-theirs", "keep-alive"} & {name for name, _ in headers}
    assert ("x-stays", "1") in headers


def test_the_upstreams_own_path_stands_in_front() -> None:
    with Between(lambda _: whole("200 OK", [], b"ok"), path="/openai/deployments/d") as between:
        between.ask("GET", "/models?api-version=1")
        assert between.upstream.heard[0].line == "GET /openai/deployments/d/models?api-version=1 HTTP/1.1"


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "429 Too Many Requests", "500 Oops"])
@pytest.mark.parametrize("streams", [False, True])
def test_an_error_of_the_upstream_comes_as_it_is(status: str, streams: bool) -> None:
    told = b'{"error": {"message":  "no", "odd": [1.0]}}'
    back = [("Content-Type", "application/json"), ("Retry-After", "7"), ("X-RateLimit-Left", "0")]
    asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "stream": streams}
    with Between(lambda _: whole(status, back, told)) as between:
        got, headers, answer = between.ask(
            "POST", "/v1/chat/completions", [("Content-Type", "application/json")], json.dumps(asked).encode()
        )
    assert (got, answer) == (int(status[:3]), told)
    assert ("retry-after", "7") in headers


def asked_with(tool: dict[str, Any]) -> bytes:
    said = [{"role": "user", "content": "x"}]
    return json.dumps({"model": "m", "messages": said, "tools": [tool]}).encode()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"not json", "not JSON"),
        (b"[1]", "no JSON object"),
        (b'{"model": "m", "messages": []}', "no list of messages"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "n": 2}', "several replies"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "functions": [{"name": "f"}]}', "functions"),
        (b'{"model": "m", "messages": [{"role": "odd", "content": "x"}]}', "role"),
        (asked_with({"type": "function", "function": {"name": "mem_read", "parameters": {}}}), "'mem_read'"),
        (asked_with({"type": "custom", "custom": {"name": "apply_patch"}}), "custom tool"),
    ],
)
def test_what_no_session_can_read_goes_through_and_the_answer_says_so(body: bytes, why: str) -> None:
    with Between(lambda _: whole("200 OK", [], b"theirs")) as between:
        status, headers, answer = between.ask("POST", "/v1/chat/completions", [], body)
        assert between.upstream.heard[0].body == body
    assert (status, answer) == (200, b"theirs")
    memory = dict(headers)["offprompt-memory"]
    assert memory.startswith("off; ")
    assert why in memory


@pytest.mark.parametrize("depth", [900, 20_000], ids=["deep", "deeper"])
def test_what_is_nested_deeper_than_anybody_reads_goes_through_in_both_directions(depth: int) -> None:
    """As content, as an unknown field, in a whole reply and in a stream's event."""
    deep = b"[" * depth + b"]" * depth
    message = b'{"role": "assistant", "content": "Hi.", "x": %b}' % deep
    reply = b'{"id": "c", "choices": [{"index": 0, "message": %b, "finish_reason": "stop"}]}' % message
    event = b'data: {"choices": [{"delta": %b}]}\n\n' % message
    head = [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"]
    asked = b'{"model": "m", "messages": [{"role": "user", "content": %b}], "x": %b, "max_tokens": 9}'
    with Between(lambda heard: [*head, event] if b"stream" in heard.body else whole("200 OK", JSON, reply)) as between:
        for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"):
            for body in (deep, asked % (deep, b"1"), asked % (b'"Hi"', deep)):
                status, _, answer = between.ask("POST", path, [], body)
                assert (status, answer) == (200, reply), (path, body[:60])
                assert between.upstream.heard[-1].body.replace(b" ", b"") == body.replace(b" ", b"")
        streamed = json.dumps({**SAID, "stream": True}).encode()
        assert between.ask("POST", "/v1/chat/completions", [], streamed)[2] == event


def test_a_websocket_is_refused_with_the_way_out() -> None:
    """With 426, on which Codex goes on over HTTP at once."""
    with Between(lambda _: whole("200 OK", [], b"plain")) as between:
        status, headers, answer = between.ask(
            "GET", "/v1/responses", [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "x")]
        )
        assert between.upstream.heard == []
    assert status == 426
    assert ("upgrade", "HTTP/1.1") in headers
    assert "supports_websockets = false" in json.loads(answer)["error"]["message"]


def test_a_client_that_leaves_in_mid_stream_ends_the_upstreams_too() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "word "}}]}
    event = b"data: " + json.dumps(chunk).encode() + b"\n\n"

    def endless(_: Heard) -> Any:
        yield head
        while True:
            yield b"%x\r\n%b\r\n" % (len(event), event)

    asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    body = json.dumps(asked).encode()
    with Between(endless) as between:
        with socket.create_connection(("127.0.0.1", urlsplit(between.url).port or 0)) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
            client.sendall(body)
            assert b"word" in client.recv(65536) + client.recv(65536)
        assert between.upstream.hung_up.wait(20)


JSON = [("Content-Type", "application/json")]
SAID: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hi 上海"}]}
REPLY = json.dumps(as_reply("Hello.", "openai")).encode()


@pytest.mark.parametrize(
    ("path", "base", "reached"),
    [
        (
            "/openai/deployments/d/chat/completions?api-version=2024-10-21",
            "",
            "/openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
        ("/api/v1/chat/completions", "", "/api/v1/chat/completions"),
        ("/v1/chat/completions", "/some/proxy/", "/some/proxy/v1/chat/completions"),
    ],
)
def test_a_path_before_the_wires_own_end_stays_and_the_request_has_memory(path: str, base: str, reached: str) -> None:
    with Between(lambda _: whole("200 OK", [("Content-Type", "application/json")], REPLY), path=base) as between:
        status, headers, _ = between.ask("POST", path, [("Api-Key", "k")], json.dumps(SAID).encode())
        heard = between.upstream.heard[0]
    assert (status, dict(headers)["offprompt-memory"]) == (200, "on")
    assert heard.line == f"POST {reached} HTTP/1.1"
    assert heard.values("api-key") == ["k"]


@pytest.mark.parametrize(
    ("coding", "pack", "memory"),
    [  # bytes: as it is
        ("gzip", gzip.compress, "on"),
        ("deflate", zlib.compress, "on"),
        ("gzip", bytes, "off; the body is not gzip"),
        ("br", bytes, "off; the body is compressed in a way that is not read here, 'br'; gzip is"),
    ],
)
def test_a_compressed_request_is_read_or_goes_through_as_it_came(coding: str, pack: Any, memory: str) -> None:
    body = pack(json.dumps(SAID).encode())
    with Between(lambda _: whole("200 OK", [("Content-Type", "application/json")], REPLY)) as between:
        _, headers, _ = between.ask("POST", "/v1/chat/completions", [("Content-Encoding", coding)], body)
        heard = between.upstream.heard[0]
    assert dict(headers)["offprompt-memory"] == memory
    if memory == "on":
        assert json.loads(heard.body)["messages"] == SAID["messages"]
        assert heard.values("content-encoding") == []
    else:
        assert (heard.body, heard.values("content-encoding")) == (body, [coding])


def test_a_body_that_grows_without_end_as_it_is_unpacked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offprompt.gateway.request.MAX_BODY_BYTES", 100_000)
    with Between(lambda _: whole("200 OK", [], b"ok")) as between:
        packed = gzip.compress(b" " * 1_000_000)
        status, _, answer = between.ask("POST", "/v1/chat/completions", [("Content-Encoding", "gzip")], packed)
        assert between.upstream.heard == []
    assert status == 413
    assert b"100,000 bytes" in answer


def test_a_redirect_is_the_clients_to_follow() -> None:
    with Between(lambda _: whole("307 Temporary Redirect", [("Location", "https://x.example/")], b"")) as between:
        status, headers, _ = between.ask("POST", "/v1/chat/completions", [], json.dumps(SAID).encode())
        assert len(between.upstream.heard) == 1
    assert (status, dict(headers)["location"]) == (307, "https://x.example/")


def test_an_upload_of_parts_goes_on_while_it_comes() -> None:
    """Its first piece is at the upstream before the client sends the last one."""
    kind = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 12"
    head = f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n\r\n"
    arrived, pieces = threading.Event(), list[bytes]()

    def listening(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            while not b"".join(pieces).endswith(b"abcdefghijkl"):
                pieces.append(connection.recv(65536))
                if b"abcdef" in b"".join(pieces):
                    arrived.set()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with offprompt.open(":memory:") as memory, socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listening, args=(listener,))
        thread.start()
        upstream = f"http://127.0.0.1:{listener.getsockname()[1]}"
        made = gateway_for(memory, ("127.0.0.1", "127.0.0.1"), GatewayOptions(upstreams=(upstream,)))
        with served(made) as url, socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as client:
            client.sendall(head.encode() + b"abcdef")
            assert arrived.wait(20)
            client.sendall(b"ghijkl")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
        thread.join()
