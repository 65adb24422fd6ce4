"""Watched: what an operator learns of each request, around the application: log, metrics, traces.

None of it holds what a client chose: no path, query, header or body, but the template of the route, ids of keys and
apps that the server itself gave out, and numbers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final, Protocol, TypeAlias

AsgiScope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER: Final = "other"
"""For a method or route that is none of ours: what was sent instead is the client's text."""

GONE: Final = 499
"""Status of a request whose client left before the answer began."""


class Named(Protocol):
    """A route: what the application calls it, and its template."""

    @property
    def name(self) -> str:
        """Its name in the application."""
        ...

    @property
    def path(self) -> str:
        """Its template."""
        ...


@dataclass(slots=True)
class Seen:
    """One request, as far as it is known.

    route     the template, such as `/v1/slots/{name}`. status: 0 until the answer begins.
    seconds   from the first byte that reached the application to the last that left it. whole: whether it did.
    bytes_in, bytes_out   of the bodies.
    key, app  of whose identity it was; "" without one. code: the class of the error that was answered, or "".
    memory    of a gateway's request: `on`, `off` or `refused`; else "".
    trace     the id of the trace it belongs to, or "".
    """

    request: str
    method: str
    route: str = OTHER
    status: int = 0
    seconds: float = 0.0
    whole: bool = False
    bytes_in: int = 0
    bytes_out: int = 0
    key: str = ""
    app: str = ""
    code: str = ""
    memory: str = ""
    trace: str = ""


class Watcher(Protocol):
    """Who is told of requests. Called in the event loop: neither may wait for anything."""

    def begun(self, seen: Seen) -> None:
        """A request came; of `seen` only `request` and `method` are known."""
        ...

    def ended(self, seen: Seen) -> None:
        """It was answered, or its client left."""
        ...


class Spans(Protocol):
    """Who puts a request under a span of a trace."""

    def span(self, headers: Iterable[tuple[bytes, bytes]], seen: Seen) -> AbstractContextManager[None]:
        """For the time of the request; sets `seen.trace`, and reads `seen` as it is left. headers: as they came."""
        ...

    def close(self) -> None:
        """Hand on what was not handed on yet."""
        ...


class Watched:
    """An ASGI application around another one.

    Puts `offprompt.request` (the request's id) into the scope and a `header` into the answer's; reads
    `offprompt.endpoint` (its name), `offprompt.identity`, `offprompt.problem` (the class of an error) and
    `offprompt.memory` afterwards.
    Ids are made here: one that a client sends could hold anything; whoever has one sends it as `traceparent`.
    """

    def __init__(
        self,
        application: Application,
        endpoints: Iterable[Named],
        *,
        watchers: Iterable[Watcher] = (),
        spans: Spans | None = None,
        header: bytes = b"request-id",
    ) -> None:
        self._application, self._header = application, header
        self._routes: Mapping[str, str] = {one.name: one.path for one in endpoints}
        self._watchers, self._spans = tuple(watchers), spans
        self._name, self._count = token_hex(4), itertools.count(1)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Hand the request on, and tell of it in the end."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            if self._spans is not None:
                self._spans.close()
            return
        method: str = scope["method"]
        seen = Seen(f"{self._name}{next(self._count):08x}", method if method in METHODS else OTHER)
        scope["offprompt.request"] = seen.request
        begun = time.perf_counter()
        for watcher in self._watchers:
            watcher.begun(seen)
        try:
            with nullcontext() if self._spans is None else self._spans.span(scope["headers"], seen):
                try:
                    await self._application(scope, _counted_in(receive, seen), _counted_out(send, seen, self._header))
                finally:
                    self._learn(scope, seen, time.perf_counter() - begun)
        finally:
            for watcher in self._watchers:
                watcher.ended(seen)

    def _learn(self, scope: AsgiScope, seen: Seen, seconds: float) -> None:
        seen.seconds = seconds
        seen.route = self._routes.get(scope.get("offprompt.endpoint", ""), OTHER)
        seen.status = seen.status or GONE
        seen.code, seen.memory = scope.get("offprompt.problem", ""), scope.get("offprompt.memory", "")
        identity = scope.get("offprompt.identity")
        if identity is not None:
            seen.key, seen.app = identity.key, identity.app


def _counted_in(receive: Receive, seen: Seen) -> Receive:
    async def counted() -> Message:
        message = await receive()
        seen.bytes_in += len(message.get("body", b""))
        return message

    return counted


def _counted_out(send: Send, seen: Seen, header: bytes) -> Send:
    async def counted(message: Message) -> None:
        if message["type"] == "http.response.start":
            seen.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (header, seen.request.encode())]
        elif message["type"] == "http.response.body":
            seen.bytes_out += len(message.get("body", b""))
            seen.whole = not message.get("more_body", False)
        await send(message)

    return counted
