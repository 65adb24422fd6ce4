"""What is not ours goes through as it came: bytes, status, headers, in both directions."""

from __future__ import annotations

import gzip
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.between import Between
from tests.gateway.echo import Heard, whole


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


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"not json", "not JSON"),
        (b"[1]", "no JSON object"),
        (b'{"model": "m", "messages": []}', "no list of messages"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "n": 2}', "several replies"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "functions": [{"name": "f"}]}', "functions"),
        (b'{"model": "m", "messages": [{"role": "odd", "content": "x"}]}', "role"),
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
