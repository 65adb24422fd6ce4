"""LangChain's messages as messages of the session's wire, and back; what a provider wants back as it came, comes back.

The wire is `openai` whatever the provider: LangChain's messages are neutral, and its own client puts them into the
provider's form.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from offprompt.errors import UsageError
from offprompt.records import Message, as_dict, as_list, compact
from offprompt.wire.shapes import REASONING

CALLS: Final = (
    "tool_use",
    "tool_call",
    "tool_call_chunk",
    "invalid_tool_call",
    "function_call",
    "input_json_delta",
)
"""Blocks that say a call once more: it stands in the message's `tool_calls`."""

LAYOUT: Final = "thinking_blocks"
"""Where the wire carries what a message of a model holds beside text and calls: thinking, searches, signatures."""

DERIVED: Final = ("tool_calls", "function_call", "refusal", "parsed", REASONING)
KEPT_METADATA: Final = ("model_provider", "output_version")
"""By these LangChain's clients read the content of a message."""


def to_wire(message: BaseMessage) -> Message:
    """A message of LangChain's as the session's.

    Raises   UsageError for a kind of message that no model is sent.
    """
    if isinstance(message, AIMessage):
        return _assistant(message)
    if isinstance(message, ToolMessage):
        told: Message = {"role": "tool", "tool_call_id": message.tool_call_id, "content": _content(message)}
        if message.status == "error":
            told["status"] = "error"
        return _named(told, message)
    if isinstance(message, (HumanMessage, SystemMessage)):
        role = "user" if isinstance(message, HumanMessage) else "system"
        return _named({"role": role, "content": _content(message)}, message)
    raise UsageError(
        f"a message of type {message.type!r} has no place in a session; pass human, ai, tool and system messages"
    )


def from_wire(message: Message) -> BaseMessage:
    """A message of the session's as LangChain's."""
    role, content = message["role"], message.get("content") or ""
    name = message.get("name")
    if role == "assistant":
        return ai_message(message)
    if role == "tool":
        status = message.get("status", "success")
        return ToolMessage(content, tool_call_id=str(message["tool_call_id"]), name=name, status=status)
    kind = HumanMessage if role == "user" else SystemMessage
    return kind(content, name=name)


def ai_message(message: Message) -> AIMessage:
    """An assistant's message of the session's as LangChain's, with all that its provider gave."""
    text = text_of(message)
    empty: dict[str, Any] = {}
    layout = next((as_dict(each) or empty for each in as_list(message.get(LAYOUT)) or []), empty)
    more: dict[str, Any] = dict(as_dict(layout.get("kwargs")) or {})
    if message.get(REASONING):
        more[REASONING] = message[REASONING]
    blocks = as_list(layout.get("blocks")) or []
    content: Any = with_text(blocks, text) if blocks else text
    return AIMessage(
        content,
        additional_kwargs=more,
        response_metadata=dict(as_dict(layout.get("metadata")) or {}),
        name=message.get("name"),
        **calls_of(message),
    )


def text_of(message: Message) -> str:
    """The text of an assistant's message of the session's."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(str((as_dict(part) or {}).get("text") or "") for part in as_list(content) or [])


def calls_of(message: Message) -> dict[str, list[Any]]:
    """The calls of an assistant's message of the session's, those that are no JSON object apart."""
    good, bad = list[Any](), list[Any]()
    for item in as_list(message.get("tool_calls")) or []:
        call = as_dict(item) or {}
        function = as_dict(call.get("function")) or {}
        name, given, call_id = function.get("name"), str(function.get("arguments") or "{}"), call.get("id")
        arguments = arguments_of(given)
        if arguments is None:
            why = "the arguments are no JSON object"
            bad.append({"type": "invalid_tool_call", "name": name, "args": given, "id": call_id, "error": why})
        else:
            good.append({"type": "tool_call", "name": name, "args": arguments, "id": call_id})
    return {"tool_calls": good, "invalid_tool_calls": bad}


def arguments_of(text: str) -> dict[str, Any] | None:
    """A call's arguments, None for what is no JSON object."""
    try:
        return as_dict(json.loads(text))
    except ValueError:
        return None


def blocks_of(message: BaseMessage) -> list[dict[str, Any]]:
    """The content of a message as blocks; none for a plain text."""
    content = cast("object", message.content)
    if isinstance(content, str):
        return []
    given = as_list(content) or []
    return [{"type": "text", "text": each} if isinstance(each, str) else as_dict(each) or {} for each in given]


def with_text(blocks: Sequence[Any], text: str) -> list[dict[str, Any]]:
    """Blocks of a reply, those of its calls left out, with a text in place of theirs."""
    kept = [block for each in blocks if (block := as_dict(each) or {}).get("type") not in CALLS]
    out: list[dict[str, Any]] = []
    for block in kept:
        if block.get("type") != "text":
            out.append(block)
        elif text:
            out.append({**block, "text": text})
            text = ""
    return [*out, {"type": "text", "text": text}] if text else out


def _content(message: BaseMessage) -> Any:
    return blocks_of(message) or message.content


def _named(wire: Message, message: BaseMessage) -> Message:
    return {**wire, "name": message.name} if message.name else wire


def _assistant(message: AIMessage) -> Message:
    calls = [
        {"id": str(call_id or ""), "type": "function", "function": {"name": name or "unknown", "arguments": arguments}}
        for call_id, name, arguments in _calls(message)
    ]
    text = str(message.text)
    wire: Message = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        wire["tool_calls"] = calls
    if thought := message.additional_kwargs.get(REASONING):
        wire[REASONING] = thought
    if layout := _layout(message):
        wire[LAYOUT] = [layout]
    return _named(wire, message)


def _calls(message: AIMessage) -> list[tuple[str | None, str | None, str]]:
    """Id, name and arguments of each call; of a streamed message the arguments as they came."""
    if isinstance(message, AIMessageChunk):
        return [(each["id"], each["name"], each["args"] or "{}") for each in message.tool_call_chunks]
    good = [(each["id"], each["name"], compact(each["args"])) for each in message.tool_calls]
    return good + [(each["id"], each["name"], each["args"] or "{}") for each in message.invalid_tool_calls]


def _layout(message: AIMessage) -> dict[str, Any]:
    """What a reply holds beside its text and its calls, empty if that is nothing."""
    blocks = with_text(blocks_of(message), "\n")
    kwargs = {key: value for key, value in message.additional_kwargs.items() if value and key not in DERIVED}
    if all(block.get("type") == "text" for block in blocks) and not kwargs:
        return {}
    bare = [{**block, "text": ""} if block.get("type") == "text" else block for block in blocks]
    given = message.response_metadata
    metadata = {key: given[key] for key in KEPT_METADATA if key in given}
    return {"type": "langchain", "blocks": bare, "kwargs": kwargs, "metadata": metadata}
