"""Exchange: one request of a client, with all that the model asks its memory meanwhile, as one reply."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from offprompt.errors import ConflictError, ModelError, OffpromptError, UsageError
from offprompt.gateway.asked import Asked, tool_names
from offprompt.gateway.events import EventReader, EventTooLongError, ServerEvent, event_bytes, json_bytes
from offprompt.gateway.unremembered import ResponseIds
from offprompt.gateway.upstream import Answered, Pairs, Target, Upstreams
from offprompt.records import MEMORY_ACTIONS, LedgerEntry, Message, Reply, as_dict
from offprompt.service.agent_stream import in_thread
from offprompt.service.session import Session
from offprompt.wire.one_answer import one_reply
from offprompt.wire.one_stream import OneStream
from offprompt.wire.shapes import Wire
from offprompt.wire.streamed import StreamReader

T = TypeVar("T")
EVENTS: Final = "text/event-stream"
LOG: Final = logging.getLogger("offprompt.gateway")
OF_THE_BODY: Final = frozenset(
    b"accept-encoding anthropic-beta content-encoding content-length content-type expect host".split()
)
"""Headers of the client's that are said anew."""

UNREAD: Final = "a reply of the upstream goes on as it came, and is not recorded: %s"


@dataclass(frozen=True, slots=True)
class Begun:
    """The head of what the client gets; the body follows in pieces."""

    status: int
    headers: Pairs
    pieces: AsyncGenerator[bytes]


@dataclass(slots=True)
class Exchange:
    """One request on its way. Used once.

    session   of the client's conversation. path, headers: for the upstream; the client's own key is among them.
    ids       of responses from which a client goes on. asks_memory: the model may ask it in the newest request.
    noted     what the ledger says of the first request before its reply; entries: of each with its reply.
    """

    session: Session
    asked: Asked
    upstreams: Upstreams
    target: Target
    path: str
    headers: Pairs
    ids: ResponseIds
    replies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    noted: LedgerEntry | None = None
    asks_memory: bool = False
    entries: list[LedgerEntry] = field(default_factory=list[LedgerEntry])

    async def request(self, messages: list[Message]) -> tuple[bytes, Pairs]:
        """The next request: its body and its headers.

        Raises   OffpromptError if the session refuses it; nothing was sent then.
        """
        is_count = self.asked.is_count
        prepared = await in_thread(self.session.preview if is_count else self.session.prepare, messages)
        if not is_count and self.noted is None:
            self.noted = self.session.pending
        body, betas = self.asked.outgoing(prepared)
        self.asks_memory = any(name in MEMORY_ACTIONS for name in tool_names(body))
        headers = [(name, value) for name, value in self.headers if name not in OF_THE_BODY]
        given = [value for name, value in self.headers if name == b"anthropic-beta"]
        if given or betas:
            headers.append((b"anthropic-beta", b",".join([*given, *(beta.encode() for beta in betas)])))
        headers += [(b"content-type", b"application/json"), (b"accept-encoding", b"identity")]
        return json_bytes(body), headers

    def sent(self, body: bytes, headers: Pairs) -> AbstractAsyncContextManager[Answered]:
        """The upstream's answer to a request."""
        return self.upstreams.asked(self.target, "POST", self.path, headers, body)

    async def whole(self, answer: Answered) -> Begun:
        """The reply in one piece: as many requests as it takes until the client is next."""
        raw, data = await self._reply(answer)
        reply = None if data is None else await self._absorbed(data)
        while reply is not None and not reply.done:
            body, headers = await self.request([*self.asked.messages, *reply.messages])
            async with self.sent(body, headers) as following:
                answer = following
                raw, data = await self._reply(following)
                reply = None if data is None else await self._absorbed(data)
        if reply is None:
            return _as_it_came(answer, raw)
        told = one_reply(
            self.asked.wire,
            self.replies,
            self._told(reply),
            has_calls=bool(reply.tool_calls),
            last_text=self.asked.wants_json,
        )
        if told == data:
            return _as_it_came(answer, raw)
        return _as_it_came(answer, json_bytes(told))

    async def _absorbed(self, data: dict[str, Any]) -> Reply | None:
        """The reply, read; None for one that no session can read: it goes on as it came."""
        try:
            reply = await in_thread(self.session.absorb, data)
        except ConflictError:
            raise
        except UsageError as exc:
            LOG.warning(UNREAD, exc)
            return None
        self.replies.append(data)
        entry = self.session.last_entry
        if entry is not None and entry not in self.entries[-1:]:
            self.entries.append(entry)
        return reply

    async def _reply(self, answer: Answered) -> tuple[bytes, dict[str, Any] | None]:
        """The bytes, and the reply in them; None for an error or what is no reply."""
        raw = await answer.whole()
        if answer.status != 200:
            return raw, None
        try:
            return raw, as_dict(json.loads(raw))
        except ValueError:
            return raw, None

    def _told(self, reply: Reply) -> Message:
        """What the model said since the client asked, as the client sees it."""
        shape = self.asked.shape
        said = [each for each in shape.gather(list(reply.messages)) if shape.kind(each) == "assistant"]
        return (
            shape.told(said, {call.call_id for call in reply.tool_calls}, last_text=self.asked.wants_json)
            if said
            else {"role": "assistant", "content": reply.text}
        )

    async def stream(self, answer: Answered) -> AsyncGenerator[bytes]:
        """The reply's events as they come; between two replies of the model the client waits."""
        one = OneStream(self.asked.wire, last_text=self.asked.wants_json and self.asks_memory)
        relay = _Relay(self, one)
        async for piece in relay.pieces(answer):
            yield piece
        try:
            while (said := relay.not_over()) is not None:
                one.next_reply()
                body, headers = await self.request([*self.asked.messages, *said.messages])
                relay = _Relay(self, one)
                async with self.sent(body, headers) as following:
                    async for piece in relay.pieces(following):
                        yield piece
        except OffpromptError as exc:
            LOG.warning("a turn broke off behind the memory's answer: %s", exc)
            yield _error(self.asked.wire, str(exc))
            return
        rest = relay.end()
        if (ids := one.last_id) is not None and self.asked.body.get("store") is not False:
            await in_thread(self.ids.keep, self.target.url, *ids)
        for out in rest:
            yield out


