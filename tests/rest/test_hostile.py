"""What clients send that they should not: each is answered as it must be, and the server goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from offprompt.rest import reading, serving
from offprompt.rest.reading import MAX_BODY_BYTES, MAX_DEPTH
from tests.rest.running import Running

WRITE = b"POST /mem/write HTTP/1.1\r\nHost: localhost\r\nOffprompt-User: u\r\nContent-Type: application/json\r\n"
READ = b"GET /mem/read?slot=none HTTP/1.1\r\nHost: localhost\r\nOffprompt-User: u\r\n\r\n"
GOOD = b'{"slot":"a","value":1}'


@pytest.fixture(autouse=True)
def _server_goes_on(server: Running) -> Iterator[None]:
    yield
    assert server.http.get("/health").json()["status"] == "ok"


class Answered:
    """What came back on a connection."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        head, _, self.body = raw.partition(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        self.status = int(line.split()[1]) if raw else 0
        self.headers = dict(one.lower().split(": ", 1) for one in rest)

    @property
    def detail(self) -> str:
        assert self.headers["content-type"] == "application/problem+json", self.raw
        return json.loads(self.body)["detail"]


def connected(server: Running) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), 30)


def talk(server: Running, *pieces: bytes, close: bool = True) -> Answered:
    """Send these pieces, and read until the server closes, or has answered once."""
    with connected(server) as sent:
        for piece in pieces:
            try:
                sent.sendall(piece)
            except ConnectionError:
                break
        if close:
            sent.shutdown(socket.SHUT_WR)
        return Answered(read_one(sent))


