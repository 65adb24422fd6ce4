"""Dispatch: one request from its bytes to its answer."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from offprompt.errors import OffpromptError
from offprompt.records.access import Identity
from offprompt.rest.endpoint import Answer, Call, Endpoint, Headers, Lines, Shape
from offprompt.rest.problems import MEDIA_TYPE, RequestError, problem_of, unexpected
from offprompt.rest.router import Router
from offprompt.service.offprompt import Offprompt

AsgiScope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Reply: TypeAlias = tuple[int, Mapping[str, str], bytes | Iterator[bytes]]

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
MAX_BODY_BYTES: Final = 8 * 1024 * 1024
THREADS: Final = 32
LOG: Final = logging.getLogger("offprompt.rest")
NOBODY: Final = Identity(roles=frozenset())
"""Who asks where no key is asked for."""

_encode: Final = msgspec.json.Encoder().encode


class Identify(Protocol):
    """Says who asks, or raises UnauthenticatedError or ForbiddenError."""

    def __call__(self, method: str, headers: Headers, *, has_body: bool) -> Identity:
        """headers: by name in small letters. has_body: the endpoint takes one."""
        ...


class Dispatch:
    """The ASGI application. memory: the store it serves. identify: who asks."""

    def __init__(self, memory: Offprompt, endpoints: Sequence[Endpoint], identify: Identify) -> None:
        self._memory, self._identify = memory, identify
        self._router = Router(endpoints)
        self._queries = {each.name: _QueryReader(each.query) for each in endpoints if each.query is not None}
        self._bodies = {each.name: msgspec.json.Decoder(each.body) for each in endpoints if each.body is not None}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="offprompt-rest")

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request; anything else that the server asks for is refused."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send, self._threads)
            return
        try:
            reply = await self._answered(scope, receive)
        except OffpromptError as exc:
            problem, headers = problem_of(exc)
            reply = problem.status, {"content-type": MEDIA_TYPE, **headers}, _encode(problem)
        except Exception:
            LOG.exception("%s %s", scope["method"], scope.get("offprompt.endpoint", "?"))
            reply = 500, {"content-type": MEDIA_TYPE}, _encode(unexpected())
        await _sent(send, reply, is_head=scope["method"] == "HEAD", threads=self._threads)

    async def _answered(self, scope: AsgiScope, receive: Receive) -> Reply:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        method: str = scope["method"]
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        endpoint, path = self._router.find(method, raw_path)
        scope["offprompt.endpoint"] = endpoint.name
        has_body = endpoint.body is not None
        identity = NOBODY
        if endpoint.role is not None:
            identity = scope["offprompt.identity"] = self._identify(method, headers, has_body=has_body)
        call = Call(self._memory, identity, endpoint, headers, path)
        if endpoint.query is not None:
            call.query = self._queries[endpoint.name].read(scope["query_string"])
        elif scope["query_string"]:
            raise RequestError(HTTPStatus.BAD_REQUEST, f"{endpoint.path} takes no query; leave it out")
        if has_body:
            call.body = self._decoded(endpoint, await _body(receive, headers))
        return await self._done(call)

    def _decoded(self, endpoint: Endpoint, body: bytes) -> object:
        try:
            return self._bodies[endpoint.name].decode(body)
        except msgspec.ValidationError as exc:
            raise RequestError(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"the body does not fit: {exc}; see /openapi.json"
            ) from exc
        except (msgspec.DecodeError, RecursionError) as exc:
            raise RequestError(
                HTTPStatus.BAD_REQUEST, f"the body is not JSON: {exc}; send application/json in UTF-8"
            ) from exc

    async def _done(self, call: Call) -> Reply:
        """Run the endpoint's function in a thread, and render what it returns."""
        context, run = contextvars.copy_context(), call.endpoint.run
        done = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(run, call))
        if isinstance(done, Lines):
            return call.endpoint.status, {"content-type": LINES}, (_encode(one) + b"\n" for one in done.documents)
        answer = done if isinstance(done, Answer) else Answer(done)
        headers = dict(answer.headers)
        if answer.version:
            headers["etag"] = f'"{answer.version}"'
        status = answer.status or call.endpoint.status
        if status == HTTPStatus.NO_CONTENT:
            return status, headers, b""
        if isinstance(answer.content, bytes):
            return status, headers, answer.content
        return status, {"content-type": JSON, **headers}, _encode(answer.content)


class _QueryReader:
    """Reads a query string into a shape; a field that is a list may be given several times."""

    def __init__(self, shape: type[Shape]) -> None:
        self._shape = shape
        hints = get_type_hints(shape)
        self._lists = {
            name
            for name, hint in hints.items()
            if any(get_origin(one) in (list, tuple) for one in (hint, *get_args(hint)))
        }

    def read(self, query: bytes) -> Shape:
        """The query as the shape.

        Raises   RequestError if it does not fit, or names one twice that stands once.
        """
        try:
            pairs = parse_qsl(
                query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict"
            )
        except ValueError as exc:
            raise RequestError(HTTPStatus.BAD_REQUEST, "the query is not percent-encoded UTF-8; encode it so") from exc
        given: dict[str, Any] = {}
        for name, value in pairs:
            if name in self._lists:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise RequestError(HTTPStatus.BAD_REQUEST, f"the query says {name[:40]!r} twice; say it once")
            else:
                given[name] = value
        try:
            return msgspec.convert(given, self._shape, strict=False)
        except msgspec.ValidationError as exc:
            raise RequestError(HTTPStatus.BAD_REQUEST, f"the query does not fit: {exc}; see /openapi.json") from exc


async def _body(receive: Receive, headers: Headers) -> bytes:
    """The request's body, at most MAX_BODY_BYTES."""
    if int(headers.get("content-length", "0")) > MAX_BODY_BYTES:
        raise _too_large()
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(HTTPStatus.BAD_REQUEST, "the request broke off; send it again")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large() -> RequestError:
    return RequestError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body has more than {MAX_BODY_BYTES:,} bytes; send less at once, or import it as lines",
    )


async def _sent(send: Send, reply: Reply, *, is_head: bool, threads: ThreadPoolExecutor) -> None:
    status, headers, body = reply
    given = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    if isinstance(body, bytes):
        given.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": given})
        await send({"type": "http.response.body", "body": b"" if is_head else body})
        return
    await send({"type": "http.response.start", "status": status, "headers": given})
    loop = asyncio.get_running_loop()
    while (line := await loop.run_in_executor(threads, next, body, None)) is not None:
        await send({"type": "http.response.body", "body": line, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _lifespan(receive: Receive, send: Send, threads: ThreadPoolExecutor) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    threads.shutdown()
    await send({"type": "lifespan.shutdown.complete"})
