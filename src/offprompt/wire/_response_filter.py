"""Events of OpenAI's responses on their way to the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offprompt.records import as_dict, as_list
from offprompt.wire._filters import Filters, TextStage, like
from offprompt.wire._response_events import (
    ADDED,
    ARGUMENTS_DELTA,
    ARGUMENTS_DONE,
    DONE,
    ENDS,
    PART_ADDED,
    PART_DONE,
    TEXT_DELTA,
    TEXT_DONE,
    opened,
    place,
)
from offprompt.wire._response_items import is_call
from offprompt.wire.argument_stream import ArgumentStream
from offprompt.wire.payload import number

Event = dict[str, Any]


@dataclass(slots=True)
class _Text:
    """The text of one part: what came, what was passed on."""

    stage: TextStage
    given: bool = False
    out: list[str] = field(default_factory=list[str])
    over: bool = False

    def feed(self, text: str) -> str:
        self.given = self.given or bool(text)
        self.out.append(self.stage.feed(text) if text else "")
        return self.out[-1]

    def finish(self) -> str:
        if self.over:
            return ""
        self.over = True
        self.out.append(self.stage.finish())
        return self.out[-1]


@dataclass(slots=True)
class _Item:
    """An item under way. shown: its number among those that the application sees, None: not shown yet."""

    fields: dict[str, Any]
    hidden: bool = False
    arguments: ArgumentStream | None = None
    given: bool = False
    out: list[str] = field(default_factory=list[str])
    sent: int = 0
    texts: dict[int, _Text] = field(default_factory=dict[int, _Text])
    shown: int | None = None
    over: bool = False


class ResponseFilter:
    """See `reply_stream.ReplyStream`; events are numbered anew."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._items: dict[int, _Item] = {}
        self._chunks: dict[str, object] = {}
        self._shown = 0
        self._sequence: int | None = None
        self._ended = False

    def feed(self, chunk: object, data: Event) -> list[Any]:
        """See `ReplyStream`."""
        kind = str(data.get("type"))
        self._chunks[kind] = chunk
        if self._sequence is None:
            self._sequence = number(data.get("sequence_number"))
        events = map(self._numbered, self._events(kind, data))
        return [chunk if event == data else self._like(event) for event in events]

    def finish(self) -> list[Any]:
        """See `ReplyStream`."""
        rest = [] if self._ended else [event for item in self._items.values() for event in self._rest(item)]
        return [self._like(self._numbered(event)) for event in rest]

    def _numbered(self, event: Event) -> Event:
        if self._sequence is None:
            return event
        self._sequence += 1
        return {**event, "sequence_number": self._sequence - 1}

    def _like(self, event: Event) -> Any:
        """An event as the application gets events: of the class in which events of its kind came."""
        kind = str(event.get("type"))
        return like(self._chunks[kind], event) if kind in self._chunks else event

    def _events(self, kind: str, data: Event) -> list[Event]:
        if isinstance(data.get("output_index"), int):
            return self._of_item(kind, place(data, "output_index"), data)
        response = as_dict(data.get("response"))
        if response is None or kind not in ENDS:
            return [data]
        self._ended = True
        output = [as_dict(each) or {} for each in as_list(response.get("output")) or []]
        events = [event for item in self._items.values() for event in self._rest(item)]
        for at, item in enumerate(output):
            # Some servers send an item in the last event only, or no end of it.
            if at not in self._items or not self._items[at].over:
                events += self._of_item(DONE, at, {"type": DONE, "output_index": at, "item": item})
        seen = [self._final(self._items[at], item) for at, item in enumerate(output) if not self._items[at].hidden]
        return [*events, {**data, "response": {**response, "output": seen}}]

    def _of_item(self, kind: str, at: int, data: Event) -> list[Event]:
        if at not in self._items:
            self._items[at] = self._item(opened(kind, data))
        item = self._items[at]
        if kind in (ADDED, DONE):
            item.fields = as_dict(data.get("item")) or item.fields
        if item.hidden:
            return []
        if is_call(item.fields):
            return self._of_call(item, kind, data)
        if kind == DONE:
            rest = self._rest(item)
            item.over = True
            return [*rest, {**data, "output_index": self._number(item), "item": self._final(item, item.fields)}]
        if kind in (TEXT_DELTA, TEXT_DONE, PART_ADDED, PART_DONE):
            return self._of_text(item, kind, data)
        return [{**data, "output_index": self._number(item)}]

    def _item(self, fields: dict[str, Any]) -> _Item:
        return _Item(fields, hidden=is_call(fields) and fields.get("name") in self._filters.hidden)

    def _number(self, item: _Item) -> int:
        if item.shown is None:
            item.shown = self._shown
            self._shown += 1
        return item.shown

    def _of_text(self, item: _Item, kind: str, data: Event) -> list[Event]:
        at = place(data, "content_index")
        part = as_dict(data.get("part")) or {}
        if kind in (PART_ADDED, PART_DONE) and part.get("type") != "output_text":
            return [{**data, "output_index": self._number(item)}]
        text = self._text(item, at)
        event = {**data, "output_index": self._number(item)}
        if kind == TEXT_DELTA:
            delta = str(data.get("delta") or "")
            changed = text.feed(delta)
            return [] if delta and not changed else [_spoken(event, "delta", changed)]
        if kind == PART_ADDED:
            return [{**event, "part": {**part, "text": text.feed(str(part.get("text") or ""))}}]
        whole = str((part if kind == PART_DONE else data).get("text") or "")
        rest = self._end(item, at, whole)
        said = "".join(text.out)
        done = {**event, "part": _spoken(part, "text", said)} if kind == PART_DONE else _spoken(event, "text", said)
        return [*rest, done]

    def _text(self, item: _Item, at: int) -> _Text:
        return item.texts.setdefault(at, _Text(self._filters.text()))

    def _end(self, item: _Item, at: int, whole: str = "") -> list[Event]:
        """What a text still holds back; whole: all of it, for one that came without pieces."""
        text = self._text(item, at)
        rest = ("" if text.given or text.over else text.feed(whole)) + text.finish()
        if not rest:
            return []
        place_of = {"output_index": self._number(item), "content_index": at}
        head = {"type": TEXT_DELTA, "item_id": str(item.fields.get("id") or "")}
        return [{**head, **place_of, "delta": rest, "logprobs": []}]

    def _rest(self, item: _Item) -> list[Event]:
        """What the texts of an item still hold back."""
        for at, part in enumerate(as_list(item.fields.get("content")) or []):
            block = as_dict(part) or {}
            if block.get("type") == "output_text" and item.fields.get("role") == "assistant" and not item.hidden:
                self._text(item, at)
        whole = dict(enumerate(as_list(item.fields.get("content")) or []))
        return [
            event
            for at in sorted(item.texts)
            for event in self._end(item, at, str((as_dict(whole.get(at)) or {}).get("text") or ""))
        ]

    def _final(self, item: _Item, fields: dict[str, Any]) -> dict[str, Any]:
        """An item as the application gets it whole."""
        if item.arguments is not None:
            return {**fields, "arguments": "".join(item.out)}
        if not item.texts:
            return fields
        parts = [as_dict(part) or {} for part in as_list(fields.get("content")) or []]
        said = {at: "".join(text.out) for at, text in item.texts.items()}
        content = [_spoken(part, "text", said[at]) if at in said else part for at, part in enumerate(parts)]
        return {**fields, "content": content}

    def _of_call(self, item: _Item, kind: str, data: Event) -> list[Event]:
        """A call of the application's tools: whole at its end, or as it comes."""
        name = str(item.fields.get("name") or "")
        if item.arguments is None and name:
            item.hidden = name in self._filters.hidden
            if item.hidden:
                return []
            item.arguments = self._filters.arguments(name)
        if kind == ARGUMENTS_DELTA and item.arguments is not None:
            piece = str(data.get("delta") or "")
            item.given = item.given or bool(piece)
            item.out.append(item.arguments.feed(piece))
        streamed = self._filters.calls == "streamed"
        if kind != DONE:
            return self._show_call(item) if streamed and any(item.out[item.sent :]) else []
        item.over = True
        if item.arguments is None or item.fields.get("status") == "incomplete":
            item.hidden = True
            return []
        if not item.given:
            item.out.append(item.arguments.feed(str(item.fields.get("arguments") or "")))
        item.out.append(item.arguments.finish())
        if item.arguments.bad:
            item.hidden = True
            return []
        final = self._final(item, item.fields)
        events = self._show_call(item)
        whole = {"name": name, "arguments": final["arguments"]}
        events.append({"type": ARGUMENTS_DONE, **_of(item), **whole})
        return [*events, {**data, "output_index": self._number(item), "item": final}]

    def _show_call(self, item: _Item) -> list[Event]:
        """What was not passed on yet of a call."""
        events: list[Event] = []
        if item.shown is None:
            self._number(item)
            begun = {**item.fields, "arguments": "", "status": "in_progress"}
            events.append({"type": ADDED, "output_index": item.shown, "item": begun})
        text = "".join(item.out[item.sent :])
        item.sent = len(item.out)
        if text:
            events.append({"type": ARGUMENTS_DELTA, **_of(item), "delta": text})
        return events


def _of(item: _Item) -> Event:
    return {"item_id": str(item.fields.get("id") or ""), "output_index": item.shown}


def _spoken(fields: Mapping[str, Any], key: str, text: str) -> dict[str, Any]:
    """An event or part with another text; the probabilities of words that were not said are left out."""
    changed = {**fields, key: text}
    if fields.get(key) != text and "logprobs" in fields:
        changed["logprobs"] = []
    return changed
