"""Items of OpenAI's responses: what each is, its texts, its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import Message, as_dict, as_list
from offprompt.wire._system import SYSTEM_ROLES
from offprompt.wire.shapes import Kind, TextMap

OUTPUT: Final = "output"
CALL: Final = "function_call"
RESULT_END: Final = "_output"
READ_FIELDS: Final = ("text", "stdout", "stderr")
TEXT_FIELDS: Final = (*READ_FIELDS, "refusal")
PARSED: Final = ("parsed", "parsed_arguments")
"""What the SDK's `responses.parse` adds to items and parts; the API does not take it back."""


def kind_of(item: Mapping[str, Any], at: int | None = None) -> Kind:
    """Whose an item is; at: its place, for errors.

    Raises   UsageError for what is no item of this wire, or stands for one that the provider keeps.
    """
    role, kind = item.get("role"), str(item.get("type") or "message")
    where = "an item" if at is None else f"messages[{at}]"
    if kind == "item_reference":
        raise UsageError(f"{where} is an item_reference, to what the provider keeps; pass the item itself")
    if kind != "message":
        return "tool" if kind.endswith(RESULT_END) or kind == "mcp_approval_response" else "assistant"
    if role in SYSTEM_ROLES:
        return "system"
    if role == "user":
        return "user"
    if role == "assistant":
        return "assistant"
    if role in ("tool", "function"):
        raise UsageError(
            f"{where} has role {role!r}, which chat completions have; a tool's answer is {{'type': "
            "'function_call_output', 'call_id': …, 'output': …}"
        )
    if item.get("object") == "response":
        raise UsageError(f"{where} is a whole response; pass its items: [*messages, *response.output]")
    raise UsageError(f"{where} has role {role!r}; responses know system, developer, user, assistant")


def check_item(item: Mapping[str, Any], at: int) -> None:
    """Nothing, if an incoming item can be sent.

    Raises   UsageError naming its place.
    """
    kind_of(item, at)
    if item.get("tool_calls"):
        raise UsageError(
            f"messages[{at}] has tool_calls, which chat completions have; a call is an item of type 'function_call', "
            "or pass wire='openai'"
        )
    if "role" in item and not isinstance(item.get("content"), (str, list, tuple)):
        what = "no content" if item.get("content") is None else f"content of type {type(item['content']).__name__}"
        raise UsageError(f"messages[{at}] ({item['role']!r}) has {what}; content is text or a list of parts")
    for key in ("call_id", "name", "arguments") if item.get("type") == CALL else ():
        if not isinstance(item.get(key), str):
            raise UsageError(f"messages[{at}] is a function_call whose {key} is no text; pass the item as it came")


def field_of(item: Mapping[str, Any]) -> str:
    """The field that holds an item's readable text: a message's content, a tool's output; else empty."""
    if "role" in item:
        return "content"
    return OUTPUT if str(item.get("type")).endswith(RESULT_END) else ""


def parts_in(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of an item's readable text; one part for text that is not in parts."""
    content = item.get(field_of(item))
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}] if content else []
    return [as_dict(part) or {} for part in as_list(content) or []]


def texts_of(item: Mapping[str, Any]) -> list[str]:
    """An item's readable texts, in order; a refusal is none."""
    return [part[key] for part in parts_in(item) for key in READ_FIELDS if isinstance(part.get(key), str)]


def map_item(item: Message, change: TextMap) -> Message:
    """The item with `change` applied to each of its texts."""
    key = field_of(item)
    content = item.get(key)
    if isinstance(content, str):
        changed = change(content)
        return item if changed == content else {**item, key: changed}
    parts = as_list(content)
    if parts is None:
        return item
    mapped = [_map_part(part, change) for part in parts]
    return item if mapped == parts else {**item, key: mapped}


def _map_part(part: Any, change: TextMap) -> Any:
    block = as_dict(part) or {}
    changed = {key: change(block[key]) for key in TEXT_FIELDS if isinstance(block.get(key), str)}
    return part if all(block[key] == value for key, value in changed.items()) else {**block, **changed}


def without_nulls(item: Mapping[str, Any]) -> dict[str, Any]:
    """A reply's item without the optional fields that hold nothing."""
    return {key: value for key, value in item.items() if value is not None}


def unparsed(item: Message) -> Message:
    """A model's item without what the SDK parsed; the same object where that is nothing."""
    parts = [as_dict(part) or {} for part in as_list(item.get("content")) or []]
    if not any(key in part for part in (item, *parts) for key in PARSED):
        return item
    kept = {key: value for key, value in item.items() if key not in PARSED}
    bare = [{key: value for key, value in part.items() if key not in PARSED} for part in parts]
    return {**kept, "content": bare} if parts else kept


def is_call(item: Mapping[str, Any]) -> bool:
    """Whether an item calls a function."""
    return item.get("type") == CALL


def is_reasoning(item: Mapping[str, Any]) -> bool:
    """Whether an item is the model's reasoning, which stays before the item that it led to."""
    return item.get("type") == "reasoning"
