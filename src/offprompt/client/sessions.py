"""One conversation whose session a server keeps: what `service.session` offers, and the server runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, Final

from msgspec import to_builtins

from offprompt.client._answers import record_of, records_of
from offprompt.client._lookups import Asked, lookups_of
from offprompt.client._requests import Asking, Async, AsyncSending, Request, Sending, Sync, asked, path_of
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.records import JournalEntry, LedgerEntry, Reply, Scope, SessionRecord
from offprompt.wire.handles import Lookup
from offprompt.wire.options import SessionOptions, Underway
from offprompt.wire.payload import given_messages, identity, plain, repaired
from offprompt.wire.profiles import profile_for
from offprompt.wire.shapes import Wire, check_tools
from offprompt.wire.streamed import AsyncStreamedReply, Lookups, StreamedReply, StreamReader

PAGE: Final = 1000


class SessionCalls:
    """The calls of both faces; see `offprompt.service.session.Session`, whose arguments, results and errors they have.

    State    is in the server's store: any of its workers may answer, and any process may go on, one call at a time.
    Stream   its chunks are read here; the server is asked for each handle once, and for the whole reply at its end.
    Raises   as there; BackendError where the server does not answer: then give the same messages, or the same reply,
             once more; what was done is not done again.
    """

    def __init__(
        self, transport: Any, headers: Mapping[str, str], scope: Callable[[], Scope], name: str, options: SessionOptions
    ) -> None:
        """`scope`: says whose it is, which may cost a request; name: the session's id."""
        Scope(session=name)
        self._transport, self._headers, self._scope, self._name = transport, headers, scope, name
        self._wire: Wire = options.wire or profile_for(options.model).wire
        check_tools(options.tools, self._wire)
        given = {each.name: getattr(options, each.name) for each in fields(options)}
        self._options = {key: value for key, value in given.items() if value != getattr(PLAIN, key)}
        self._last_entry: LedgerEntry | None = None
        self.underway = Underway()
        """What is known here of the newest request beside what is stored; see `Session.underway`."""

    @cached_property
    def scope(self) -> Scope:
        """Whose conversation it is."""
        return self._scope().narrow(session=self._name)

    @property
    def last_entry(self) -> LedgerEntry | None:
        """See `Session.last_entry`."""
        return self._last_entry

    @asked
    def prepare(self, messages: Sequence[Any], *, show: Sequence[str] = ()) -> Asking[dict[str, Any]]:
        """See `Session.prepare`."""
        given = given_messages(messages, show)
        for message in given:
            identity(message)
        answer = yield self._call("prepare", messages=given, show=list(show))
        self._note(answer)
        return answer["request"]

    @asked
    def preview(self, messages: Sequence[Any]) -> Asking[dict[str, Any]]:
        """Not over HTTP: it raises UnsupportedError."""
        del messages
        raise UnsupportedError(
            "what a request would be is seen only where the store is; over HTTP call prepare: its request need not be "
            "sent, and the same messages once more are answered with the same one"
        )
        yield  # as all calls here, it is a generator

    @asked
    def absorb(self, reply: object) -> Asking[Reply]:
        """See `Session.absorb`."""
        answer = yield self._call("absorb", reply=repaired(plain(reply, "the reply")))
        self._note(answer)
        return record_of(answer["reply"], Reply)

    @asked
    def messages(self) -> Asking[list[dict[str, Any]]]:
        """See `Session.messages`."""
        return (yield self._get("messages"))["messages"]

    @asked
    def ledger(self) -> Asking[list[LedgerEntry]]:
        """See `Session.ledger`."""
        return records_of((yield from self._pages("ledger")), LedgerEntry)

    @asked
    def journal(self) -> Asking[list[JournalEntry]]:
        """See `Session.journal`."""
        return records_of((yield from self._pages("journal")), JournalEntry)

    @asked
    def _record(self) -> Asking[SessionRecord | None]:
        try:
            return record_of((yield self._get()), SessionRecord)
        except NotFoundError:
            return None

    def _call(self, verb: str, **body: Any) -> Request:
        underway = to_builtins(self.underway)
        return Request(
            "POST",
            path_of("v1", "sessions", self._name, verb),
            body={**self._options, **({"underway": underway} if underway else {}), **body},
            headers=self._headers,
            is_read=True,  # once more it changes nothing
        )

    def _get(self, *what: str, **query: Any) -> Request:
        return Request("GET", path_of("v1", "sessions", self._name, *what), query=query, headers=self._headers)

    def _pages(self, what: str) -> Asking[list[Any]]:
        found, cursor = list[Any](), ""
        while True:
            page = yield self._get(what, cursor=cursor or None, limit=PAGE)
            found += page["entries"]
            cursor = page["cursor"]
            if not cursor:
                return found

    def _note(self, answer: Mapping[str, Any]) -> None:
        self.underway = record_of(answer["underway"], Underway)
        entry = answer.get("entry")
        self._last_entry = record_of(entry, LedgerEntry) if entry is not None else self._last_entry

    def _reader(self, send: Callable[[Request], Any]) -> StreamReader:
        """What reads a stream here; `send` asks the server, wherever it is called."""

        def look(handle: str) -> Any:
            return send(self._call("resolve", handles=[handle]))["handles"][0]

        def absorb(raw: object) -> tuple[Reply, Lookups]:
            answer = send(self._call("absorb", reply=repaired(raw), looked=True))
            self._note(answer)
            return record_of(answer["reply"], Reply), lookups_of(answer["looked"], before)

        before: Lookup = Asked(look)
        return StreamReader(self._wire, Lookups(before, before, ""), absorb)


