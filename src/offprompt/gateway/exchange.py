"""Exchange: one request of a client, with all that the model asks its memory meanwhile, as one reply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from offprompt.errors import ModelError
from offprompt.gateway.asked import Asked
from offprompt.gateway.events import EventReader, EventTooLongError, ServerEvent, event_bytes
from offprompt.gateway.upstream import Answered, Pairs, Target, Upstreams
from offprompt.records import LedgerEntry, Message, Reply, as_dict
from offprompt.service.session import Session
from offprompt.wire.one_answer import one_reply
from offprompt.wire.one_stream import OneStream
from offprompt.wire.streamed import StreamReader

T = TypeVar("T")
EVENTS: Final = "text/event-stream"
DONE: Final = b"data: [DONE]"


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
    noted     what the ledger says of the first request and of the last reply, for the answer's headers.
    """

    session: Session
    asked: Asked
    upstreams: Upstreams
    target: Target
    path: str
    headers: Pairs
    replies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    rounds: int = 0
    noted: LedgerEntry | None = None

    async def request(self, messages: list[Message]) -> tuple[bytes, Pairs]:
        """The next request: its body and its headers.

        Raises   OffpromptError if the session refuses it; nothing was sent then.
        """
        prepared = await in_thread(self.session.prepare, messages)
        self.rounds += 1
        if self.noted is None and (record := await in_thread(lambda: self.session.record)) is not None:
            self.noted = record.pending
        body, betas = self.asked.outgoing(prepared)
        gone = (b"content-length", b"content-type", b"accept-encoding", b"anthropic-beta", b"host", b"expect")
        headers = [(name, value) for name, value in self.headers if name not in gone]
        given = [value for name, value in self.headers if name == b"anthropic-beta"]
        if given or betas:
            headers.append((b"anthropic-beta", b",".join([*given, *(beta.encode() for beta in betas)])))
        headers += [(b"content-type", b"application/json"), (b"accept-encoding", b"identity")]
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"), headers

    def sent(self, body: bytes, headers: Pairs) -> AbstractAsyncContextManager[Answered]:
        """The upstream's answer to a request."""
        return self.upstreams.asked(self.target, "POST", self.path, headers, body)

    async def whole(self, answer: Answered) -> Begun:
        """The reply in one piece: as many requests as it takes until the client is next."""
        raw, data = await self._reply(answer)
        if data is None:
            return _as_it_came(answer, raw)
        reply = await in_thread(self.session.absorb, data)
        self.replies.append(data)
        head = answer
        while not reply.done:
            body, headers = await self.request([*self.asked.messages, *reply.messages])
            async with self.sent(body, headers) as following:
                raw, data = await self._reply(following)
                if data is None:
                    return _as_it_came(following, raw)
                head, reply = following, await in_thread(self.session.absorb, data)
                self.replies.append(data)
        told = one_reply(self.asked.wire, self.replies, self._told(reply), has_calls=bool(reply.tool_calls))
        content = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        kept = [(name, value) for name, value in head.headers if name not in (b"content-length", b"content-encoding")]
        return Begun(head.status, [*kept, (b"content-length", str(len(content)).encode())], _once(content))

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
            shape.told(said, {call.call_id for call in reply.tool_calls})
            if said
            else {"role": "assistant", "content": reply.text}
        )

    async def stream(self, answer: Answered) -> AsyncGenerator[bytes]:
        """The reply's events as they come; between two replies of the model the client waits."""
        one = OneStream(self.asked.wire)
        relay = _Relay(self, one)
        async for piece in relay.pieces(answer):
            yield piece
        while not relay.reply.done:
            one.next_reply()
            body, headers = await self.request([*self.asked.messages, *relay.reply.messages])
            relay = _Relay(self, one)
            async with self.sent(body, headers) as following:
                async for piece in relay.pieces(following):
                    yield piece
        for chunk in one.end():
            yield event_bytes(chunk, named=self.asked.wire != "openai")
        for tail in relay.tail:
            yield tail


class _Relay:
    """One reply of the upstream on its way to the client."""

    def __init__(self, exchange: Exchange, one: OneStream) -> None:
        self._exchange, self._one = exchange, one
        self._named = exchange.asked.wire != "openai"
        self._reader: StreamReader
        self.tail: list[bytes] = []

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
            is_whole = True
        except EventTooLongError as exc:
            raise ModelError(f"{exc}; its stream was not read on", kind="reply") from exc
        finally:
            rest = await in_thread(self._reader.finish if is_whole else self._reader.broken)
        for chunk in rest:
            for out in self._shown(chunk, None):
                yield out

    def _of(self, event: ServerEvent) -> list[bytes]:
        if event.data is None:
            if not event.raw.startswith(DONE):
                return [event.raw]
            self.tail = [event.raw]
            return []
        if self.tail:  # some servers send their counts behind the end
            self.tail.append(event.raw)
            return []
        return [out for chunk in self._reader.feed(event.data) for out in self._shown(chunk, event)]

    def _shown(self, chunk: dict[str, Any], event: ServerEvent | None) -> list[bytes]:
        return [
            event.raw if event is not None and out is event.data else event_bytes(out, named=self._named)
            for out in self._one.feed(chunk)
        ]

    @property
    def reply(self) -> Reply:
        """The reply, absorbed."""
        if self._reader.reply is None:
            raise ModelError("the upstream's stream ended before anything came; ask again", kind="reply")
        return self._reader.reply


def _as_it_came(answer: Answered, raw: bytes) -> Begun:
    kept = [(name, value) for name, value in answer.headers if name != b"content-length"]
    return Begun(answer.status, [*kept, (b"content-length", str(len(raw)).encode())], _once(raw))


async def _once(content: bytes) -> AsyncGenerator[bytes]:
    yield content


async def in_thread(call: Callable[..., T], *given: Any) -> T:
    """The call in a worker thread; a cancelled task waits for its end, so that nothing works on behind it."""
    task = asyncio.ensure_future(asyncio.to_thread(call, *given))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
