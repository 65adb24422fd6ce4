"""Reading: what a request says, checked before anything is done: headers, query, body, lines."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from offprompt.rest.endpoint import BYTES, Endpoint, Headers, LinesOf, Pieces, Shape
from offprompt.rest.misfits import misfit
from offprompt.rest.openapi import FILE, SCOPE_HEADERS
from offprompt.rest.problems import RequestError

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_LINE_BYTES: Final = 8 * 1024 * 1024
MAX_DEPTH: Final = 100
BODY_S: Final = 60.0
"""Seconds for a whole body; of a stream of lines for each piece of it."""

ONCE: Final = frozenset({"authorization", "content-type", "host", "idempotency-key"})
"""Headers that stand once, with those of ours: two of them are one too many to know what is meant."""

OURS: Final = frozenset(name.lower() for name in (*SCOPE_HEADERS, FILE))
PREFIX: Final = "offprompt-"
"""Of our headers: one that is none of them was meant for one, and without it the scope would be another."""

CONDITIONS: Final = ("if-match", "if-none-match")

_OPENING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_STRING: Final = ord('"')


def read_headers(raw: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The headers by name in small letters; what stands several times as one list.

    Raises   RequestError for one that may stand once only, and for one of our prefix that is none of ours.
    """
    found: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name not in found:
            if name.startswith(PREFIX) and name not in OURS:
                known = ", ".join((*SCOPE_HEADERS, FILE))
                raise RequestError(
                    HTTPStatus.BAD_REQUEST, f"there is no header {name[:40]}; those of this API are {known}"
                )
            found[name] = value
        elif name in ONCE or name in OURS:
            raise RequestError(HTTPStatus.BAD_REQUEST, f"the header {name} stands there twice; send it once")
        else:
            found[name] += f", {value}"
    return found


def check_heads(endpoint: Endpoint, headers: Headers) -> None:
    """Nothing, if the endpoint does all that the headers ask for: nothing that is sent is passed over.

    Raises   RequestError 415 for a body of another type, 406 if another answer is wanted, 400 for a body or a condition
             where none is looked at.
    """
    if endpoint.body is not None:
        wanted = endpoint.reads
        given = headers.get("content-type", "")
        kind, _, rest = given.partition(";")
        charset = rest.replace(" ", "").replace('"', "").lower()
        if kind.strip().lower() != wanted or charset not in ("", "charset=utf-8"):
            said = f"Content-Type: {given[:60]}" if given else "no Content-Type"
            raise RequestError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"{said}: this is read as {wanted}{'' if wanted == BYTES else ' in UTF-8'}; say so, and send that",
            )
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a packed body is not read; send it as it is")
    elif headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise RequestError(HTTPStatus.BAD_REQUEST, f"{endpoint.method} {endpoint.path} takes no body; leave it out")
    if endpoint.is_change and not endpoint.is_versioned and not headers.keys().isdisjoint(CONDITIONS):
        raise RequestError(
            HTTPStatus.BAD_REQUEST,
            f"{endpoint.method} {endpoint.path} looks at no {' or '.join(CONDITIONS)}; leave them out",
        )
    accept = headers.get("accept")
    if accept is not None and not _is_wanted(accept, endpoint.answers):
        raise RequestError(
            HTTPStatus.NOT_ACCEPTABLE,
            f"Accept: {accept[:60]}: the answer is {endpoint.answers}; accept that, or leave Accept out",
        )


def _is_wanted(accept: str, kind: str) -> bool:
    """Whether the list of an Accept header has the type; q=0 takes it out."""
    wanted = {"*/*", f"{kind.partition('/')[0]}/*", kind}
    for one in accept.lower().split(","):
        name, *options = (part.strip() for part in one.split(";"))
        if name in wanted and not any(re.fullmatch(r"q=0(\.0*)?", option) for option in options):
            return True
    return False


class QueryReader:
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
            pairs = _pairs(query.decode("ascii"))
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
            raise RequestError(
                HTTPStatus.BAD_REQUEST, f"the query does not fit: {misfit(self._shape, exc)}; see /openapi.json"
            ) from exc


def _pairs(query: str) -> list[tuple[str, str]]:
    """The names and values of a query. Raises ValueError."""
    if "%" not in query and "+" not in query:
        found = [one.split("=", 1) for one in query.split("&")]
        if all(map(_is_pair, found)):
            return [(name, value) for name, value in found]
    return parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")


def _is_pair(parts: list[str]) -> bool:
    return len(parts) == 2


