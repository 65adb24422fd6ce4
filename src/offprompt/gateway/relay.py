"""Relay: one streamed reply of the upstream on its way to the client."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from typing import Any, Final

from offprompt.errors import BackendError, ConflictError, ModelError, OffpromptError
from offprompt.gateway.asked import Asked
from offprompt.gateway.conversations import Held
from offprompt.gateway.events import EventReader, EventTooLongError, ServerEvent, event_bytes
from offprompt.gateway.upstream import Answered
from offprompt.records import MEMORY_ACTIONS, Reply
from offprompt.service.session import Session
from offprompt.wire.handle_stream import MAX_HELD_CHARS
from offprompt.wire.handles import CLOSING, find_handles
from offprompt.wire.one_stream import OneStream
from offprompt.wire.shapes import Wire
from offprompt.wire.streamed import StreamReader
from offprompt.wire.streams import spoken

EVENTS: Final = "text/event-stream"
LOG: Final = logging.getLogger("offprompt.gateway")
UNREAD: Final = "a reply of the upstream is not recorded: %s"


class Relay:
    """One reply of the upstream on its way to the client.

    The store is asked in worker threads, and not longer than it may take: at the reply's end, and from the first text
    on in which a handle stands. What comes before that is read in the loop.
    """

    def __init__(self, session: Session, held: Held, asked: Asked, one: OneStream, *, refuses: bool = False) -> None:
        self._refuses = refuses
        self._session, self._conversation, self._asked, self._one = session, held, asked, one
        self._named = asked.wire != "openai"
        self._reader: StreamReader | None = None
        self._tail, self._looks_up, self._is_late = "", False, False
        self._held: dict[int, ServerEvent] = {}
        self._done: ServerEvent | None = None
        self._failed = False

    async def pieces(self, answer: Answered) -> AsyncGenerator[bytes]:
        """What the client gets of it. A reply that breaks off is absorbed as cut, and breaks off here too.

        Raises   ModelError for no stream, or one that breaks off; BackendError where the memory is late and the client
                 would get what only the memory can read.
        """
        if answer.status != 200 or answer.kind != EVENTS:
            raise ModelError(
                f"the upstream answered the model's next request with status {answer.status}; ask again",
                kind="server",
                status=answer.status,
            )
        reader = await self._conversation.asks(self._session.stream_reader)
        self._reader = reader
        events, is_whole = EventReader(), False
        try:
            async for piece in answer.pieces():
                for event in events.feed(piece):
                    for out in await self._of(reader, event):
                        yield out
            if (last := events.last()) is not None:
                for out in await self._of(reader, last):
                    yield out
            is_whole = not self._failed
        except EventTooLongError as exc:
            raise ModelError(f"{exc}; its stream was not read on", kind="reply") from exc
        finally:
            rest = await self._finished(reader, is_whole=is_whole)
        for out in rest:
            yield out

    async def _finished(self, reader: StreamReader, *, is_whole: bool) -> list[bytes]:
        """The reply, read; what waited for that. Where it cannot be read: the same as it came, or why not."""
        if self._is_late:
            return []
        try:
            chunks = await self._conversation.asks(reader.finish if is_whole else reader.broken)
            if self._refuses and (cause := self._session.underway.cause):
                raise BackendError(cause)
        except OffpromptError as exc:
            LOG.warning(UNREAD, exc)
            self._is_late = True
            refused = self._refuses and isinstance(exc, (BackendError, ConflictError))
            if refused or reader.whole is None or is_ours(reader.whole, calls_only=not reader.waits):
                self._failed = True
                return [error_bytes(self._asked.wire, f"{exc}; ask again")] if is_whole else []
            chunks = reader.unread()
        return [out for chunk in chunks for out in self._shown(chunk, None)]

    async def _of(self, reader: StreamReader, event: ServerEvent) -> list[bytes]:
        if event.is_end:
            self._done = event
            return []
        if event.data is None:
            return [event.raw]
        self._failed = self._failed or event.data.get("type") == "error" or bool(event.data.get("error"))
        if self._may_look_up(reader, event.data):
            try:
                chunks = await self._conversation.asks(reader.feed, event.data)
            except BackendError:
                self._is_late = True
                raise
        else:
            chunks = reader.feed(event.data)
        return [out for chunk in chunks for out in self._shown(chunk, event)]

    def _may_look_up(self, reader: StreamReader, data: dict[str, Any]) -> bool:
        """Whether a handle may be looked up as the reader is fed this: from the first one on it holds text with one."""
        if not self._looks_up:
            said = spoken(data, self._asked.wire)
            if said:
                text = self._tail = self._tail[-MAX_HELD_CHARS:] + said
            else:
                text = json.dumps(data, ensure_ascii=False)
            self._looks_up = reader.waits or (any(char in text for char in CLOSING) and bool(find_handles(text)))
        return self._looks_up

    def _shown(self, chunk: dict[str, Any], event: ServerEvent | None) -> list[bytes]:
        shown = self._one.feed(chunk)
        if event is not None and chunk is event.data and not shown:
            self._held[id(chunk)] = event
        return [
            event.raw if event is not None and out is event.data else event_bytes(out, named=self._named)
            for out in shown
        ]

    def not_over(self) -> Reply | None:
        """The reply, if the model asked its memory and is to go on; not behind an error."""
        reply = None if self._reader is None or self._is_late or self._failed else self._reader.reply
        return None if reply is None or reply.done else reply

    def end(self) -> list[bytes]:
        """What was held until it was known that no other reply follows."""
        out = [
            self._held[id(chunk)].raw if id(chunk) in self._held else event_bytes(chunk, named=self._named)
            for chunk in self._one.end()
        ]
        return [*out, *([] if self._done is None else [self._done.raw])]


def is_ours(reply: Any, *, calls_only: bool = False) -> bool:
    """Whether a call to the memory, or a handle, stands in a reply: nobody else can do with it as it came."""
    text = json.dumps(reply, ensure_ascii=False)
    return any(name in text for name in MEMORY_ACTIONS) or (not calls_only and bool(find_handles(text)))


def error_bytes(wire: Wire, why: str) -> bytes:
    """An error in the midst of a stream, as the wire's clients read it."""
    inner = {"type": "api_error", "message": why, "code": "upstream_failed"}
    if wire == "anthropic":
        return event_bytes({"type": "error", "error": inner}, named=True)
    if wire == "responses":
        return event_bytes({**inner, "type": "error", "param": None}, named=True)
    return event_bytes({"error": {**inner, "param": None}}, named=False)
