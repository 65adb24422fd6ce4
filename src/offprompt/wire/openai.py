"""OpenAI chat completions: messages, tools, replies."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import Message, Usage, as_dict, as_list, canonical
from offprompt.wire._system import SYSTEM_ROLES, parted_system, with_head
from offprompt.wire.payload import (
    checked,
    comparable,
    distinct,
    error_text,
    loaded,
    number,
    parts_of,
    plain,
    repaired,
    with_parts,
)
from offprompt.wire.shapes import REASONING, Call, Kind, Outgoing, Placement, RawReply, Result, TextMap, ToolSpec, Wire

BETWEEN: Final = "\n\n"
"""What stands between the texts of two replies that a reader gets as one."""

KEPT: Final = ("role", "content", "tool_calls", "name", "refusal")
THINKING_KEYS: Final = ("reasoning_details", "thinking_blocks")
KEPT_WITH_CALLS: Final = (REASONING, *THINKING_KEYS)
"""Thinking behind which calls stand. DeepSeek and Kimi refuse calls that come back without it, in any later request;
of an answer without calls no provider wants it back.

Source   DeepSeek, *Thinking mode*; Moonshot, *Use thinking models*; OpenRouter, *Reasoning tokens*.
"""


class OpenAIChat:
    """The shape of `chat.completions`."""

    name: Wire = "openai"

    def gather(self, messages: Sequence[Message]) -> list[Message]:
        """See `Shape`; on this wire they are so already."""
        return checked([_unparsed(message) for message in messages])

    def spread(self, message: Message) -> list[Message]:
        """See `Shape`."""
        return [message]

    def parted(self, message: Message) -> Iterator[tuple[Message, Message]]:
        """See `Shape`; here a message is one."""
        del message
        return iter(())

    def split_system(self, messages: Sequence[Message], system: str) -> tuple[list[Message], list[Message]]:
        """See `Shape`."""
        return parted_system(messages, system)

    def kind(self, message: Message) -> Kind:
        """See `Shape`.

        Raises   UsageError for a role that the wire does not have.
        """
        role = message.get("role")
        if role in SYSTEM_ROLES:
            return "system"
        if role in ("tool", "function"):
            return "tool"
        if role == "assistant":
            return "assistant"
        if role == "user":
            return "user"
        raise UsageError(f"a message has role {role!r}; chat completions know system, developer, user, assistant, tool")

    def text(self, message: Message) -> str:
        """See `Shape`."""
        return "\n".join(part["text"] for part in parts_of(message) if isinstance(part.get("text"), str))

    def map_text(self, message: Message, change: TextMap) -> Message:
        """See `Shape`."""
        thought = message.get(REASONING)
        if isinstance(thought, str) and (changed := change(thought)) != thought:
            message = {**message, REASONING: changed}
        content = message.get("content")
        if isinstance(content, str):
            changed = change(content)
            return message if changed == content else {**message, "content": changed}
        parts = as_list(content)
        if parts is None:
            return message
        mapped = [_map_part(part, change) for part in parts]
        return message if mapped == parts else {**message, "content": mapped}

    def has_thinking(self, message: Message) -> bool:
        """See `Shape`; gateways to other models send it back in these fields."""
        return message.get("role") == "assistant" and any(message.get(key) for key in KEPT_WITH_CALLS)

    def calls(self, message: Message) -> list[Call]:
        """See `Shape`."""
        found: list[Call] = []
        for item in as_list(message.get("tool_calls")) or []:
            call = as_dict(item) or {}
            function = as_dict(call.get("function")) or {}
            found.append(
                Call(str(call.get("id", "")), str(function.get("name", "")), str(function.get("arguments") or "{}"))
            )
        return found

    def with_arguments(self, message: Message, arguments: Mapping[str, str]) -> Message:
        """See `Shape`."""
        if not arguments:
            return message
        calls: list[Any] = []
        for item in as_list(message.get("tool_calls")) or []:
            call = as_dict(item) or {}
            changed = arguments.get(str(call.get("id", "")))
            function = as_dict(call.get("function")) or {}
            calls.append(item if changed is None else {**call, "function": {**function, "arguments": changed}})
        return {**message, "tool_calls": calls}

    def results(self, message: Message) -> list[Result]:
        """See `Shape`."""
        if message.get("role") not in ("tool", "function"):
            return []
        plain_text = all(isinstance(part.get("text"), str) for part in parts_of(message))
        return [Result(str(message.get("tool_call_id", "")), self.text(message), plain_text)]

    def with_results(self, message: Message, texts: Mapping[str, str]) -> Message:
        """See `Shape`."""
        changed = texts.get(str(message.get("tool_call_id", "")))
        return message if changed is None else {**message, "content": changed}

    def documents(self, message: Message) -> list[tuple[int, str]]:
        """See `Shape`: every text part but the last, which is the user's."""
        texts = [
            (at, str(part.get("text", ""))) for at, part in enumerate(parts_of(message)) if part.get("type") == "text"
        ]
        return texts[:-1]

    def with_documents(self, message: Message, texts: Mapping[int, str]) -> Message:
        """See `Shape`."""
        return with_parts(message, texts)

    def result_messages(self, results: Sequence[Result], errors: frozenset[str] = frozenset()) -> list[Message]:
        """See `Shape`; this wire has no mark for errors, the text says it."""
        del errors
        return [{"role": "tool", "tool_call_id": each.call_id, "content": each.text} for each in results]

    def join_results(self, ours: Sequence[Message], message: Message) -> list[Message]:
        """See `Shape`: each result is a message."""
        return [*ours, message]

    def attach(self, text: str, message: Message, placement: Placement) -> list[Message]:
        """See `Shape`."""
        if placement == "message":
            return [{"role": "user", "content": text}, message]
        content = message.get("content")
        own = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content) or []
        return [{**message, "content": [{"type": "text", "text": text}, *own]}]

    def tool(self, spec: ToolSpec) -> Mapping[str, Any]:
        """See `Shape`."""
        function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        return {"type": "function", "function": function}

    def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Shape`. The head stands behind the client's last system text, in the same message."""
        system = with_head(outgoing.system, outgoing.head, "text")
        request: dict[str, Any] = {"messages": [*system, *outgoing.messages]}
        if outgoing.model:
            request = {"model": outgoing.model, **request}
        if outgoing.tools:
            request["tools"] = list(outgoing.tools)
        return request

    def reply(self, reply: object) -> RawReply:
        """See `Shape`: a completion, one of its choices, or an assistant message."""
        data = plain(reply, "the reply")
        if data.get("object") == "response":
            raise UsageError("the reply is a response, and the session's wire is openai; pass wire='responses'")
        if "error" in data and "choices" not in data:
            raise UsageError(f"the provider sent an error, not a reply: {error_text(data)}")
        usage = as_dict(data.get("usage")) or {}
        details = as_dict(usage.get("prompt_tokens_details")) or {}
        choices = as_list(data.get("choices"))
        if choices is not None and not choices:
            raise UsageError("the reply has no choices; the provider sent an empty or failed completion")
        choice = as_dict(choices[0]) if choices else data
        message = as_dict((choice or {}).get("message")) or (data if data.get("role") == "assistant" else None)
        if message is None:
            chunk = "delta" in (choice or {})
            way_out = "pass its stream to absorb_stream" if chunk else "give what chat.completions.create returned"
            raise UsageError(
                f"the reply holds no assistant message{' but a streamed piece' if chunk else ''}; {way_out}"
            )
        _check(message)
        message = _unparsed(message)
        kept: Message = {key: message[key] for key in KEPT if message.get(key) is not None}
        if kept.get("tool_calls"):
            kept |= {key: message[key] for key in KEPT_WITH_CALLS if message.get(key) is not None}
        kept.setdefault("content", None if kept.get("tool_calls") else "")
        message = {"role": "assistant", **{key: value for key, value in kept.items() if key != "role"}}
        return RawReply(
            repaired(_with_ids(message)),
            str((choice or {}).get("finish_reason") or ""),
            Usage(
                number(usage.get("prompt_tokens")),
                number(details.get("cached_tokens")),
                number(details.get("cache_write_tokens")),
                number(usage.get("completion_tokens")),
            ),
        )

    def told(self, messages: Sequence[Message], calls: Container[str], *, last_text: bool = False) -> Message:
        """See `Shape`; an empty line stands between two texts."""
        called = [as_dict(call) or {} for call in as_list(messages[-1].get("tool_calls")) or []]
        shown = [call for call in called if str(call.get("id")) in calls]
        told: Message = dict(messages[-1])
        if len(messages) > 1:
            saying = messages[-1:] if last_text else messages
            told["content"] = BETWEEN.join(text for each in saying if (text := self.text(each)))
        told["content"] = told.get("content") or (None if shown else "")
        told.pop("tool_calls", None)
        return {**told, "tool_calls": shown} if shown else told

    def signature(self, message: Message) -> str:
        """See `Shape`."""
        calls = [[call.call_id, call.name, loaded(call.arguments)] for call in self.calls(message)]
        return canonical(["assistant", comparable(self.text(message)), calls])


def _check(message: Message) -> None:
    """Raise for what chat completions do not send, so that it is not half understood."""
    kinds = {part.get("type") for part in parts_of(message)}
    if kinds & {"tool_use", "thinking", "redacted_thinking"}:
        raise UsageError("the reply is an Anthropic message, and the session's wire is openai; pass wire='anthropic'")
    if message.get("function_call") and not message.get("tool_calls"):
        raise UsageError("the reply holds a legacy function_call, which is not read; pass tools= instead of functions=")
    content = message.get("content")
    if content is not None and not isinstance(content, (str, list)):
        raise UsageError(f"the reply's content is a {type(content).__name__}; it is text, a list of parts, or null")
    calls = message.get("tool_calls")
    if calls is not None and as_list(calls) is None:
        raise UsageError(f"the reply's tool_calls is a {type(calls).__name__}; give the provider's reply as it came")
    for at, item in enumerate(as_list(calls) or []):
        function = as_dict((as_dict(item) or {}).get("function")) or {}
        if not isinstance(function.get("name"), str) or not function["name"]:
            raise UsageError(f"tool_calls[{at}] of the reply names no function; give the provider's reply as it came")


def _unparsed(message: Message) -> Message:
    """The message without what the SDK's `parse` adds, which no API takes back; the same if that is nothing."""
    calls = [as_dict(call) or {} for call in as_list(message.get("tool_calls")) or []]
    functions = [as_dict(call.get("function")) or {} for call in calls]
    kept = {key: value for key, value in message.items() if key != "parsed"}
    if any("parsed_arguments" in function for function in functions):
        bare = [{key: value for key, value in each.items() if key != "parsed_arguments"} for each in functions]
        return {**kept, "tool_calls": [{**call, "function": each} for call, each in zip(calls, bare, strict=True)]}
    return kept if len(kept) < len(message) else message


def _with_ids(message: Message) -> Message:
    """The message with an id of its own for each call: some servers give none, or one twice."""
    calls = [as_dict(call) or {} for call in as_list(message.get("tool_calls")) or []]
    given = [str(call.get("id") or "") for call in calls]
    ids = distinct(given)
    if ids == given:
        return message
    return {**message, "tool_calls": [{**call, "id": call_id} for call, call_id in zip(calls, ids, strict=True)]}


def _map_part(part: Any, change: TextMap) -> Any:
    block = as_dict(part) or {}
    changed = {key: change(block[key]) for key in ("text", "refusal") if isinstance(block.get(key), str)}
    return part if all(block[key] == value for key, value in changed.items()) else {**block, **changed}