PLAIN: Final = SessionOptions()


class Session(SessionCalls, Sync):
    """One conversation; see `offprompt.service.session.Session`."""

    _transport: Sending

    @property
    def record(self) -> SessionRecord | None:
        """See `Session.record`; one request."""
        return self._record()

    def absorb_stream(self, chunks: Iterable[object]) -> StreamedReply:
        """See `Session.absorb_stream`."""
        return StreamedReply(self.stream_reader(), chunks)

    def stream_reader(self) -> StreamReader:
        """See `Session.stream_reader`."""
        return self._reader(self._transport.send)

    def complete(
        self, call: Callable[..., object], messages: Sequence[Any], *, show: Sequence[str] = (), **options: Any
    ) -> Reply:
        """See `Session.complete`; the model is called from here."""
        _check_call(call)
        reply = self.absorb(call(**{**self.prepare(messages, show=show), **options}))
        while not reply.done:
            reply = self.absorb(call(**{**self.prepare([*messages, *reply.messages]), **options}))
        return reply

    def end(self) -> None:
        """See `Session.end`."""
        self._transport.send(self._call("end"))


class AsyncSession(SessionCalls, Async):
    """`Session` for `async` code: the same names, awaited; `record` too."""

    _transport: AsyncSending

    @property
    def record(self) -> Awaitable[SessionRecord | None]:
        """See `Session.record`; one request."""
        return self._record()

    def absorb_stream(self, chunks: AsyncIterable[object]) -> AsyncStreamedReply:
        """See `Session.absorb_stream`; iterate with `async for`."""
        return AsyncStreamedReply(self.stream_reader(), chunks)

    def stream_reader(self) -> StreamReader:
        """See `Session.stream_reader`; it waits for the server, so feed it in a worker thread, not in this loop."""
        loop = asyncio.get_running_loop()

        def send(request: Request) -> Any:
            return asyncio.run_coroutine_threadsafe(self._sent(request), loop).result()

        return self._reader(send)

    async def _sent(self, request: Request) -> Any:
        return await self._transport.send(request)

    async def complete(
        self,
        call: Callable[..., Awaitable[object]],
        messages: Sequence[Any],
        *,
        show: Sequence[str] = (),
        **options: Any,
    ) -> Reply:
        """See `Session.complete`; `call` is awaited."""
        _check_call(call)
        reply = await self.absorb(await call(**{**await self.prepare(messages, show=show), **options}))
        while not reply.done:
            request = await self.prepare([*messages, *reply.messages])
            reply = await self.absorb(await call(**{**request, **options}))
        return reply

    async def end(self) -> None:
        """See `Session.end`."""
        await self._transport.send(self._call("end"))


def _check_call(call: object) -> None:
    if not callable(call):
        raise UsageError(f"call={call!r} cannot be called; pass such as client.chat.completions.create")
