"""What a stand-in model says, in the shape in which each provider would send it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from offprompt.records import as_dict, as_list, compact
from offprompt.testing.strict_cache import Counted
from offprompt.testing.strict_chunks import StrictWire

ENDS: Final[Mapping[StrictWire, Mapping[str, str]]] = {
    "openai": {"stop": "stop", "calls": "tool_calls", "length": "length"},
    "anthropic": {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens"},
    "responses": {"stop": "completed", "calls": "completed", "length": "incomplete"},
}


@dataclass(frozen=True, slots=True)
class SaidCall:
    """A call: its tool, and its arguments, as an object or as the JSON text that the model wrote."""

    name: str
    arguments: Mapping[str, Any] | str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What a model says. finish: `length` for a reply that its token limit cut off, else it is found."""

    text: str = ""
    calls: tuple[SaidCall, ...] = ()
    thinking: str = ""
    finish: str = ""


Sign = Callable[[str], str]


def reply_from(said: Said | str | Mapping[str, Any], wire: StrictWire, number: int, *, sign: Sign) -> dict[str, Any]:
    """The reply's body without its counts; one that is given in the wire's shape already keeps all that it says.

    number   of the request, for ids. sign: makes the signature of a thought.
    """
    if isinstance(said, Mapping):
        return _completed(dict(said), wire, number, sign)
    words = Said(said) if isinstance(said, str) else said
    calls = [(call.call_id or f"call_{number}_{at}", call) for at, call in enumerate(words.calls)]
    finish = ENDS[wire][words.finish or ("calls" if calls else "stop")]
    if wire == "openai":
        message: dict[str, Any] = {"role": "assistant", "content": words.text or (None if calls else "")}
        if calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": _json(call)}}
                for call_id, call in calls
            ]
        return _completed({"choices": [{"message": message, "finish_reason": finish}]}, wire, number, sign)
    if wire == "anthropic":
        blocks: list[dict[str, Any]] = []
        if words.thinking:
            blocks.append({"type": "thinking", "thinking": words.thinking})
        if words.text:
            blocks.append({"type": "text", "text": words.text})
        blocks += [{"type": "tool_use", "id": i, "name": call.name, "input": _object(call)} for i, call in calls]
        return _completed({"role": "assistant", "content": blocks, "stop_reason": finish}, wire, number, sign)
    return _completed({"output": _items(words, calls, number), "status": finish}, wire, number, sign)


def _items(words: Said, calls: list[tuple[str, SaidCall]], number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if words.thinking:
        summary = [{"type": "summary_text", "text": words.thinking}]
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
    if words.text or not calls:
        part: dict[str, Any] = {"type": "output_text", "text": words.text, "annotations": []}
        head = {"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant"}
        items.append({**head, "content": [part]})
    for call_id, call in calls:
        head = {"type": "function_call", "id": f"fc_{call_id}", "status": "completed"}
        items.append({**head, "call_id": call_id, "name": call.name, "arguments": _json(call)})
    return items


def _json(call: SaidCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else compact(dict(call.arguments))


def _object(call: SaidCall) -> dict[str, Any]:
    # This wire has no place for arguments that are no JSON.
    return {} if isinstance(call.arguments, str) else dict(call.arguments)


def _completed(reply: dict[str, Any], wire: StrictWire, number: int, sign: Sign) -> dict[str, Any]:
    """The reply with all fields that the provider's clients need, and with its thoughts signed."""
    if wire == "openai":
        given = [{"index": at, "logprobs": None, **(as_dict(each) or {})} for at, each in enumerate(reply["choices"])]
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0}
        return {**head, **reply, "choices": given}
    if wire == "anthropic":
        blocks = [as_dict(each) or {} for each in as_list(reply.get("content")) or []]
        signed = [
            {**block, "signature": block.get("signature") or sign(str(block.get("thinking", "")))}
            if block.get("type") == "thinking"
            else block
            for block in blocks
        ]
        base = {"id": f"msg_{number}", "type": "message", "role": "assistant", "stop_reason": "end_turn"}
        return {**base, "stop_sequence": None, **reply, "content": signed}
    signed_items: list[dict[str, Any]] = []
    for each in as_list(reply.get("output")) or []:
        item = as_dict(each) or {}
        if item.get("type") == "reasoning" and not item.get("encrypted_content"):
            thought = "".join(str(part.get("text", "")) for part in item.get("summary", []))
            item = {**item, "encrypted_content": sign(thought)}
        signed_items.append(item)
    base = {"id": f"resp_{number}", "object": "response", "created_at": 0, "status": "completed", "error": None}
    cut = {"reason": "max_output_tokens"} if reply.get("status") == "incomplete" else None
    rest: dict[str, Any] = {
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "metadata": {},
        "incomplete_details": cut,
    }
    return {**base, **rest, **reply, "output": signed_items}


def usage_of(counted: Counted, output: int, wire: StrictWire) -> dict[str, Any]:
    """The counts in the provider's words."""
    if wire == "anthropic":
        return {
            "input_tokens": counted.total - counted.read - counted.written,
            "cache_creation_input_tokens": counted.written,
            "cache_read_input_tokens": counted.read,
            "output_tokens": output,
        }
    details = {"cached_tokens": counted.read, "cache_write_tokens": counted.written}
    both = {"total_tokens": counted.total + output}
    if wire == "responses":
        spent = {"output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}}
        return {"input_tokens": counted.total, "input_tokens_details": details, **spent, **both}
    return {"prompt_tokens": counted.total, "prompt_tokens_details": details, "completion_tokens": output, **both}
