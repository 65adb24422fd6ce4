"""Answering: what an endpoint's function returned, as status, headers and bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import Executor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec

from offprompt.errors import OffpromptError
from offprompt.rest.endpoint import JSON, Answer, Call, Lines
from offprompt.rest.problems import MEDIA_TYPE, Problem, problem_of
from offprompt.rest.versions import is_known

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

GONE: Final = "offprompt.gone"
IS_STREAM: Final = "offprompt.is_stream"
PIECE_BYTES: Final = 64 * 1024
SEND_S: Final = 60.0
"""Seconds for which a client may take nothing of an answer."""

encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it is sent.

    body   pieces where it is of any length, each made in a worker thread. code: the class of an error.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | Iterator[bytes]
    code: str = ""


def rendered(call: Call, done: object) -> Reply:
    """What the function returned as a reply; called in the worker thread.

    Streams  their first piece is made here, so that its errors have a status.
    """
    endpoint = call.endpoint
    if isinstance(done, Lines):
        pieces = _pieces(done)
        return Reply(endpoint.status, {"content-type": endpoint.answers}, _behind(next(pieces, b""), pieces))
    answer = done if isinstance(done, Answer) else Answer(done)
    headers = dict(answer.headers)
    if answer.version:
        headers["etag"] = f'"{answer.version}"'
        if endpoint.method == "GET" and is_known(call, answer.version):
            return Reply(HTTPStatus.NOT_MODIFIED, headers, b"")
    status = answer.status or endpoint.status
    if status == HTTPStatus.NO_CONTENT:
        return Reply(status, headers, b"")
    if isinstance(answer.content, bytes):
        return Reply(status, {"content-type": endpoint.answers, **headers}, answer.content)
    return Reply(status, {"content-type": JSON, **headers}, encode(answer.content))


def refused(error: OffpromptError, *, is_conditional: bool = False, media_type: str = MEDIA_TYPE) -> Reply:
    """An error as a reply. is_conditional: the request says what it expects to be there."""
    problem, headers = problem_of(error, is_conditional=is_conditional)
    return problem_reply(problem, {**headers, "content-type": media_type})


def problem_reply(problem: Problem, headers: Mapping[str, str] | None = None) -> Reply:
    """A problem as a reply."""
    return Reply(problem.status, {"content-type": MEDIA_TYPE, **(headers or {})}, encode(problem), problem.code)


def _pieces(lines: Lines) -> Iterator[bytes]:
    """The documents as lines, several together unless they are live."""
    waiting, size = list[bytes](), 0
    for document in lines.documents:
        waiting += (encode(document), b"\n")
        size += len(waiting[-2]) + 1
        if lines.is_live or size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _behind(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from pieces


async def send_reply(send: Send, reply: Reply, scope: Mapping[str, Any], threads: Executor) -> None:
    """Send it. A stream that fails, or that nobody takes, ends without its end: the connection is closed.

    scope    of the request: GONE is in it when its client has left, since what is sent then goes nowhere in silence.
             With IS_STREAM the answer is made of a body that comes meanwhile: it ends with that, and sees to what came.
    threads  where pieces of a stream are made.
    """
    is_head = scope["method"] == "HEAD"
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()]
    body = reply.body
    if isinstance(body, bytes):
        if reply.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if is_head else body})
        return
    loop = asyncio.get_running_loop()
    try:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        while not is_head and (piece := await loop.run_in_executor(threads, next, body, None)) is not None:
            if GONE in scope and IS_STREAM not in scope:
                return
            async with asyncio.timeout(SEND_S):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        close = getattr(body, "close", None)
        if close is not None:
            await loop.run_in_executor(threads, close)
