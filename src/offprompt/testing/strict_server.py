"""The strict upstreams on loopback, for the providers' real clients."""

from __future__ import annotations

import json
import random
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from types import TracebackType
from typing import Any, Final, Self

from offprompt.records import as_dict
from offprompt.testing.strict import Model, RefusedError, StrictUpstream
from offprompt.testing.strict_chunks import Delivery, StrictWire
from offprompt.wire.prices import PriceSheet

PATHS: Final[dict[str, StrictWire]] = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}
MAX_BYTES_AT_ONCE: Final = 40

Answers = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Trouble:
    """What one request meets instead of its answer.

    status   an error of that status, with `headers` and a message. text: these words in place of JSON, with status 200.
    drop     the connection is closed without a word. cut: behind so many bytes of the answer's body.
    hang     nothing comes until the client goes away; `StrictServer.left` counts that.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    says: str = "trouble"
    text: str | None = None
    drop: bool = False
    cut: int | None = None
    hang: bool = False


class StrictServer:
    """All three wires of `StrictUpstream` on one port; use it in a `with` block.

    url        `http://127.0.0.1:PORT`; the OpenAI client wants `/v1` behind it.
    upstreams  by wire; their options are the constructor's. `delivery` sets how all of them stream.
    answers    what stands at other paths, by method and path, such as `POST /v1/embeddings`.
    heard      told the key that each request brings.
    troubles   what the next requests meet, one after the other; behind the last all is well.
    Streams    go out in pieces of any number of bytes. A cut one ends as if it were whole; a stalled one breaks off,
               which clients report as a lost connection.
    """

    def __init__(self, model: Model, *, sheet: PriceSheet | None = None, binding: bool = False) -> None:
        self.upstreams = {wire: StrictUpstream(wire, model, sheet=sheet, binding=binding) for wire in PATHS.values()}
        self.requests: list[dict[str, Any]] = []
        self.answers: dict[str, Answers] = {}
        self.troubles: list[Trouble] = []
        self.heard: Callable[[str | None], object] = lambda _: None
        self.left = 0
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def faults(self) -> list[str]:
        """Why requests were refused, on any wire."""
        return [fault for upstream in self.upstreams.values() for fault in upstream.faults]

    def deliver(self, delivery: Delivery) -> None:
        """How streams come from now on."""
        for upstream in self.upstreams.values():
            upstream.delivery = delivery

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def hang(self, client: socket.socket) -> None:
        """Say nothing until the client goes away, or this server ends."""
        while not self._closing.is_set():
            readable, _, _ = select.select([client], [], [], 0.02)
            if readable and not client.recv(1):
                self.left += 1
                return

    def upstream_at(self, path: str) -> StrictUpstream:
        """The upstream of a path.

        Raises   RefusedError with status 404 for another path.
        """
        wire = PATHS.get(path)
        if wire is None:
            raise RefusedError(404, {"error": {"message": f"no such path: {path}", "type": "not_found_error"}})
        return self.upstreams[wire]


class _Handler(BaseHTTPRequestHandler):
    """One connection, with one request."""

    protocol_version = "HTTP/1.1"

    def __init__(self, strict: StrictServer, *connection: Any) -> None:
        self._strict = strict
        super().__init__(*connection)

    def do_GET(self) -> None:
        self.close_connection = True
        self._other("GET", {})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = as_dict(json.loads(self.rfile.read(length))) or {}
        self.close_connection = True
        self._strict.requests.append(body)
        self._strict.heard(self.headers.get("authorization") or self.headers.get("x-api-key"))
        trouble = self._strict.troubles.pop(0) if self._strict.troubles else Trouble()
        if trouble.cut is not None:
            self.wfile = _Cut(self.wfile, trouble.cut)  # type: ignore[assignment]
        if trouble.hang:
            self._strict.hang(self.connection)
        elif trouble.text is not None:
            self._send(200, trouble.text.encode(), "text/html", trouble.headers)
        elif trouble.status:
            self._whole(trouble.status, {"error": {"message": trouble.says}}, trouble.headers)
        elif not trouble.drop:
            with suppress(_BrokenOffError):
                self._answer(body)

    def _answer(self, body: dict[str, Any]) -> None:
        path = self.path.partition("?")[0]
        if f"POST {path}" in self._strict.answers:
            self._other("POST", body)
            return
        try:
            upstream = self._strict.upstream_at(path)
            betas = [each.strip() for each in str(self.headers.get("anthropic-beta") or "").split(",")]
            if body.get("stream"):
                self._stream(upstream, upstream.stream(body, betas))
            else:
                self._whole(200, upstream.answer(body, betas))
        except RefusedError as exc:
            self._whole(exc.status, exc.body)

    def _other(self, method: str, body: dict[str, Any]) -> None:
        answer = self._strict.answers.get(f"{method} {self.path.partition('?')[0]}")
        if answer is None:
            self._whole(404, {"error": {"message": f"no such path: {self.path}", "type": "not_found_error"}})
        else:
            self._whole(200, answer(body))

    def _whole(self, status: int, reply: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(reply).encode(), "application/json", headers or {})

    def _send(self, status: int, data: bytes, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, upstream: StrictUpstream, chunks: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("connection", "close")
        self.end_headers()
        chance = random.Random(upstream.delivery.seed)  # noqa: S311 - places where tests cut bytes
        try:
            for event in _events(upstream, chunks):
                at = 0
                while at < len(event):
                    size = chance.randint(1, MAX_BYTES_AT_ONCE)
                    piece = event[at : at + size]
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.wfile.flush()
                    at += size
        except TimeoutError:
            return
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing is printed."""


class _BrokenOffError(Exception):
    """So far and no further."""


class _Cut:
    """A file that takes so many bytes behind the headers; the next one breaks it off."""

    def __init__(self, file: BufferedIOBase, left: int) -> None:
        self._file, self._left, self._in_body = file, left, False

    def write(self, data: bytes) -> int:
        if not self._in_body:
            # Headers come in one piece.
            self._in_body = True
            return self._file.write(data)
        self._file.write(data[: self._left])
        self._left -= len(data)
        if self._left < 0:
            self._file.flush()
            raise _BrokenOffError
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed


def _events(upstream: StrictUpstream, chunks: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """The stream as server-sent events."""
    for chunk in chunks:
        name = "" if upstream.wire == "openai" else f"event: {chunk['type']}\n"
        # Half a character, which UTF-8 cannot write, becomes its JSON escape.
        yield f"{name}data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode("utf-8", "backslashreplace")
    if upstream.wire == "openai" and upstream.delivery.cut is None:
        yield b"data: [DONE]\n\n"
