"""A client's request as it comes: its headers, its body in pieces or whole."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from offprompt.errors import UsageError
from offprompt.gateway.asked import NotOursError
from offprompt.gateway.upstream import OURS, Pairs
from offprompt.rest.problems import RequestError

AsgiScope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
OWN: Final = ("key", "user", "agent", "app", "session")
"""What headers of ours may say, behind `Offprompt-`."""

PACKED: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""How bodies may be compressed that are read here, and zlib's number for each."""


@dataclass(slots=True)
class Request:
    """A client's request.

    scope   ASGI's. path: with its query. named: its headers by name, of one given twice the last.
    size    bytes of its body, as far as it was read as a whole.
    """

    scope: AsgiScope
    receive: Receive
    method: str = field(init=False)
    path: str = field(init=False)
    headers: Pairs = field(init=False)
    named: Mapping[str, str] = field(init=False)
    is_read: asyncio.Event = field(default_factory=asyncio.Event)
    size: int = 0

    def __post_init__(self) -> None:
        scope = self.scope
        raw = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        self.method, self.path = scope["method"], f"{raw}?{query}" if query else raw
        self.headers = [(name.lower(), value) for name, value in scope["headers"]]
        self.named = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers}

    @property
    def route(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]

    def check_own(self) -> None:
        """Raises UsageError for a header of ours that is none, or stands there twice."""
        given = [name.removeprefix(OURS).decode("latin-1") for name, _ in self.headers if name.startswith(OURS)]
        for name in given:
            if name not in OWN or given.count(name) > 1:
                why = "stands there twice" if name in OWN else "is none"
                known = ", ".join(f"Offprompt-{one.title()}" for one in OWN)
                raise UsageError(f"the header 'Offprompt-{name.title()[:40]}' {why}; there are {known}, once each")

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
        """All of its body, as it came.

        Raises   RequestError for more than MAX_BODY_BYTES.
        """
        parts = list[bytes]()
        async for piece in self.pieces():
            parts.append(piece)
            self.size += len(piece)
            if self.size > MAX_BODY_BYTES:
                raise _too_large()
        return b"".join(parts)

    def unpacked(self, raw: bytes) -> bytes:
        """The body as it was before it was compressed.

        Raises   NotOursError for a compression that is not known here, or a body that is not compressed so;
                 RequestError for more than MAX_BODY_BYTES.
        """
        coding = self.named.get("content-encoding", "").strip().lower()
        if coding in ("", "identity"):
            return raw
        if coding not in PACKED:
            raise NotOursError(f"the body is compressed in a way that is not read here, {coding[:40]!r}; gzip is")
        packed = zlib.decompressobj(wbits=PACKED[coding])
        try:
            plain = packed.decompress(raw, MAX_BODY_BYTES)
        except zlib.error as exc:
            raise NotOursError(f"the body is not {coding}") from exc
        if packed.unconsumed_tail:
            raise _too_large()
        return plain


def _too_large() -> RequestError:
    return RequestError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {MAX_BODY_BYTES:,} bytes; send less"
    )
