"""The application: what asks a model goes through the memory, all else goes through."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import AsyncExitStack, aclosing
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from offprompt.errors import BackendError, ConflictError, LeakError, OffpromptError, ScopeError, UsageError
from offprompt.gateway.asked import Asked, NotOursError, model_in, taken, wire_of
from offprompt.gateway.conversations import Conversations, in_time
from offprompt.gateway.exchange import Begun, Exchange
from offprompt.gateway.fitting import fitting
from offprompt.gateway.kept import KeptSessions
from offprompt.gateway.options import GatewayOptions
from offprompt.gateway.relay import EVENTS
from offprompt.gateway.request import AsgiScope, Receive, Request
from offprompt.gateway.told import refused, told
from offprompt.gateway.unremembered import CHAINED, ResponseIds, bounded
from offprompt.gateway.upstream import Answered, Upstreams, passed_on, plain_headers
from offprompt.gateway.who import Who, check_places
from offprompt.records import Identity
from offprompt.rest.problems import RequestError
from offprompt.service.agent_stream import in_thread
from offprompt.wire.shapes import Wire

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOG: Final = logging.getLogger("offprompt.gateway")
NO_VERSION: Final = (
    "the upstream answered 404, and the address has no /v1: end the client's base URL (OPENAI_BASE_URL) with /v1, or "
    "the gateway's --upstream"
)
NO_SOCKET: Final = (
    "no websocket is spoken here, only HTTP; most clients go on with that by themselves, else set them to (Codex: "
    "supports_websockets = false)"
)


class TroubleError(Exception):
    """The memory does not do its part; the message says why."""


class Gateway:
    """The ASGI application.

    check    of every request's headers: raises ForbiddenError for one that may not come from where it comes.
    running  requests that are not answered to the end yet. is_draining: no more are taken.
    Leaves   in the scope what an operator may know: `offprompt.endpoint` (wire or `through`), `offprompt.memory` (`on`,
             `off`, `refused`), `offprompt.identity`, `offprompt.problem`.
    """

    def __init__(
        self,
        who: Who,
        upstreams: Upstreams,
        options: GatewayOptions,
        check: Callable[[Mapping[str, str]], None] | None = None,
    ) -> None:
        self._who, self._upstreams, self._options, self._check = who, upstreams, options, check
        self._conversations = Conversations()
        self._kept = KeptSessions()
        self._ids = ResponseIds(who.memory.parts.coordinator)
        self._said: set[str] = set()
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
        request = Request(scope, receive)
        wire = wire_of(request.route) if request.method == "POST" else None
        scope["offprompt.endpoint"] = wire or "through"
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
            identity = await self._admitted(request)
            request.scope["offprompt.identity"] = identity
            if wire is None:
                return await self._through(request, request.pieces(), "", stack)
            raw, asked = await request.body(), None
            try:
                asked = taken(wire, request.unpacked(raw), request.route)
                return await self._remembered(request, asked, stack, identity)
            except (NotOursError, TroubleError) as exc:
                raw = await self._without(request, asked if isinstance(exc, TroubleError) else None, raw)
                return await self._through(request, raw, str(exc), stack)
        except OffpromptError as exc:
            request.scope["offprompt.memory"] = "refused"
            request.scope["offprompt.problem"] = type(exc).__name__
            return refused(exc, wire)

    async def _admitted(self, request: Request) -> Identity | None:
        """Who asks, where nothing goes on without a key. Raises OffpromptError for what may not be asked at all."""
        if self.is_draining:
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, "the gateway is stopping; ask again soon")
        if self._check is not None:
            self._check(request.named)
        request.check_own()
        check_places(request.headers, request.path)
        if "websocket" in request.named.get("upgrade", "").lower():
            raise RequestError(HTTPStatus.UPGRADE_REQUIRED, NO_SOCKET, {"upgrade": "HTTP/1.1"})
        if not self._who.needs_key:
            return None
        try:
            return await in_time(in_thread(self._who.identity, request.named), self._options.deadline_s)
        except TimeoutError as exc:
            raise BackendError("the store of the keys does not answer; ask again") from exc

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
        request.scope["offprompt.memory"] = "off"
        return Begun(answer.status, [*answer.headers, *noted], answer.pieces())

    async def _without(self, request: Request, asked: Asked | None, raw: bytes) -> bytes:
        """The body that goes without memory: as it came, but within bounds, and going on from what the provider has."""

        def changed() -> bytes | None:
            if asked is not None:
                return bounded(self._who.memory, asked)
            plain = request.unpacked(raw)
            return (
                self._ids.body(self._upstreams.target(model_in(plain)).url, plain)
                if CHAINED.encode() in plain
                else None
            )

        try:
            body = await in_time(in_thread(changed), self._options.deadline_s)
        except (NotOursError, UsageError, TimeoutError):
            return raw
        if body is None:
            return raw
        request.headers = [(name, value) for name, value in request.headers if name != b"content-encoding"]
        return body

    async def _remembered(
        self, request: Request, asked: Asked, stack: AsyncExitStack, identity: Identity | None
    ) -> Begun:
        """The request with its memory beside it."""
        target, seconds = self._upstreams.target(asked.model), self._options.deadline_s
        try:
            scope, session_id = await in_time(in_thread(self._who.scope, request.named, asked, identity), seconds)
            key = scope.scope, session_id
            held = await stack.enter_async_context(self._conversations.held(key, seconds))
        except ScopeError as exc:
            if self._options.without_scope == "pass":
                raise NotOursError(str(exc)) from exc
            raise
        except (BackendError, TimeoutError) as exc:
            raise self._trouble(exc) from exc
        scope, policy, unlike = fitting(self._who.memory.parts, scope, asked, self._options.policy)
        self._say(unlike)
        session = scope.session(
            session_id,
            model=asked.model,
            wire=asked.wire,
            system=asked.system,
            tools=asked.tools or None,
            policy=policy,
            mode="as_needed" if self._options.head == "as_needed" and not asked.is_bound else "off_prompt",
        )
        if (before := self._kept.take(key)) is not None:
            session.follow(before)
        stack.callback(lambda: held.late is None and self._kept.put(key, session, request.size))
        exchange = Exchange(
            session,
            asked,
            self._upstreams,
            target,
            request.path,
            passed_on(request.headers),
            held,
            self._ids,
            refuses=self._options.on_trouble == "refuse",
            hints=unlike,
        )
        try:
            body, headers = await exchange.request(asked.messages)
        except LeakError:
            raise
        except (OffpromptError, RecursionError) as exc:
            raise self._trouble(exc) from exc
        cause = session.underway.cause
        if cause and self._options.on_trouble == "refuse":
            raise BackendError(f"{cause}; ask again")
        request.scope["offprompt.memory"] = "off" if cause else "on"
        answer = await stack.enter_async_context(exchange.sent(body, headers))
        return await self._answered(exchange, answer, session_id)

    def _say(self, hints: Iterable[str]) -> None:
        """Hints for the log, each once; the answers' headers have them each time."""
        for hint in hints:
            if hint not in self._said:
                self._said.add(hint)
                LOG.warning(hint)

    def _trouble(self, error: OffpromptError | TimeoutError | RecursionError) -> Exception:
        """What becomes of a request that the memory cannot prepare: it goes as it came, or it is refused."""
        why = str(error) or f"it took longer than {self._options.deadline_s:g} s"
        is_down = isinstance(error, (BackendError, ConflictError, TimeoutError))
        if is_down and self._options.on_trouble == "refuse":
            return BackendError(f"the memory does not answer: {why}; ask again")
        return TroubleError(why)

    async def _answered(self, exchange: Exchange, answer: Answered, session_id: str) -> Begun:
        if exchange.asked.is_count:
            begun = Begun(answer.status, answer.headers, answer.pieces())
        elif exchange.asked.streams and answer.status == HTTPStatus.OK and answer.kind == EVENTS:
            kept = [(name, value) for name, value in answer.headers if name != b"content-length"]
            begun = Begun(answer.status, kept, exchange.stream(answer))
        else:
            begun = await exchange.whole(answer)
        said = plain_headers(told(exchange, session_id, self._who.memory.parts.sheets))
        if answer.status == HTTPStatus.NOT_FOUND and not re.search(r"/v\d", exchange.target.url + exchange.path):
            self._say((NO_VERSION,))
            said += plain_headers({"offprompt-hint": NO_VERSION})
        return Begun(begun.status, [*begun.headers, *said], begun.pieces)


async def _sent(send: Send, begun: Begun, *, is_head: bool) -> None:
    await send({"type": "http.response.start", "status": begun.status, "headers": begun.headers})
    async with aclosing(begun.pieces) as pieces:
        async for piece in pieces:
            if not is_head:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
