"""Exchange: one request of a client, with all that the model asks its memory meanwhile, as one reply."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.errors import BackendError, ConflictError, ModelError, OffpromptError, UsageError
from offprompt.gateway.asked import Asked, tool_names
from offprompt.gateway.conversations import Held
from offprompt.gateway.events import json_bytes, read_json
from offprompt.gateway.relay import UNREAD, Relay, error_bytes, is_ours
from offprompt.gateway.unremembered import ResponseIds
from offprompt.gateway.upstream import Answered, Pairs, Target, Upstreams
from offprompt.records import MEMORY_ACTIONS, LedgerEntry, Message, Reply
from offprompt.service.session import Session
from offprompt.wire.one_answer import one_reply
from offprompt.wire.one_stream import OneStream

LOG: Final = logging.getLogger("offprompt.gateway")
OF_THE_BODY: Final = frozenset(
    b"accept-encoding anthropic-beta content-encoding content-length content-type expect host".split()
)
"""Headers of the client's that are said anew."""


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
    held      the conversation, while this request has it.
    ids       of responses from which a client goes on. asks_memory: the model may ask it in the newest request.
    refuses   a reply that the memory fails for, or is late for, is refused; else it goes on as it came, if it can.
    trouble   why what the model said is not recorded; empty if it is. hints: what is otherwise than it was set.
    noted     what the ledger says of the first request before its reply; entries: of each with its reply.
    """

    session: Session
    asked: Asked
    upstreams: Upstreams
    target: Target
    path: str
    headers: Pairs
    held: Held
    ids: ResponseIds
    refuses: bool = False
    hints: tuple[str, ...] = ()
    trouble: str = ""
    replies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    noted: LedgerEntry | None = None
    asks_memory: bool = False
    entries: list[LedgerEntry] = field(default_factory=list[LedgerEntry])

    async def request(self, messages: list[Message]) -> tuple[bytes, Pairs]:
        """The next request: its body and its headers.

        Raises   OffpromptError if the session refuses it, or is late; nothing was sent then.
        """
        is_count = self.asked.is_count
        prepared = await self.held.asks(self.session.preview if is_count else self.session.prepare, messages)
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
        """The reply, read; None for one that no session reads, or not in time: it goes on as it came.

        Raises   BackendError where the memory is late, or a newer request of another process waits, and a call to it
                 or a handle stands in the reply; where that is wanted, for every reply that is not recorded.
        """
        try:
            reply = await self.held.asks(self.session.absorb, data)
        except (BackendError, ConflictError) as exc:
            if self.refuses or (self.asks_memory and is_ours(data)):
                raise BackendError(f"{exc}; ask again") from exc
            self.trouble = f"{exc}, and the reply is not recorded"
            LOG.warning(UNREAD, exc)
            return None
        except UsageError as exc:
            LOG.warning(UNREAD, exc)
            return None
        if self.refuses and (cause := self.session.underway.cause):
            raise BackendError(f"{cause}; ask again")
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
            return raw, read_json(raw)
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
        relay = Relay(self.session, self.held, self.asked, one, refuses=self.refuses)
        try:
            async with aclosing(relay.pieces(answer)) as pieces:
                async for piece in pieces:
                    yield piece
        except ModelError:
            raise
        except BackendError as exc:
            LOG.warning(UNREAD, exc)
            yield error_bytes(self.asked.wire, f"{exc}; ask again")
            return
        try:
            while (said := relay.not_over()) is not None:
                one.next_reply()
                body, headers = await self.request([*self.asked.messages, *said.messages])
                relay = Relay(self.session, self.held, self.asked, one, refuses=self.refuses)
                async with self.sent(body, headers) as following, aclosing(relay.pieces(following)) as pieces:
                    async for piece in pieces:
                        yield piece
        except OffpromptError as exc:
            LOG.warning("a turn broke off behind the memory's answer: %s", exc)
            yield error_bytes(self.asked.wire, str(exc))
            return
        rest = relay.end()
        if (ids := one.last_id) is not None and self.asked.body.get("store") is not False:
            with suppress(BackendError):  # of which the log says it, too
                await self.held.asks(self.ids.keep, self.target.url, *ids)
        for out in rest:
            yield out


def _as_it_came(answer: Answered, raw: bytes) -> Begun:
    kept = [(name, value) for name, value in answer.headers if name != b"content-length"]
    return Begun(answer.status, [*kept, (b"content-length", str(len(raw)).encode())], _once(raw))


async def _once(content: bytes) -> AsyncGenerator[bytes]:
    yield content
