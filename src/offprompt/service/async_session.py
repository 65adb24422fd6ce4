"""AsyncSession: a session for `async` code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from typing import Any

from offprompt.errors import UsageError
from offprompt.records import JournalEntry, LedgerEntry, Reply, Scope, SessionRecord
from offprompt.service.session import Session
from offprompt.wire.options import Underway
from offprompt.wire.streamed import AsyncStreamedReply, StreamReader


class AsyncSession:
    """`Session` with awaitable calls: the same names, arguments and errors; each runs in a worker thread."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def scope(self) -> Scope:
        """Whose conversation it is."""
        return self._session.scope

    @property
    def record(self) -> SessionRecord | None:
        """See `Session.record`; one read of the store."""
        return self._session.record

    async def prepare(self, messages: Sequence[Any], *, show: Sequence[str] = ()) -> dict[str, Any]:
        """See `Session.prepare`."""
        return await asyncio.to_thread(self._session.prepare, messages, show=show)

    async def absorb(self, reply: object) -> Reply:
        """See `Session.absorb`."""
        return await asyncio.to_thread(self._session.absorb, reply)

    def absorb_stream(self, chunks: AsyncIterable[object]) -> AsyncStreamedReply:
        """See `Session.absorb_stream`; iterate with `async for`."""
        return AsyncStreamedReply(self._session.stream_reader(), chunks)

    def stream_reader(self) -> StreamReader:
        """See `Session.stream_reader`."""
        return self._session.stream_reader()

    async def complete(
        self,
        call: Callable[..., Awaitable[object]],
        messages: Sequence[Any],
        *,
        show: Sequence[str] = (),
        **options: Any,
    ) -> Reply:
        """See `Session.complete`; `call` is awaited."""
        if not callable(call):
            raise UsageError(f"call={call!r} cannot be called; pass such as client.chat.completions.create")
        reply = await self.absorb(await call(**{**await self.prepare(messages, show=show), **options}))
        while not reply.done:
            request = await self.prepare([*messages, *reply.messages])
            reply = await self.absorb(await call(**{**request, **options}))
        return reply

    def end(self) -> None:
        """See `Session.end`; it waits for nothing."""
        self._session.end()

    @property
    def last_entry(self) -> LedgerEntry | None:
        """See `Session.last_entry`."""
        return self._session.last_entry

    @property
    def underway(self) -> Underway:
        """See `Session.underway`."""
        return self._session.underway

    @underway.setter
    def underway(self, known: Underway) -> None:
        self._session.underway = known

    async def messages(self) -> list[dict[str, Any]]:
        """See `Session.messages`."""
        return await asyncio.to_thread(self._session.messages)

    async def ledger(self) -> list[LedgerEntry]:
        """See `Session.ledger`."""
        return await asyncio.to_thread(self._session.ledger)

    async def journal(self) -> list[JournalEntry]:
        """See `Session.journal`."""
        return await asyncio.to_thread(self._session.journal)