def read_one(sent: socket.socket) -> bytes:
    raw = b""
    while True:
        try:
            piece = sent.recv(65536)
        except ConnectionError:
            piece = b""
        raw += piece
        head, split, body = raw.partition(b"\r\n\r\n")
        length = next((line[16:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")), b"0")
        if not piece or (split and len(body) >= int(length) and b"chunked" not in head):
            return raw


def write(body: bytes, *headers: bytes) -> bytes:
    more = b"".join(header + b"\r\n" for header in headers)
    return WRITE + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_what_is_no_http_is_told_so(server: Running) -> None:
    for raw in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
        b"HELO example.com\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET  /health HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /health\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    ):
        answer = talk(server, raw, close=False)
        assert (answer.status, answer.headers["connection"]) == (400, "close"), raw
        assert "HTTP" in answer.detail


@pytest.mark.parametrize(
    "lengths",
    [
        (b"Content-Length: -1",),
        (b"Content-Length: x",),
        (b"Content-Length: 5", b"Content-Length: 6"),
        (b"Content-Length: 22", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked", b"Content-Length: 22"),
        (b"Transfer-Encoding: identity, chunked, identity",),
        (b"Content-Length: 99999999999999999999999999",),
    ],
    ids=range(7),
)
def test_lengths_that_can_be_read_in_two_ways_are_refused(server: Running, lengths: tuple[bytes, ...]) -> None:
    answer = talk(server, WRITE + b"\r\n".join(lengths) + b"\r\n\r\n" + GOOD, close=False)
    assert answer.status == 400
    assert b"version" not in answer.body


def test_a_body_shorter_than_it_says_is_not_taken(server: Running) -> None:
    assert talk(server, WRITE + b"Content-Length: 100\r\n\r\n" + GOOD).status in (0, 400)
    assert server.ask("GET", "/mem/read", user="u", params={"slot": "a"}).status_code == 404


def test_what_is_behind_a_body_is_the_next_request(server: Running) -> None:
    with connected(server) as sent:
        sent.sendall(write(b'{"slot":"piped","value":1}') + READ.replace(b"slot=none", b"slot=piped"))
        raw = b""
        while raw.count(b"HTTP/1.1 200") < 2 or not raw.endswith(b"}"):
            raw += sent.recv(65536)
    assert [part in raw for part in (b'"version":1', b'"value":1')] == [True, True]


def test_a_body_over_the_limit_is_refused_before_it_is_read(server: Running) -> None:
    answer = talk(server, WRITE + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), close=False)
    assert answer.status == 413
    assert f"{MAX_BODY_BYTES:,}" in answer.detail


def test_a_chunked_body_is_refused_as_soon_as_it_is_over_the_limit(server: Running) -> None:
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    answer = talk(server, WRITE + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 9, close=False)
    assert answer.status == 413


def test_a_chunked_body_is_read(server: Running) -> None:
    head = WRITE + b"Transfer-Encoding: chunked\r\n\r\n"
    pieces = [b"%x\r\n%s\r\n" % (1, GOOD[at : at + 1]) for at in range(len(GOOD))]
    assert talk(server, head, *pieces, b"0\r\n\r\n", close=False).status == 200
    assert talk(server, head, b"zz\r\n", close=False).status in (0, 400)


def test_a_client_that_asks_first_is_told_to_go_on_or_not(server: Running) -> None:
    expect = b"Expect: 100-continue\r\n"
    with connected(server) as sent:
        sent.sendall(WRITE + expect + b"Content-Length: %d\r\n\r\n" % len(GOOD))
        assert sent.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sent.sendall(GOOD)
        assert Answered(read_one(sent)).status == 200
    refused = talk(server, WRITE + expect + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), close=False)
    assert refused.status == 413


def test_long_heads_are_refused(server: Running) -> None:
    many = b"".join(b"X-%d: 1\r\n" % number for number in range(200))
    for raw, status in (
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET /health HTTP/1.1\r\nX: " + b"a" * 40000 + b"\r\n\r\n", 431),
        (b"GET /health HTTP/1.1\r\n" + many + b"\r\n", 431),
    ):
        answer = talk(server, raw, close=False)
        assert (answer.status, answer.headers["connection"]) == (status, "close")
    endless = talk(server, b"GET /health HTTP/1.1\r\nX: ", *[b"a" * 8000] * 100, close=False)
    assert endless.status in (0, 431)


def test_a_slow_head_and_a_slow_body_end(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_S", 0.05)
    monkeypatch.setattr(reading, "BODY_S", 0.05)
    assert talk(server, close=False).status == 408
    assert talk(server, b"GET /hea", close=False).status == 408
    assert talk(server, WRITE + b"Content-Length: 50\r\n\r\n{", close=False).status == 408
    with connected(server) as sent:
        sent.sendall(READ)
        assert Answered(read_one(sent)).status == 404
        sent.sendall(b"GET /hea")
        assert Answered(read_one(sent)).status == 408


def test_no_more_connections_than_may_be(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 0)
    answer = talk(server, close=False)
    monkeypatch.undo()
    assert (answer.status, answer.headers["connection"]) == (503, "close")


def test_upgrades_are_not_taken_up(server: Running) -> None:
    for more in (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
    ):
        answer = talk(server, READ[:-2] + more, close=False)
        assert (answer.status, answer.headers["connection"]) == (404, "close")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"nul", 400),
        (b'{"slot":"a","value":NaN}', 400),
        (b'{"slot":"a","value":-Infinity}', 400),
        (b'{"slot":"a","value":1e999}', 422),
        (b'{"slot":"a","value":1}{}', 400),
        (b'{"slot":"a","value":1,"value":2}', 400),
        (b'{"slot":"a","value":{"x":[{"y":1,"y":1}]}}', 400),
        (b'{"slot":"a","slot":"b","value":1}', 400),
        (b'{"slot":"a","value":"\xff"}', 400),
        (b'{"slot":"a","value":"\\ud800"}', 400),
        (b'{"slot":"a","value":"\xed\xa0\x80"}', 400),
        (b'\xef\xbb\xbf{"slot":"a","value":1}', 400),
        ('{"slot":"a","value":1}'.encode("utf-16"), 400),
        (b'{"slot":"a","value":' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}", 400),
        (b"[" * 100_000, 422),
        (b'{"slot":"a","value":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}", 400),
        (b'{"slot":"a","value":1' + b"0" * 5000 + b"}", 422),
        (b"[]", 422),
        (b'"text"', 422),
        (b'{"slot":1,"value":1}', 422),
        (b'{"slot":"a"}', 422),
        (b'{"slot":"a","value":1,"more":1}', 422),
        (b'{"slot":"a\\u0000","value":1}', 422),
        (b'{"slot":"","value":1}', 422),
        (b'{"slot":"a","value":"[[[[[[[\\"' + b"[" * 200 + b'"}', 200),
        (b'{"slot":"a","value":"\\u0000"}', 200),
        (b' {"slot" : "a" , "value" : null}\r\n', 200),
    ],
    ids=range(29),
)
def test_bodies(server: Running, body: bytes, status: int) -> None:
    answer = server.ask("POST", "/mem/write", user="b", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    if status != 200:
        assert answer.json()["status"] == status


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonx", 415),
        ("application/json; charset=latin-1", 415),
        ("application/json; charset=utf-8", 200),
        ('Application/JSON; Charset="UTF-8"', 200),
    ],
)
def test_types_of_bodies(server: Running, given: str, status: int) -> None:
    headers = {"Content-Type": given} if given else {}
    assert server.ask("POST", "/mem/write", user="t", content=GOOD, headers=headers).status_code == status


def test_a_packed_body_is_refused(server: Running) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert server.ask("POST", "/mem/write", user="t", content=GOOD, headers=headers).status_code == 415


