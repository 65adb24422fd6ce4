"""The events that stream one OpenAI response."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from offprompt.records import as_dict, as_list

Cut: TypeAlias = Callable[[str], list[str]]
_Event: TypeAlias = tuple[str, dict[str, Any]]


def response_events(reply: Mapping[str, Any], cut: Cut) -> Iterator[dict[str, Any]]:
    """All events of a response, numbered; `cut` takes its texts apart."""
    for number, (kind, fields) in enumerate(_events(reply, cut)):
        yield {"type": kind, "sequence_number": number, **fields}


def _events(reply: Mapping[str, Any], cut: Cut) -> Iterator[_Event]:
    begun: dict[str, Any] = {**reply, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for at, each in enumerate(as_list(reply.get("output")) or []):
        item = as_dict(each) or {}
        place = {"output_index": at}
        empty = {"message": "content", "function_call": "arguments", "reasoning": "summary"}.get(str(item.get("type")))
        opened = {**item, "status": "in_progress"}
        if empty is not None:
            opened[empty] = "" if empty == "arguments" else []
        yield "response.output_item.added", {**place, "item": opened}
        yield from _inside(item, {**place, "item_id": str(item.get("id", ""))}, cut)
        yield "response.output_item.done", {**place, "item": item}
    over = "response.incomplete" if reply.get("status") == "incomplete" else "response.completed"
    yield over, {"response": dict(reply)}


def _inside(item: Mapping[str, Any], place: Mapping[str, Any], cut: Cut) -> Iterator[_Event]:
    if item.get("type") == "function_call":
        arguments = str(item.get("arguments", ""))
        for piece in cut(arguments):
            yield "response.function_call_arguments.delta", {**place, "delta": piece}
        named = {"name": item.get("name"), "arguments": arguments}
        yield "response.function_call_arguments.done", {**place, **named}
    elif item.get("type") == "message":
        for at, each in enumerate(as_list(item.get("content")) or []):
            yield from _text(as_dict(each) or {}, {**place, "content_index": at}, cut)
    elif item.get("type") == "reasoning":
        for at, each in enumerate(as_list(item.get("summary")) or []):
            part = as_dict(each) or {}
            here = {**place, "summary_index": at}
            yield "response.reasoning_summary_part.added", {**here, "part": {**part, "text": ""}}
            for piece in cut(str(part.get("text", ""))):
                yield "response.reasoning_summary_text.delta", {**here, "delta": piece}
            yield "response.reasoning_summary_text.done", {**here, "text": part.get("text", "")}
            yield "response.reasoning_summary_part.done", {**here, "part": part}


def _text(part: dict[str, Any], place: Mapping[str, Any], cut: Cut) -> Iterator[_Event]:
    yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
    for piece in cut(str(part.get("text", ""))):
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**place, "text": part.get("text", ""), "logprobs": []}
    yield "response.content_part.done", {**place, "part": part}
