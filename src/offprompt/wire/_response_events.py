"""Events of OpenAI's responses put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.wire._chunks import CUT, read_object
from offprompt.wire._response_items import CALL

ADDED: Final = "response.output_item.added"
DONE: Final = "response.output_item.done"
TEXT_DELTA: Final = "response.output_text.delta"
TEXT_DONE: Final = "response.output_text.done"
PART_ADDED: Final = "response.content_part.added"
PART_DONE: Final = "response.content_part.done"
ARGUMENTS_DELTA: Final = "response.function_call_arguments.delta"
ARGUMENTS_DONE: Final = "response.function_call_arguments.done"
REFUSAL_DELTA: Final = "response.refusal.delta"
ENDS: Final = ("response.completed", "response.incomplete")
DELTAS: Final = {TEXT_DELTA: ("output_text", "text"), REFUSAL_DELTA: ("refusal", "refusal")}
"""The type of the part that a delta goes on with, and its field."""


def place(event: Mapping[str, Any], key: str) -> int:
    """Which item or part an event speaks of; the first one if it does not say."""
    at = event.get(key)
    return at if isinstance(at, int) else 0


def opened(kind: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """The item that an event begins with, or speaks of if its beginning was left out."""
    item = as_dict(event.get("item"))
    if item is not None:
        return item
    if kind.startswith("response.function_call_arguments"):
        return {"type": CALL}
    of_message = kind in DELTAS or kind in (TEXT_DONE, PART_ADDED, PART_DONE)
    return {"type": "message", "role": "assistant", "content": []} if of_message else {}


@dataclass(slots=True)
class _Item:
    """An item under way: its fields as far as they are known, the pieces of its parts, of its arguments."""

    fields: dict[str, Any]
    parts: dict[int, tuple[str, list[str]]] = field(default_factory=dict[int, tuple[str, list[str]]])
    arguments: list[str] = field(default_factory=list[str])
    done: bool = False


class ResponseAssembler:
    """See `streams.Assembler`."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._items: dict[int, _Item] = {}
        self._whole: dict[str, Any] | None = None

    def add(self, chunk: dict[str, Any]) -> None:
        """See `streams.Assembler`."""
        kind, response = str(chunk.get("type")), as_dict(chunk.get("response"))
        if response is not None:
            if kind in ENDS:
                self._whole = response
            else:
                self._head |= {key: value for key, value in response.items() if key not in ("output", "error")}
        elif isinstance(chunk.get("output_index"), int):
            self._add(kind, chunk)

    def _add(self, kind: str, chunk: Mapping[str, Any]) -> None:
        at = place(chunk, "output_index")
        if kind in (ADDED, DONE) or at not in self._items:
            known = self._items.get(at)
            self._items[at] = _Item(
                opened(kind, chunk), {} if known is None else known.parts, [] if known is None else known.arguments
            )
        item = self._items[at]
        item.done = item.done or kind == DONE
        if kind in DELTAS:
            part = item.parts.setdefault(place(chunk, "content_index"), (kind, []))
            part[1].append(str(chunk.get("delta") or ""))
        elif kind == ARGUMENTS_DELTA:
            item.arguments.append(str(chunk.get("delta") or ""))

    def assembled(self) -> dict[str, Any]:
        """See `streams.Assembler`."""
        items = [whole for _, item in sorted(self._items.items()) if (whole := _as_far(item)) is not None]
        if self._whole is not None:
            # Some servers leave the items out of the last event.
            return {**self._whole, "output": as_list(self._whole.get("output")) or items}
        end = {"status": "incomplete", "incomplete_details": {"reason": CUT}, "output": items}
        return {"object": "response", **self._head, **end}


def _as_far(item: _Item) -> dict[str, Any] | None:
    """An item as far as it came; None for what cannot be sent back or run."""
    if item.done:
        return item.fields
    if item.fields.get("type") == CALL:
        text = "".join(item.arguments)
        name = str(item.fields.get("name") or "")
        if name and read_object(text) is not None:
            return {**item.fields, "arguments": text, "status": "completed"}
        return None
    parts: list[dict[str, Any]] = []
    for _, (kind, pieces) in sorted(item.parts.items()):
        of, key = DELTAS[kind]
        text = "".join(pieces)
        if text.strip():
            parts.append({"type": of, key: text, **({"annotations": []} if of == "output_text" else {})})
    return {**item.fields, "content": parts, "status": "incomplete"} if parts else None
