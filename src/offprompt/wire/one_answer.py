"""One answer: the replies of a turn, between which the model asked its memory, as the one that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from offprompt.records import Message, as_dict, as_list
from offprompt.wire.payload import parts_of
from offprompt.wire.shapes import Wire


def summed(counts: Sequence[Any]) -> dict[str, Any]:
    """Usages added up: numbers by name, at any depth; what is no number is the last one's."""
    total: dict[str, Any] = {}
    for given in counts:
        for key, value in (as_dict(given) or {}).items():
            known = total.get(key)
            if as_dict(value) is not None:
                total[key] = summed([known, value])
            elif _is_count(value):
                total[key] = (known if _is_count(known) else 0) + value
            elif value is not None or key not in total:
                total[key] = value
    return total


def one_reply(wire: Wire, replies: Sequence[Mapping[str, Any]], told: Message, *, has_calls: bool) -> dict[str, Any]:
    """The reply that the client gets.

    replies    as the provider sent them, in order, at least one. told: what they say together, by `Shape.told`, handles
               resolved. has_calls: calls of the client's own tools are in it.
    """
    last = dict(replies[-1])
    usage = summed([reply.get("usage") for reply in replies])
    if usage:
        last["usage"] = usage
    if wire == "openai":
        first, *rest = as_list(last.get("choices")) or [{}]
        choice = as_dict(first) or {}
        message = _with_calls({**(as_dict(choice.get("message")) or {}), "content": told.get("content")}, told)
        changed = {**choice, "message": message}
        if choice.get("finish_reason") in ("tool_calls", "function_call") and not has_calls:
            changed["finish_reason"] = "stop"
        return {**last, "choices": [changed, *rest]}
    if wire == "anthropic":
        raw = [block for reply in replies for block in parts_of(dict(reply))]
        content = [_as_sent(block, raw) for block in parts_of(told)]
        if last.get("stop_reason") == "tool_use" and not has_calls:
            last["stop_reason"] = "end_turn"
        return {**last, "content": content}
    return {**last, "output": list(as_list(told.get("output")) or [])}


def _with_calls(message: dict[str, Any], told: Message) -> dict[str, Any]:
    """The message with the client's calls alone."""
    message.pop("tool_calls", None)
    return {**message, "tool_calls": told["tool_calls"]} if told.get("tool_calls") else message


def _as_sent(block: dict[str, Any], raw: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A block with the fields that the provider sent with it, such as citations, where it was not changed."""
    return next((each for each in raw if all(each.get(key) == value for key, value in block.items())), block)


def _is_count(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
