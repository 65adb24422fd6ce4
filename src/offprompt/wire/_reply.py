"""A model's reply of either wire, as text and native calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from offprompt.records import as_dict, as_list


@runtime_checkable
class Dumps(Protocol):
    """An SDK's reply object (pydantic)."""

    def model_dump(self, *, mode: str, warnings: bool) -> dict[str, Any]:
        """The object as JSON values."""
        ...


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A call as the wire has it; `arguments` as they came. cut: the reply ended in it."""

    name: str
    arguments: object
    where: str
    call_id: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """The text that is not reasoning, its pieces joined, and the native calls in order."""

    text: str = ""
    calls: tuple[NativeCall, ...] = ()


def plain(reply: object) -> object:
    """An SDK object as dict; all else as it is."""
    return reply.model_dump(mode="json", warnings=False) if isinstance(reply, Dumps) else reply


def reply_parts(reply: object) -> Parts:
    """The parts of text, a chat completion, a choice, an assistant message, an Anthropic message, an OpenAI response.

    Also a list of a response's output items; anything else has no parts.
    """
    if isinstance(reply, str):
        return Parts(reply)
    message = as_dict(plain(reply))
    if message is None:
        return _response(as_list(reply) or [], cut=False)
    output = as_list(message.get("output"))
    if output is not None:
        return _response(output, cut=message.get("status") == "incomplete")
    choices = as_list(message.get("choices"))
    if choices:
        message = as_dict(plain(choices[0])) or {}
    inner = as_dict(plain(message.get("message")))
    message = inner if inner is not None else message
    content = message.get("content")
    if isinstance(content, str):
        return Parts(content, _tool_calls(message))
    blocks = [as_dict(plain(block)) or {} for block in as_list(content) or ()]
    cut = message.get("stop_reason") == "max_tokens"
    used = tuple(
        NativeCall(
            str(block.get("name")), block.get("input"), f"content[{at}]", _id(block), cut and at == len(blocks) - 1
        )
        for at, block in enumerate(blocks)
        if block.get("type") == "tool_use"
    )
    return Parts("".join(_texts(blocks)), (*_tool_calls(message), *used))


def _response(items: list[Any], *, cut: bool) -> Parts:
    """The output items of an OpenAI response: its calls, and the text of its messages; reasoning is not read."""
    texts: list[str] = []
    calls: list[NativeCall] = []
    for at, raw in enumerate(items):
        item = as_dict(plain(raw)) or {}
        if item.get("type") == "function_call":
            ends_here = item.get("status") == "incomplete" or (cut and at == len(items) - 1)
            call_id = item.get("call_id")
            calls.append(
                NativeCall(
                    str(item.get("name")),
                    item.get("arguments"),
                    f"output[{at}]",
                    call_id if isinstance(call_id, str) else "",
                    ends_here,
                )
            )
        elif item.get("type") == "message" and item.get("role", "assistant") == "assistant":
            content = item.get("content")
            texts += [content] if isinstance(content, str) else _texts(as_list(content) or ())
    return Parts("".join(texts), tuple(calls))


def _texts(blocks: Iterable[Any]) -> list[str]:
    parts = [as_dict(plain(block)) or {} for block in blocks]
    texts = [part.get("text") for part in parts if part.get("type") in ("text", "output_text")]
    return [text for text in texts if isinstance(text, str)]


def _tool_calls(message: dict[str, Any]) -> tuple[NativeCall, ...]:
    calls: list[NativeCall] = []
    for at, item in enumerate(as_list(message.get("tool_calls")) or ()):
        call = as_dict(plain(item)) or {}
        function = as_dict(plain(call.get("function")))
        if function is not None:
            where = f"tool_calls[{at}]"
            calls.append(NativeCall(str(function.get("name")), function.get("arguments"), where, _id(call)))
    return tuple(calls)


def _id(call: dict[str, Any]) -> str:
    value = call.get("id")
    return value if isinstance(value, str) else ""
