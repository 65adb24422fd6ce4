"""A reply that is streamed: chunks for the application while it comes, the whole reply at its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import Reply
from offprompt.wire.action_stream import ActionStream
from offprompt.wire.argument_stream import ArgumentStream
from offprompt.wire.handle_stream import HandleStream
from offprompt.wire.handles import Looked, Lookup, resolve_arguments
from offprompt.wire.reply_stream import Filters, ReplyStream
from offprompt.wire.shapes import Wire

NOT_READ: Final = "the stream was not read to its end; iterate over it first, then ask for its reply"


@dataclass(frozen=True, slots=True)
class Lookups:
    """How handles are looked up: in text, and in the arguments of calls. missing: what stands for a bad one in text.

    call    how those of one whole call are, by its tool's name and arguments; None: `arguments` says all.
    """

    text: Lookup
    arguments: Lookup
    missing: str
    call: Callable[[str, str], Lookup] | None = None


class _TextStage:
    """Text without actions, its handles resolved."""

    def __init__(self, lookups: Lookups) -> None:
        self._actions, self._handles = ActionStream(), HandleStream(lookups.text, missing=lookups.missing)

    def feed(self, text: str, /) -> str:
        return self._handles.feed(self._actions.feed(text))

    def finish(self) -> str:
        rest, _ = self._actions.end()
        return self._handles.feed(rest) + self._handles.finish()


class StreamReader:
    """Feeds one streamed reply; the sync and the async stream are thin over it.

    Text goes on as soon as its handles are resolved, by the memory as it is when they come. What needs more than that
    (a handle that nothing stands for yet, a call of the client's tools, whose arguments see what the reply itself
    saves) waits for the reply's end: then the actions have run, and the same chunks go through again.

    wire     the form of its chunks.
    before   how handles are looked up while chunks come. absorb: reads the whole reply, and says how its handles were
             looked up. whole: what it is given, None until the reply is over.
    """

    def __init__(
        self,
        wire: Wire,
        before: Lookups,
        absorb: Callable[[object], tuple[Reply, Lookups]],
    ) -> None:
        self.wire: Wire = wire
        self.absorb = absorb
        self.before = before
        self._chunks: list[object] = []
        self._waits_from: int | None = None
        self._stream = ReplyStream(wire, self._watched())
        self._rest: list[Any] = []
        self.whole: dict[str, Any] | None = None
        self.reply: Reply | None = None

    @property
    def waits(self) -> bool:
        """Whether something of the reply waits for its end."""
        return self._waits_from is not None

    def feed(self, chunk: object) -> list[Any]:
        """The next chunk; what the application gets for it."""
        self._chunks.append(chunk)
        out = self._stream.feed(chunk)
        return [] if self._waits_from is not None else out

    def finish(self) -> list[Any]:
        """The provider's stream is over: the reply is absorbed, and what waited comes; nothing the second time."""
        if self.reply is not None:
            return []
        self._rest = self._stream.finish()
        self.whole = self._stream.assembled()
        self.reply, after = self.absorb(self.whole)
        return self._over(after)

    def unread(self) -> list[Any]:
        """What `finish` would give, of a whole reply that cannot be absorbed and in which nothing is the memory's."""
        return self._over(self.before)

    def _over(self, after: Lookups) -> list[Any]:
        if self._waits_from is None:
            return self._rest
        stream = ReplyStream(self.wire, _filters(after))
        out = [stream.feed(chunk) for chunk in self._chunks][self._waits_from :]
        return [*(each for chunk in out for each in chunk), *stream.finish()]

    def broken(self) -> list[Any]:
        """The provider's stream failed: as `finish`, if anything came; else there is no reply to absorb."""
        return self.finish() if self._chunks else []

    def _watched(self) -> Filters:
        def text(name: str, pointer: str, /) -> Looked:
            looked = self.before.text(name, pointer)
            if looked.status != "ok":
                self._wait()
            return looked

        def arguments(tool: str) -> ArgumentStream:
            self._wait()
            return _filters(self.before).arguments(tool)

        watched = Lookups(text, self.before.arguments, self.before.missing)
        return Filters(lambda: _TextStage(watched), arguments)

    def _wait(self) -> None:
        if self._waits_from is None:
            self._waits_from = max(len(self._chunks) - 1, 0)


class _WholeCall(ArgumentStream):
    """A call's arguments, resolved when all of them are there: a secret's places are told by the whole call."""

    def __init__(self, tool: str, lookups: Lookups, of_call: Callable[[str, str], Lookup]) -> None:
        super().__init__(lookups.arguments)
        self._tool, self._of_call = tool, of_call
        self._given: list[str] = []

    def feed(self, text: str) -> str:
        self._given.append(text)
        return ""

    def finish(self) -> str:
        whole = "".join(self._given)
        resolved = resolve_arguments(whole, self._of_call(self._tool, whole))
        self._used, self._bad = list(resolved.used), list(resolved.bad)
        return "" if resolved.bad else resolved.text


def _filters(lookups: Lookups) -> Filters:
    def arguments(tool: str) -> ArgumentStream:
        of_call = lookups.call
        return ArgumentStream(lookups.arguments) if of_call is None else _WholeCall(tool, lookups, of_call)

    return Filters(lambda: _TextStage(lookups), arguments)


class StreamedReply:
    """Iterate over it for the chunks, in the provider's own shape; then `reply` is the whole.

    Memory calls are hidden, handles resolved: joined, the text is `reply.text`, byte for byte.
    Fails    as the provider's stream does: what came is absorbed as cut, then its error goes on to the caller, once.
    """

    def __init__(self, reader: StreamReader, chunks: Iterable[object]) -> None:
        self._reader, self._chunks = reader, iter(chunks)

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                chunk = next(self._chunks)
            except StopIteration:
                yield from self._reader.finish()
                return
            except Exception:
                yield from self._reader.broken()
                raise
            yield from self._reader.feed(chunk)

    @property
    def reply(self) -> Reply:
        """The reply as `absorb` gives it.

        Raises   UsageError before the stream was read to its end.
        """
        if self._reader.reply is None:
            raise UsageError(NOT_READ)
        return self._reader.reply


class AsyncStreamedReply:
    """`StreamedReply` for `async for`; the store is asked in a worker thread."""

    def __init__(self, reader: StreamReader, chunks: AsyncIterable[object]) -> None:
        self._reader, self._chunks = reader, aiter(chunks)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            try:
                chunk = await anext(self._chunks)
            except StopAsyncIteration:
                for out in await asyncio.to_thread(self._reader.finish):
                    yield out
                return
            except Exception:
                for out in await asyncio.to_thread(self._reader.broken):
                    yield out
                raise
            for out in await asyncio.to_thread(self._reader.feed, chunk):
                yield out

    @property
    def reply(self) -> Reply:
        """See `StreamedReply.reply`."""
        if self._reader.reply is None:
            raise UsageError(NOT_READ)
        return self._reader.reply
