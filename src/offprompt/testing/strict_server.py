"""The strict upstreams on loopback, for the providers' real clients."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class StrictServer:
    """All three wires of `StrictUpstream` on one port; use it in a `with` block.

    url        `http://127.0.0.1:PORT`; the OpenAI client wants `/v1` behind it.
    upstreams  by wire; their options are the constructor's. `delivery` sets how all of them stream.
    Streams    go out in pieces of any number of bytes. A cut one ends as if it were whole; a stalled one breaks off,
               which clients report as a lost connection.
    """

    def __init__(self, model: Model, *, sheet: PriceSheet | None = None, binding: bool = False) -> None:
        self.upstreams = {wire: StrictUpstream(wire, model, sheet=sheet, binding=binding) for wire in PATHS.values()}
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
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
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def upstream_at(self, path: str) -> StrictUpstream:
        """The upstream of a path.

        Raises   RefusedError with status 404 for another path.
        """
        wire = PATHS.get(path)
        if wire is None:
            raise RefusedError(404, {"error": {"message": f"no such path: {path}", "type": "not_found_error"}})
        return self.upstreams[wire]


def _handler(server: StrictServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = as_dict(json.loads(self.rfile.read(length))) or {}
            self.close_connection = True
            server.requests.append(body)
            try:
                upstream = server.upstream_at(self.path.partition("?")[0])
                betas = [each.strip() for each in str(self.headers.get("anthropic-beta") or "").split(",")]
                if body.get("stream"):
                    self._stream(upstream, upstream.stream(body, betas))
                else:
                    self._whole(200, upstream.answer(body, betas))
            except RefusedError as exc:
                self._whole(exc.status, exc.body)

        def _whole(self, status: int, reply: dict[str, Any]) -> None:
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
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

    return Handler


def _events(upstream: StrictUpstream, chunks: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """The stream as server-sent events."""
    for chunk in chunks:
        name = "" if upstream.wire == "openai" else f"event: {chunk['type']}\n"
        # Half a character, which UTF-8 cannot write, becomes its JSON escape.
        yield f"{name}data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode("utf-8", "backslashreplace")
    if upstream.wire == "openai" and upstream.delivery.cut is None:
        yield b"data: [DONE]\n\n"