class BodyReader:
    """Reads JSON into the type of an endpoint's body."""

    def __init__(self, kind: Any) -> None:
        self._kind, self._decode = kind, msgspec.json.Decoder(kind).decode

    def read(self, body: bytes, what: str = "the body") -> Any:
        """The body as the type.

        Raises   RequestError 400 if it is no JSON, has a member twice or is nested too deeply; 422 if it does not fit.
        """
        try:
            found = self._decode(body)
            check_members(body, what)
        except msgspec.ValidationError as exc:
            raise RequestError(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"{what} does not fit: {misfit(self._kind, exc)}; see /openapi.json"
            ) from exc
        except RecursionError as exc:
            raise _too_deep(what) from exc
        except ValueError as exc:
            if isinstance(exc, RequestError):
                raise
            why = "it is not UTF-8" if isinstance(exc, UnicodeError) else str(exc)
            raise RequestError(HTTPStatus.BAD_REQUEST, f"{what} is not JSON: {why}; send JSON in UTF-8") from exc
        return found


def check_members(body: bytes, what: str) -> None:
    """Nothing, if no object in the JSON has a member twice, and nothing is nested deeper than MAX_DEPTH.

    Of two members of one name a reader takes the first and another one the last: what one checks the other may not see.

    Raises   RequestError.
    """

    def pairs(members: list[tuple[str, object]]) -> None:
        if len(members) != len({name for name, _ in members}):
            raise RequestError(HTTPStatus.BAD_REQUEST, f"{what} has an object with a member twice; send each once")

    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        depth = 0
        for found in _OPENING.finditer(body):
            first = body[found.start()]
            if first != _STRING:
                depth += 1 if first in b"[{" else -1
                if depth > MAX_DEPTH:
                    raise _too_deep(what)
    json.loads(body, object_pairs_hook=pairs)


def _too_deep(what: str) -> RequestError:
    return RequestError(
        HTTPStatus.BAD_REQUEST, f"{what} is nested deeper than {MAX_DEPTH} levels; send it flatter, or as text"
    )


async def read_body(receive: Receive, headers: Headers, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The request's body.

    Raises   RequestError 413 above `max_bytes`, as soon as it is known; 408 if it does not come.
    """
    if int(headers.get("content-length", "0")) > max_bytes:
        raise _too_large(max_bytes)
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                part, has_more = await _part(receive)
                size += len(part)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                parts.append(part)
                if not has_more:
                    return b"".join(parts)
    except TimeoutError as exc:
        raise _too_slow(BODY_S) from exc


class StreamReader:
    """A body that is read in a worker thread as it is asked for: one piece of it is in memory at a time."""

    def __init__(self, receive: Receive, loop: asyncio.AbstractEventLoop) -> None:
        self._receive, self._loop = receive, loop

    def read(self, body: LinesOf | Pieces) -> Iterator[Any]:
        """What the body consists of: its lines, or its bytes."""
        return self.pieces(body.wait_s) if isinstance(body, Pieces) else self.lines(body.kind)

    def pieces(self, wait_s: float = BODY_S) -> Iterator[bytes]:
        """The bytes as they come.

        Raises   RequestError 408 if nothing comes for `wait_s` seconds, 400 if the client is gone.
        """
        has_more = True
        while has_more:
            try:
                piece, has_more = asyncio.run_coroutine_threadsafe(self._next(wait_s), self._loop).result()
            except TimeoutError as exc:
                raise _too_slow(wait_s) from exc
            if piece:
                yield piece

    def lines(self, kind: Any) -> Iterator[Any]:
        """Each line as the kind; empty ones are left out.

        Raises   as `pieces`; RequestError 413 for a line over MAX_LINE_BYTES, 400 or 422 for one that is not what it
                 should be, with its number.
        """
        reader, number, rest = BodyReader(kind), 0, b""
        for piece in itertools.chain(self.pieces(), [b"\n"]):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                number += 1
                if line.strip():
                    yield reader.read(line, f"line {number}")
            if len(rest) > MAX_LINE_BYTES:
                raise RequestError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"line {number + 1} has more than {MAX_LINE_BYTES:,} bytes"
                )

    async def _next(self, wait_s: float) -> tuple[bytes, bool]:
        async with asyncio.timeout(wait_s):
            return await _part(self._receive)


async def _part(receive: Receive) -> tuple[bytes, bool]:
    """The next piece of a body, and whether there are more."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise RequestError(HTTPStatus.BAD_REQUEST, "the request broke off; send it again")
    return message.get("body", b""), message.get("more_body", False)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body has more than {max_bytes:,} bytes; send less at once, or import it as lines",
    )


def _too_slow(wait_s: float) -> RequestError:
    return RequestError(
        HTTPStatus.REQUEST_TIMEOUT,
        f"the body did not come within {wait_s:g} s; send it at once",
        {"connection": "close"},
    )
