"""The application: what asks a model goes through the memory, all else goes through."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakValueDictionary

from offprompt.errors import AccessError, BackendError, ConflictError, OffpromptError, ScopeError
from offprompt.gateway.asked import THREADED, Asked, NotOursError, ThreadedError, model_in, taken, wire_of
from offprompt.gateway.exchange import EVENTS, Begun, Exchange
from offprompt.gateway.unremembered import CHAINED, ResponseIds, bounded
from offprompt.gateway.upstream import Answered, Pairs, Upstreams, passed_on, plain_headers
from offprompt.gateway.who import Who
from offprompt.records import compact
from offprompt.rest.problems import RequestError, problem_of
from offprompt.service.agent_stream import in_thread
from offprompt.wire.shapes import Wire

AsgiScope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOG: Final = logging.getLogger("offprompt.gateway")
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
ERROR_TYPES: Final = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How the gateway works.

    head           our tools and instructions come once the user has memory or something leaves the prompt, or always.
    without_scope  a request that names no memory is refused, or goes through as it is (`pass`).
    on_trouble     where the memory fails or is too slow, the request goes through as it is, or is refused.
    deadline_s     seconds that the memory may take before a request is sent.
    """

    head: Literal["as_needed", "always"] = "as_needed"
    without_scope: Literal["refuse", "pass"] = "refuse"
    on_trouble: Literal["pass", "refuse"] = "pass"
    deadline_s: float = 10.0


class TroubleError(Exception):
    """The memory does not do its part; the message says why."""


