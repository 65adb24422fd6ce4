"""A streamed reply as the application may see it: handles resolved, memory calls hidden, the rest as it came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from offprompt.wire._chat_filter import ChatFilter
from offprompt.wire._chunks import plain_chunk
from offprompt.wire._filters import Filters, TextStage
from offprompt.wire._message_filter import MessageFilter
from offprompt.wire._response_filter import ResponseFilter
from offprompt.wire.shapes import Wire
from offprompt.wire.streams import assembler_for

__all__ = ["Filters", "ReplyStream", "TextStage"]


class ReplyStream:
    """One reply on its way to the application.

    Chunks      of the shape that came: dicts for dicts, the SDK's objects for its objects. One that needs no change
                is passed on itself; one of which nothing is left is not.
    Text        goes through `filters.text()`, a stage for each choice or text block; thinking does not.
    Hidden      calls under `filters.hidden` are not passed on; those that are left are numbered without gaps. If none
                is left, the reply's end does not speak of calls either (`stop`, `end_turn`).
    Calls       are resolved by `filters.arguments(name)`. They are passed on whole, when they are complete and all
                their handles are good; a bad one is never seen. With `filters.calls="streamed"` they are passed on as
                they come; one that turns out to be bad just stops: then only `Session.absorb` says what may be run.
    Cut         what was held back of a text comes with `finish`; calls that were cut off do not come.
    """

    def __init__(self, wire: Wire, filters: Filters) -> None:
        made = {"openai": ChatFilter, "anthropic": MessageFilter, "responses": ResponseFilter}
        self._filter = made[wire](filters)
        self._assembler = assembler_for(wire)

    def feed(self, chunk: object) -> list[Any]:
        """The next chunk, as object or dict; what the application gets for it. Raises as `streams.assemble`."""
        data = plain_chunk(chunk)
        self._assembler.add(data)
        return self._filter.feed(chunk, data)

    def finish(self) -> list[Any]:
        """The provider's stream is over; what was still held back."""
        return self._filter.finish()

    def assembled(self) -> dict[str, Any]:
        """The whole reply as the model wrote it, for `Session.absorb`."""
        return self._assembler.assembled()

    def through(self, chunks: Iterable[object]) -> Iterator[Any]:
        """All chunks of a stream, one after the other; `assembled` is complete behind the last."""
        for chunk in chunks:
            yield from self.feed(chunk)
        yield from self.finish()