class _Relay:
    """One reply of the upstream on its way to the client."""

    def __init__(self, exchange: Exchange, one: OneStream) -> None:
        self._exchange, self._one = exchange, one
        self._named = exchange.asked.wire != "openai"
        self._reader: StreamReader
        self._held: dict[int, ServerEvent] = {}
        self._done: ServerEvent | None = None
        self._failed = False

    async def pieces(self, answer: Answered) -> AsyncGenerator[bytes]:
        """What the client gets of it. A reply that breaks off is absorbed as cut, and breaks off here too."""
        if answer.status != 200 or answer.kind != EVENTS:
            raise ModelError(
                f"the upstream answered the model's next request with status {answer.status}; ask again",
                kind="server",
                status=answer.status,
            )
        self._reader = await in_thread(self._exchange.session.stream_reader)
        events, is_whole = EventReader(), False
        try:
            async for piece in answer.pieces():
                for event in events.feed(piece):
                    for out in self._of(event):
                        yield out
            if (last := events.last()) is not None:
                for out in self._of(last):
                    yield out
            is_whole = not self._failed
        except EventTooLongError as exc:
            raise ModelError(f"{exc}; its stream was not read on", kind="reply") from exc
        finally:
            rest = await self._finished(is_whole=is_whole)
        for out in rest:
            yield out

    async def _finished(self, *, is_whole: bool) -> list[bytes]:
        """The reply, read; what waited for that. Where it cannot be read: why, if something waited."""
        try:
            chunks = await in_thread(self._reader.finish if is_whole else self._reader.broken)
        except OffpromptError as exc:
            LOG.warning(UNREAD, exc)
            return [_error(self._exchange.asked.wire, f"{exc}; ask again")] if self._reader.waits else []
        return [out for chunk in chunks for out in self._shown(chunk, None)]

    def _of(self, event: ServerEvent) -> list[bytes]:
        if event.is_end:
            self._done = event
            return []
        if event.data is None:
            return [event.raw]
        self._failed = self._failed or event.data.get("type") == "error" or bool(event.data.get("error"))
        return [out for chunk in self._reader.feed(event.data) for out in self._shown(chunk, event)]

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
        reply = self._reader.reply
        return None if reply is None or reply.done or self._failed else reply

    def end(self) -> list[bytes]:
        """What was held until it was known that no other reply follows."""
        out = [
            self._held[id(chunk)].raw if id(chunk) in self._held else event_bytes(chunk, named=self._named)
            for chunk in self._one.end()
        ]
        return [*out, *([] if self._done is None else [self._done.raw])]


def _error(wire: Wire, why: str) -> bytes:
    """An error in the midst of a stream, as the wire's clients read it."""
    inner = {"type": "api_error", "message": why, "code": "upstream_failed"}
    if wire == "anthropic":
        return event_bytes({"type": "error", "error": inner}, named=True)
    if wire == "responses":
        return event_bytes({**inner, "type": "error", "param": None}, named=True)
    return event_bytes({"error": {**inner, "param": None}}, named=False)


def _as_it_came(answer: Answered, raw: bytes) -> Begun:
    kept = [(name, value) for name, value in answer.headers if name != b"content-length"]
    return Begun(answer.status, [*kept, (b"content-length", str(len(raw)).encode())], _once(raw))


async def _once(content: bytes) -> AsyncGenerator[bytes]:
    yield content
