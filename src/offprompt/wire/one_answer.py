"""One answer: the replies of a turn, between which the model asked its memory, as the one that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from offprompt.records import Message, as_dict, as_list
from offprompt.wire.payload import parts_of
from offprompt.wire.shapes import REASONING, Wire

THOUGHTS: Final = (REASONING, "reasoning")
"""Where chat completions of some providers carry thinking as text."""


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


def one_reply(
    wire: Wire, replies: Sequence[Mapping[str, Any]], told: Message, *, has_calls: bool, last_text: bool = False
) -> dict[str, Any]:
    """The reply that the client gets.

    replies    as the provider sent them, in order, at least one. told: what they say together, by `Shape.told`, handles
               resolved. has_calls: calls of the client's own tools are in it. last_text: only the last one's text is.
    """
    last = dict(replies[-1])
    usage = summed([reply.get("usage") for reply in replies])
    if usage:
        last["usage"] = usage
    if wire == "responses":
        items = [as_dict(item) or {} for reply in replies for item in as_list(reply.get("output")) or []]
        return {**last, "output": [_as_sent(as_dict(item) or {}, items) for item in as_list(told.get("output")) or []]}
    last |= {key: replies[0][key] for key in ("id", "created") if key in replies[0]}
    if wire == "openai":
        return {**last, "choices": _choices(replies, told, has_calls=has_calls, last_text=last_text)}
    blocks = [block for reply in replies for block in parts_of(dict(reply))]
    if last.get("stop_reason") == "tool_use" and not has_calls:
        last["stop_reason"] = "end_turn"
    return {**last, "content": [_as_sent(block, blocks) for block in parts_of(told)]}


def _choices(replies: Sequence[Mapping[str, Any]], told: Message, *, has_calls: bool, last_text: bool) -> list[Any]:
    """The choices of chat completions: the first one with all that was said, thought and counted of it."""
    firsts = [as_dict(each) or {} for reply in replies for each in (as_list(reply.get("choices")) or [])[:1]]
    choice = dict(firsts[-1]) if firsts else {}
    message = dict(as_dict(choice.get("message")) or {})
    if (message.get("content") or "") != (told.get("content") or ""):
        message["content"] = told.get("content")
    calls = as_list(message.pop("tool_calls", None))
    if told.get("tool_calls"):
        message["tool_calls"] = told["tool_calls"]
    elif calls:
        message["content"] = message.get("content") or ""
    for key in THOUGHTS:
        thought = [(as_dict(each.get("message")) or {}).get(key) for each in firsts]
        if len(thought) > 1 and any(thought):
            message[key] = "".join(text for text in thought if isinstance(text, str))
    choice["message"] = message
    if len(firsts) > 1 and choice.get("logprobs") and not last_text:
        choice["logprobs"] = joined_logprobs([as_dict(each.get("logprobs")) or {} for each in firsts])
    if choice.get("finish_reason") in ("tool_calls", "function_call") and not has_calls:
        choice["finish_reason"] = "stop"
    return [choice, *(as_list(replies[-1].get("choices")) or [])[1:]]


def joined_logprobs(counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Log probabilities of several replies, one behind the other."""
    keys = dict.fromkeys(key for each in counts for key in each)
    lists = {key: [item for each in counts for item in as_list(each.get(key)) or []] for key in keys}
    return {key: items or None for key, items in lists.items()}


def _as_sent(block: dict[str, Any], raw: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A block with the fields that the provider sent with it, such as citations, where it was not changed."""
    return next((each for each in raw if all(each.get(key) == value for key, value in block.items())), block)


def _is_count(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
