"""Serving: one process that answers on a socket until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import Any, Final, Protocol, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from offprompt.errors import BackendError, UsageError
from offprompt.rest.answering import GONE
from offprompt.rest.problems import plain_refusal

LOG: Final = logging.getLogger("offprompt.rest")
STOP_S: Final = 30.0
HEAD_S: Final = 20.0
"""Seconds for the head of a request, from the connection or from the head's first byte."""
IDLE_S: Final = 75
"""Seconds after which a connection on which nothing is asked is closed: longer than proxies keep theirs."""
MAX_HEAD_BYTES: Final = 32 * 1024
MAX_TARGET_BYTES: Final = 8 * 1024
MAX_HEADERS: Final = 100
MAX_SPILLED_BYTES: Final = 64 * 1024 * 1024
MAX_CONNECTIONS: Final = 4000
OTHER_FILES: Final = 256
"""Files that are open beside connections: of stores, logs, libraries."""
CLOSING_S: Final = 2
LATE_S: Final = 5.0
"""Seconds beyond its limit, and what closes the store, after which a process that was told to stop is ended."""
NO_HTTP: Final = (
    "this is no HTTP/1.1 request; send one, and what its address holds beyond ASCII percent-encoded: "
    "城市 is %E5%9F%8E%E5%B8%82"
)
NOT_ENDED: Final = 1
BACKLOG: Final = 1024
FORCED: Final = 128


class Application(Protocol):
    """What is served: an ASGI application that can be told to take no more."""

    @property
    def running(self) -> int:
        """Requests under way."""
        ...

    def drain(self) -> None:
        """Take no more requests."""
        ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        ...


class Serving(uvicorn.Server):
    """A server over an application. The first SIGTERM or SIGINT stops it when all is answered; a second one at once.

    around      puts something around the application, such as its log.
    stop_s      seconds for what runs when it is told to stop; then it is broken off.
    parent      a file descriptor that is at its end when the process has nobody who looks after it any more.
    on_started  called when it listens.
    """

    def __init__(
        self,
        app: Application,
        *,
        around: Callable[[Any], Any] | None = None,
        stop_s: float = STOP_S,
        parent: int | None = None,
        on_started: Callable[[], None] | None = None,
    ) -> None:
        self._app, self._stop_s, self._parent, self._on_started = app, stop_s, parent, on_started
        self._stop_at: float | None = None
        super().__init__(
            uvicorn.Config(
                app if around is None else around(app),
                http=Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=IDLE_S,
                timeout_graceful_shutdown=CLOSING_S,
            )
        )

    def stop(self) -> None:
        """Take no more requests, and end when those that run are answered."""
        if self._stop_at is None:
            self._app.drain()
            self._stop_at = time.monotonic() + self._stop_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: uvicorn calls it."""
        del frame
        if self._parent is not None and sig == signal.SIGINT:
            return  # Ctrl-C reaches all processes at once, and the parent tells this one to stop
        if self._stop_at is not None:
            os._exit(FORCED + sig)
        self._end()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's; then says that it listens."""
        await super().startup(sockets)
        if self._parent is not None:
            asyncio.get_running_loop().add_reader(self._parent, self._orphaned)
        if self._on_started is not None:
            self._on_started()

    async def on_tick(self, counter: int) -> bool:
        """Whether to end now; asked ten times a second."""
        if await super().on_tick(counter):
            return True
        if self._stop_at is None:
            return False
        if self._app.running and time.monotonic() < self._stop_at:
            return False
        if self._app.running:
            LOG.warning("stopped with %d requests that took longer than %g s", self._app.running, self._stop_s)
        return True

    def _orphaned(self) -> None:
        if self._parent is not None:
            asyncio.get_running_loop().remove_reader(self._parent)
        self._end()

    def _end(self) -> None:
        """Stop, and see to it that the process ends though a thread of it waits for a store that does not answer."""
        self.stop()
        late = threading.Timer(self._stop_s + LATE_S, os._exit, (NOT_ENDED,))
        late.daemon = True
        late.start()


class Connection(HttpToolsProtocol):
    """One connection: heads are bounded in bytes and time, and what is no HTTP is answered with a problem."""

    _head_bytes = 0
    _spilled = 0
    _in_head = False
    _slow: asyncio.TimerHandle | None = None
    _refusal = (400, NO_HTTP)

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client is there."""
        super().connection_made(transport)
        most = min(MAX_CONNECTIONS, room_for_connections())
        if len(self.connections) > most:
            self._refuse(503, f"more than {most:,} connections; try again soon")
            return
        self._slow = self.loop.call_later(HEAD_S, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone; a stream that is still sent has nobody to go to."""
        self._on_time()
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None:
            cast("dict[str, Any]", cycle.scope)[GONE] = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes: of the head of a request no more than MAX_HEAD_BYTES are taken."""
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, f"the head has more than {MAX_HEAD_BYTES:,} bytes; send fewer or shorter headers")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._head_bytes, self._spilled = True, 0, 0
        if self._slow is None:
            self._slow = self.loop.call_later(HEAD_S, self._too_slow)

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._on_time()
        self._in_head = False
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.url) > MAX_TARGET_BYTES:
            self._refusal = 414, f"the address has more than {MAX_TARGET_BYTES:,} bytes; put what is long into the body"
        elif len(self.headers) > MAX_HEADERS or size > MAX_HEAD_BYTES:
            self._refusal = 431, f"more than {MAX_HEADERS} headers or {MAX_HEAD_BYTES:,} bytes; send fewer or shorter"
        else:
            super().on_headers_complete()
            return
        raise ValueError(self._refusal[1])

    def on_body(self, body: bytes) -> None:
        """A piece of its body. When it is answered already the rest is thrown away, so that the client gets to read."""
        if self.cycle.response_complete:
            self._spilled += len(body)
            if self._spilled > MAX_SPILLED_BYTES:
                self.transport.close()
            return
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, or one that was refused while it was read; uvicorn calls it."""
        del msg
        self._refuse(*self._refusal)

    def _unsupported_upgrade_warning(self) -> None:
        """An upgrade is not taken up, as HTTP allows: the request is answered as it stands, and nothing behind it."""
        self.cycle.keep_alive = False

    def _refuse(self, status: int, detail: str) -> None:
        self._on_time()
        before = cast("RequestResponseCycle | None", self.cycle)
        if before is None or before.response_complete:
            self.transport.write(plain_refusal(status, detail))
        self.transport.close()

    def _on_time(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        if not self.transport.is_closing():
            self._refuse(408, f"the head did not come within {HEAD_S:g} s; send it at once")


@cache
def room_for_connections() -> int:
    """How many connections this process may hold by the system's limit of open files, which is raised if that may be.

    Without it the system would refuse to accept, and clients would wait for nothing.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, soft - OTHER_FILES)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. port: 0 for any that is free.

    Raises   UsageError for an address that is not one of this machine; BackendError for a port that is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as exc:
        raise UsageError(f"the host {host!r} is no address of this machine; write 127.0.0.1, ::1 or 0.0.0.0") from exc
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as exc:
        bound.close()
        raise BackendError(
            f"cannot listen on {host}:{port}: {os.strerror(exc.errno or 0)}; another server may have the port: "
            "stop it, or take another one with --port"
        ) from exc
    bound.set_inheritable(True)
    return bound


def url_of(bound: socket.socket) -> str:
    """The address under which the socket is reached."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: Application, *bound: socket.socket, **options: Any) -> None:
    """Serve on these sockets until told to stop; see Serving for the options."""
    server = Serving(app, **options)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=list(bound))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