def test_a_body_where_none_is_read_is_not_passed_over(server: Running) -> None:
    server.ask("PUT", "/v1/slots/city", user="n", json={"value": 1})
    for method, path in (("POST", "/v1/slots/city/erase"), ("DELETE", "/v1/slots/city"), ("GET", "/v1/slots/city")):
        refused = server.ask(method, path, user="n", json={"within": "subtree"})
        assert (refused.status_code, "takes no body" in refused.text) == (400, True)
    chunked = (piece for piece in (b"{", b"}"))
    assert server.ask("POST", "/v1/slots/city/erase", user="n", content=chunked).status_code == 400


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("*/*", 404),
        ("application/*", 404),
        ("text/html, application/json;q=0.5", 404),
        ("application/json;q=0", 406),
        ("text/html", 406),
        ("application/xml, text/*", 406),
    ],
)
def test_types_of_answers(server: Running, given: str, status: int) -> None:
    answer = server.ask("GET", "/mem/read", user="nobody", params={"slot": "a"}, headers={"Accept": given})
    assert answer.status_code == status


@pytest.mark.parametrize("path", ["/v1/slots/城市", "/mem/read?slot=城市"])
def test_an_address_with_letters_as_they_are_is_told_how_they_are_written(server: Running, path: str) -> None:
    answer = talk(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nOffprompt-User: p\r\n\r\n".encode(), close=False)
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert "percent-encoded" in answer.raw.decode()
    assert "城市 is %E5%9F%8E%E5%B8%82" in json.loads(answer.raw.partition(b"\r\n\r\n")[2])["detail"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/slots/%ff", 400),
        ("/v1/slots/%E4%B8", 400),
        ("/v1/slots/%zz", 422),
        ("/v1/slots/a%2Fb", 422),
        ("/v1/slots/..%2F..%2Fetc", 422),
        ("/v1/slots/%00", 422),
        ("/v1/slots/", 404),
        ("/v1//slots", 404),
        ("/v1/slots/a/b/c", 404),
        ("/v1/../health", 404),
        ("//health", 404),
        ("/health/", 404),
        ("/HEALTH", 404),
        ("/mem/read?slot=%ff", 400),
        ("/mem/read?slot=a&slot=b", 400),
        ("/mem/read?slot=a&more=1", 400),
        ("/mem/read?", 400),
        ("/mem/read?slot", 400),
        ("/v1/slots?since=soon", 400),
        ("/v1/slots?since=nan", 400),
        ("/v1/slots?tags=a&tags=b", 200),
        ("/v1/slots/a?touch=maybe", 400),
        ("/health?x=1", 400),
    ],
)
def test_addresses(server: Running, path: str, status: int) -> None:
    raw = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nOffprompt-User: p\r\n\r\n".encode()
    answer = talk(server, raw, close=False)
    assert answer.status == status, answer.raw
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "headers",
    [
        [("Offprompt-User", "a"), ("Offprompt-User", "b")],
        [("Offprompt-User", "%ff")],
        [("Offprompt-User", "%00")],
        [("Offprompt-User", "")],
        [("Offprompt-User", "\u00e9")],
        [("Offprompt-User", "a" * 300)],
        [("Offprompt-User", "a"), ("Offprompt-Users", "b")],
        [("Offprompt-User", "a"), ("Offprompt-Agent-Id", "b")],
        [("Offprompt-User", "a"), ("Offprompt-Shared", "yes")],
        [("Offprompt-User", "a"), ("Offprompt-Shared", "true")],
        [("Offprompt-User", "a"), ("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
        [],
    ],
    ids=range(12),
)
def test_headers(server: Running, headers: list[tuple[str, str]]) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    answer = server.http.get("/mem/read", params={"slot": "a"}, headers=raw)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/health", "GET, HEAD, OPTIONS"),
        ("DELETE", "/mem/write", "OPTIONS, POST"),
        ("TRACE", "/v1/slots/a", "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("PROPFIND", "/v1/slots", "GET, HEAD, OPTIONS"),
    ],
)
def test_methods_that_a_path_has_not(server: Running, method: str, path: str, allowed: str) -> None:
    answer = server.ask(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_head_and_options(server: Running) -> None:
    server.ask("PUT", "/v1/slots/city", user="h", json={"value": "上海"})
    whole = server.ask("GET", "/v1/slots/city", user="h", params={"touch": "false"})
    head = server.ask("HEAD", "/v1/slots/city", user="h", params={"touch": "false"})
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "etag"):
        assert head.headers[name] == whole.headers[name]
    assert server.ask("HEAD", "/v1/slots/none", user="h").status_code == 404
    options = server.http.options("/v1/slots/city", headers={"Origin": "https://example.com"})
    assert (options.status_code, options.content) == (204, b"")
    assert options.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PUT"
    assert not [name for name in options.headers if name.startswith("access-control-")]
    assert server.http.options("/nothing").status_code == 404


def test_the_server_does_not_say_what_it_is_made_of(server: Running) -> None:
    assert "server" not in server.http.get("/health").headers


def test_an_error_that_nobody_expected_says_nothing_of_itself(
    server: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a secret")

    monkeypatch.setattr("offprompt.service.slots.Slots.read", broken)
    answer = server.ask("GET", "/mem/read", params={"slot": "a"})
    assert (answer.status_code, answer.json()["code"]) == (500, "OffpromptError")
    assert "secret" not in answer.text
    assert "mem_read" in caplog.text