@dataclass(slots=True)
class Request:
    """A client's request. path: with its query."""

    method: str
    path: str
    headers: Pairs
    receive: Receive
    named: Mapping[str, str] = field(init=False)
    is_read: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.named = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers}

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Its body as it comes."""
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client is gone")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                self.is_read.set()
                return

    async def gone(self) -> None:
        """Waits until the client has left."""
        await self.is_read.wait()
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def body(self) -> bytes:
        """All of its body.

        Raises   RequestError for more than MAX_BODY_BYTES.
        """
        parts, size = list[bytes](), 0
        async for piece in self.pieces():
            parts.append(piece)
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise RequestError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {MAX_BODY_BYTES:,} bytes; send less"
                )
        return b"".join(parts)


class Gateway:
    """The ASGI application.

    check    of every request's headers: raises ForbiddenError for one that may not come from where it comes.
    running  requests that are not answered to the end yet. is_draining: no more are taken.
    """

    def __init__(
        self,
        who: Who,
        upstreams: Upstreams,
        options: GatewayOptions,
        check: Callable[[Mapping[str, str]], None] | None = None,
    ) -> None:
        self._who, self._upstreams, self._options, self._check = who, upstreams, options, check
        self._locks: WeakValueDictionary[tuple[object, str], asyncio.Lock] = WeakValueDictionary()
        self._ids = ResponseIds(who.memory.parts.coordinator)
        self.running = 0
        self.is_draining = False

    def drain(self) -> None:
        """Take no more requests."""
        self.is_draining = True

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        path = f"{raw_path}?{query}" if query else raw_path
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        request = Request(scope["method"], path, headers, receive)
        wire = wire_of(raw_path) if request.method == "POST" else None
        self.running += 1
        answering = asyncio.ensure_future(self._answer(request, wire, send))
        leaving = asyncio.ensure_future(request.gone())
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await answering
        except ConnectionResetError:
            pass
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.wait({answering})
            self.running -= 1

    async def _answer(self, request: Request, wire: Wire | None, send: Send) -> None:
        async with AsyncExitStack() as stack:
            begun = await self._begun(request, wire, stack)
            await _sent(send, begun, is_head=request.method == "HEAD")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._upstreams.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _begun(self, request: Request, wire: Wire | None, stack: AsyncExitStack) -> Begun:
        try:
            if self.is_draining:
                raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, "the gateway is stopping; ask again soon")
            if self._check is not None:
                self._check(request.named)
            if wire is None:
                return await self._through(request, request.pieces(), "", stack)
            raw, asked = await request.body(), None
            try:
                asked = taken(wire, raw, request.path.partition("?")[0])
                return await self._remembered(request, asked, stack)
            except (NotOursError, TroubleError) as exc:
                raw = await self._without(request, asked if isinstance(exc, TroubleError) else None, raw)
                return await self._through(request, raw, str(exc), stack)
        except OffpromptError as exc:
            return _refused(exc, wire)

    async def _through(
        self, request: Request, body: AsyncIterator[bytes] | bytes, why: str, stack: AsyncExitStack
    ) -> Begun:
        """The request as it came; why: it goes without memory. body: its pieces where nobody has read them."""
        headers = passed_on(request.headers)
        has_body = isinstance(body, bytes) or not {"content-length", "transfer-encoding"}.isdisjoint(request.named)
        if not has_body:
            request.is_read.set()
        target = self._upstreams.target(model_in(body) if isinstance(body, bytes) else "")
        answer = await stack.enter_async_context(
            self._upstreams.asked(target, request.method, request.path, headers, body if has_body else None)
        )
        noted = plain_headers({"offprompt-memory": f"off; {why}"}) if why else []
        return Begun(answer.status, [*answer.headers, *noted], answer.pieces())

    async def _without(self, request: Request, asked: Asked | None, raw: bytes) -> bytes:
        """The body that goes without memory: as it came, but within bounds, and going on from what the provider has."""

        def changed() -> bytes | None:
            if asked is not None:
                return bounded(self._who.memory, asked)
            plain = raw
            return (
                self._ids.body(self._upstreams.target(model_in(plain)).url, plain)
                if CHAINED.encode() in plain
                else None
            )

        try:
            body = await asyncio.wait_for(in_thread(changed), self._options.deadline_s)
        except (NotOursError, TimeoutError):
            return raw
        if body is None:
            return raw
        request.headers = [(name, value) for name, value in request.headers if name != b"content-encoding"]
        return body

    async def _remembered(self, request: Request, asked: Asked, stack: AsyncExitStack) -> Begun:
        """The request with its memory beside it."""
        target = self._upstreams.target(asked.model)
        try:
            scope, session_id = await self._in_time(self._who.scope, request.named, asked)
        except ScopeError as exc:
            if self._options.without_scope == "pass":
                raise NotOursError(str(exc)) from exc
            raise
        except AccessError:
            raise
        except OffpromptError as exc:
            raise self._trouble(exc) from exc
        lock = self._locks.setdefault((scope.scope, session_id), asyncio.Lock())
        await stack.enter_async_context(lock)
        session = scope.session(
            session_id,
            model=asked.model,
            wire=asked.wire,
            system=asked.system,
            tools=asked.tools or None,
            mode="as_needed" if self._options.head == "as_needed" else "off_prompt",
        )
        exchange = Exchange(session, asked, self._upstreams, target, request.path, passed_on(request.headers), self._ids)
        try:
            body, headers = await asyncio.wait_for(exchange.request(asked.messages), self._options.deadline_s)
        except (OffpromptError, TimeoutError) as exc:
            raise self._trouble(exc) from exc
        answer = await stack.enter_async_context(exchange.sent(body, headers))
        if asked.is_count:
            return Begun(answer.status, [*answer.headers, *plain_headers(_told(exchange, session_id))], answer.pieces())
        return await self._answered(exchange, answer, session_id)

    def _trouble(self, error: OffpromptError | TimeoutError) -> Exception:
        """What becomes of a request that the memory cannot prepare: it goes as it came, or it is refused."""
        why = str(error) or f"it took longer than {self._options.deadline_s:g} s"
        is_down = isinstance(error, (BackendError, ConflictError, TimeoutError))
        if is_down and self._options.on_trouble == "refuse":
            return BackendError(f"the memory does not answer: {why}; ask again")
        return TroubleError(why)

    async def _in_time(self, call: Callable[..., Any], *given: Any) -> Any:
        try:
            return await asyncio.wait_for(in_thread(call, *given), self._options.deadline_s)
        except TimeoutError as exc:
            raise self._trouble(exc) from exc

    async def _answered(self, exchange: Exchange, answer: Answered, session_id: str) -> Begun:
        if exchange.asked.streams and answer.status == HTTPStatus.OK and answer.kind == EVENTS:
            kept = [(name, value) for name, value in answer.headers if name != b"content-length"]
            begun = Begun(answer.status, kept, exchange.stream(answer))
        else:
            begun = await exchange.whole(answer)
        return Begun(begun.status, [*begun.headers, *plain_headers(_told(exchange, session_id))], begun.pieces)


def _told(exchange: Exchange, session_id: str) -> dict[str, str]:
    """What the ledger says of the request, as headers."""
    cause = exchange.session.underway.cause
    told = {"offprompt-memory": f"off; {cause}" if cause else "on", "offprompt-session": session_id}
    entry = exchange.noted
    if entry is not None:
        told["offprompt-tokens"] = str(entry.sent.tokens)
        told["offprompt-shown"] = str(sum(shown.tokens for shown in entry.shown))
        told["offprompt-leaked"] = str(len(entry.leaked))
    return told


def _refused(error: OffpromptError, wire: Wire | None) -> Begun:
    """An error as the wire's clients read errors."""
    problem, headers = problem_of(error)
    kind = ERROR_TYPES.get(problem.status, "api_error")
    inner: dict[str, Any] = {"type": kind, "message": problem.detail, "code": problem.code}
    if isinstance(error, ThreadedError):
        inner["details"] = THREADED
    body = compact({"type": "error", "error": inner} if wire == "anthropic" else {"error": {**inner, "param": None}})
    content = body.encode()
    given = {"content-type": "application/json", "content-length": str(len(content)), "offprompt-memory": "refused"}
    return Begun(problem.status, plain_headers({**given, **headers}), _once(content))


async def _once(content: bytes) -> AsyncGenerator[bytes]:
    yield content


async def _sent(send: Send, begun: Begun, *, is_head: bool) -> None:
    await send({"type": "http.response.start", "status": begun.status, "headers": begun.headers})
    async with aclosing(begun.pieces) as pieces:
        async for piece in pieces:
            if not is_head:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
