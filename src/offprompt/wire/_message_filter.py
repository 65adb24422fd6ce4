"""Events of Anthropic messages on their way to the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offprompt.records import as_dict, compact
from offprompt.wire._filters import Filters, TextStage, like
from offprompt.wire._message_events import JSON_DELTA, place
from offprompt.wire.argument_stream import ArgumentStream

Event = dict[str, Any]


@dataclass(slots=True)
class _Block:
    """A block under way. shown: its number among those that the application sees, None: not shown yet."""

    fields: dict[str, Any]
    hidden: bool = False
    text: TextStage | None = None
    arguments: ArgumentStream | None = None
    out: list[str] = field(default_factory=list[str])
    shown: int | None = None
    over: bool = False


class MessageFilter:
    """See `reply_stream.ReplyStream`."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._blocks: dict[int, _Block] = {}
        self._newest = -1
        self._shown = 0
        self._calls = 0
        self._chunks: dict[str, object] = {}

    def feed(self, chunk: object, data: Event) -> list[Any]:
        """See `ReplyStream`."""
        kind = str(data.get("type"))
        self._chunks[kind] = chunk
        events = self._events(kind, data)
        return [chunk if event == data else self._like(event) for event in events]

    def _like(self, event: Event) -> Any:
        """An event as the application gets events: of the class in which events of its kind came."""
        kind = str(event["type"])
        return like(self._chunks[kind], event) if kind in self._chunks else event

    def _events(self, kind: str, data: Event) -> list[Event]:
        if kind == "content_block_start":
            self._newest = place(data, self._newest + 1)
            return self._start(data)
        if kind == "content_block_delta":
            at = place(data, max(self._newest, 0))
            if at not in self._blocks:
                self._blocks[at] = self._block({"type": "text"})
                self._newest = at
            return self._delta(self._blocks[at], data)
        if kind == "content_block_stop":
            block = self._blocks.get(place(data, self._newest))
            return [data] if block is None else self._stop(block, data)
        if kind == "message_delta":
            delta = as_dict(data.get("delta")) or {}
            open_texts = [event for block in self._blocks.values() for event in self._rest(block)]
            if delta.get("stop_reason") == "tool_use" and not self._calls:
                data = {**data, "delta": {**delta, "stop_reason": "end_turn"}}
            return [*open_texts, data]
        return [data]

    def _block(self, fields: dict[str, Any]) -> _Block:
        block = _Block(fields)
        if fields.get("type") == "text":
            block.text = self._filters.text()
        elif fields.get("type") == "tool_use":
            block.hidden = fields.get("name") in self._filters.hidden
            block.arguments = None if block.hidden else self._filters.arguments(str(fields.get("name")))
        return block

    def _start(self, data: Event) -> list[Event]:
        fields = as_dict(data.get("content_block")) or {}
        block = self._block(fields)
        self._blocks[self._newest] = block
        if block.hidden:
            return []
        if block.arguments is not None:
            given = as_dict(fields.get("input"))
            if given:
                block.out.append(block.arguments.feed(compact(given)))
            block.fields = {**fields, "input": {}}
            return []
        if block.text is not None and fields.get("text"):
            fields = {**fields, "text": block.text.feed(str(fields["text"]))}
        return [{**data, "index": self._number(block), "content_block": fields}]

    def _number(self, block: _Block) -> int:
        if block.shown is None:
            block.shown = self._shown
            self._shown += 1
        return block.shown

    def _delta(self, block: _Block, data: Event) -> list[Event]:
        delta = as_dict(data.get("delta")) or {}
        if block.hidden:
            return []
        if block.arguments is not None and delta.get("type") == JSON_DELTA:
            block.out.append(block.arguments.feed(str(delta.get("partial_json") or "")))
            return self._show_call(block) if self._filters.calls == "streamed" and any(block.out) else []
        if block.text is not None and delta.get("type") == "text_delta":
            text = block.text.feed(str(delta.get("text") or ""))
            if not text and delta.get("text"):
                return []
            return [{**data, "index": self._number(block), "delta": {**delta, "text": text}}]
        return [{**data, "index": self._number(block)}]

    def _show_call(self, block: _Block) -> list[Event]:
        events: list[Event] = []
        if block.shown is None:
            self._calls += 1
            index = self._number(block)
            events.append({"type": "content_block_start", "index": index, "content_block": block.fields})
        text = "".join(block.out)
        block.out.clear()
        if text:
            delta = {"type": JSON_DELTA, "partial_json": text}
            events.append({"type": "content_block_delta", "index": self._number(block), "delta": delta})
        return events

    def _stop(self, block: _Block, data: Mapping[str, Any]) -> list[Event]:
        if block.hidden or block.over:
            return []
        if block.arguments is not None:
            block.over = True
            block.out.append(block.arguments.finish())
            if block.arguments.bad:
                return []
            return [*self._show_call(block), {**data, "index": self._number(block)}]
        return [*self._rest(block), {**data, "index": self._number(block)}]

    def _rest(self, block: _Block) -> list[Event]:
        """What a text still holds back."""
        rest = "" if block.text is None or block.over else block.text.finish()
        block.over = True
        if not rest:
            return []
        delta = {"type": "text_delta", "text": rest}
        return [{"type": "content_block_delta", "index": self._number(block), "delta": delta}]

    def finish(self) -> list[Any]:
        """See `ReplyStream`."""
        return [self._like(event) for block in self._blocks.values() for event in self._rest(block)]
