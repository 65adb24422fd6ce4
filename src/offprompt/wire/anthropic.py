"""Anthropic messages: content blocks, tools, replies."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import Message, Usage, as_dict, as_list, canonical, compact
from offprompt.wire import lapsing
from offprompt.wire.clearing import cleared, clearing
from offprompt.wire.payload import (
    checked,
    comparable,
    distinct,
    error_text,
    number,
    parts_of,
    plain,
    repaired,
    with_parts,
)
from offprompt.wire.shapes import Call, Kind, Outgoing, Placement, RawReply, Result, TextMap, ToolSpec, Wire
from offprompt.wire.transcript import misplaced_system

DEFAULT_MAX_TOKENS: Final = 4096
THINKING_TYPES: Final = ("thinking", "redacted_thinking")
READ_FIELDS: Final = {"text": ("text",), "document": ("title", "context"), "search_result": ("title", "source")}
NESTING: Final = ("tool_result", "search_result")
TEXT_FIELDS: Final = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input")}


class AnthropicMessages:
    """The shape of `messages`."""

    name: Wire = "anthropic"

    def gather(self, messages: Sequence[Message]) -> list[Message]:
        """See `Shape`; on this wire they are so already."""
        return checked(messages)

    def spread(self, message: Message) -> list[Message]:
        """See `Shape`."""
        return [message]

    def parted(self, message: Message) -> Iterator[tuple[Message, Message]]:
        """See `Shape`; here a message is one."""
        del message
        return iter(())

    def split_system(self, messages: Sequence[Message], system: str) -> tuple[list[Message], list[Message]]:
        """See `Shape`; the first system text is a parameter of this wire, later ones are messages where they stand.

        Raises   UsageError for a system message where the wire has none; see `misplaced_system`.
        """
        for fault in misplaced_system(messages):
            raise UsageError(f"{fault}; pass system= to the session, or put it behind the user message it goes with")
        return ([{"role": "system", "content": system}] if system else []), list(messages)

    def kind(self, message: Message) -> Kind:
        """See `Shape`.

        Raises   UsageError for a role that the wire does not have.
        """
        role = message.get("role")
        if role == "assistant":
            return "assistant"
        if role == "system":
            return "system"
        if role != "user":
            raise UsageError(f"a message has role {role!r}; Anthropic messages know user, assistant and system")
        blocks = parts_of(message)
        return "tool" if blocks and all(block.get("type") == "tool_result" for block in blocks) else "user"

    def text(self, message: Message) -> str:
        """See `Shape`."""
        return "\n".join(text for block in parts_of(message) for text in _texts(block))

    def map_text(self, message: Message, change: TextMap) -> Message:
        """See `Shape`."""
        content = message.get("content")
        if isinstance(content, str):
            changed = change(content)
            return message if changed == content else {**message, "content": changed}
        blocks = parts_of(message)
        mapped = [_map_block(block, change) for block in blocks]
        return message if mapped == blocks else {**message, "content": mapped}

    def has_thinking(self, message: Message) -> bool:
        """See `Shape`."""
        if message.get("role") != "assistant":
            return False
        return any(block.get("type") in THINKING_TYPES for block in parts_of(message))

    def calls(self, message: Message) -> list[Call]:
        """See `Shape`."""
        return [
            Call(str(block.get("id", "")), str(block.get("name", "")), _input(block))
            for block in parts_of(message)
            if block.get("type") == "tool_use"
        ]

    def with_arguments(self, message: Message, arguments: Mapping[str, str]) -> Message:
        """See `Shape`."""
        if not arguments:
            return message
        blocks: list[dict[str, Any]] = []
        for block in parts_of(message):
            changed = arguments.get(str(block.get("id", ""))) if block.get("type") == "tool_use" else None
            blocks.append(block if changed is None else {**block, "input": json.loads(changed)})
        return {**message, "content": blocks}

    def results(self, message: Message) -> list[Result]:
        """See `Shape`."""
        return [
            Result(str(block.get("tool_use_id", "")), "\n".join(_texts(block)), _is_plain(block))
            for block in parts_of(message)
            if block.get("type") == "tool_result"
        ]

    def with_results(self, message: Message, texts: Mapping[str, str]) -> Message:
        """See `Shape`."""
        blocks: list[dict[str, Any]] = []
        for block in parts_of(message):
            changed = texts.get(str(block.get("tool_use_id", ""))) if block.get("type") == "tool_result" else None
            blocks.append(block if changed is None else {**block, "content": changed})
        return {**message, "content": blocks} if texts else message

    def documents(self, message: Message) -> list[tuple[int, str]]:
        """See `Shape`: document blocks of plain text, and every text block but the last, which is the user's."""
        blocks = parts_of(message)
        texts = [at for at, block in enumerate(blocks) if block.get("type") == "text"][:-1]
        documents = [at for at, block in enumerate(blocks) if block.get("type") == "document" and _texts(block)]
        return [(at, "\n".join(_texts(blocks[at]))) for at in sorted(texts + documents)]

    def with_documents(self, message: Message, texts: Mapping[int, str]) -> Message:
        """See `Shape`."""
        return with_parts(message, texts)

    def result_messages(self, results: Sequence[Result], errors: frozenset[str] = frozenset()) -> list[Message]:
        """See `Shape`: one user message with a block for each."""
        blocks: list[dict[str, Any]] = []
        for each in results:
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": each.call_id, "content": each.text}
            blocks.append({**block, "is_error": True} if each.call_id in errors else block)
        return [{"role": "user", "content": blocks}] if blocks else []

    def join_results(self, ours: Sequence[Message], message: Message) -> list[Message]:
        """See `Shape`: results of one assistant message stand in one user message, before its text."""
        front = [block for each in ours for block in parts_of(each)]
        return [{**message, "content": [*front, *parts_of(message)]}] if front else [message]

    def attach(self, text: str, message: Message, placement: Placement) -> list[Message]:
        """See `Shape`: always a content part, behind tool results, which must stand first."""
        del placement
        blocks = parts_of(message)
        first = next((at for at, block in enumerate(blocks) if block.get("type") != "tool_result"), len(blocks))
        return [{**message, "content": [*blocks[:first], {"type": "text", "text": text}, *blocks[first:]]}]

    def tool(self, spec: ToolSpec) -> Mapping[str, Any]:
        """See `Shape`."""
        return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}

    def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Shape`. The head is a system block of its own; `max_tokens` is 4096 unless the caller overrides it."""
        request: dict[str, Any] = {"max_tokens": DEFAULT_MAX_TOKENS, "messages": list(outgoing.messages)}
        if outgoing.model:
            request = {"model": outgoing.model, **request}
        texts = [str(each["content"]) for each in outgoing.system]
        if outgoing.head:
            texts.append(outgoing.head)
        if texts:
            request["system"] = [{"type": "text", "text": text} for text in texts]
        if outgoing.tools:
            request["tools"] = list(outgoing.tools)
        if outgoing.context_editing_tokens is not None:
            request |= clearing(outgoing.context_editing_tokens)
        if outgoing.lapsing or any(message.get("clear_at") for message in outgoing.messages):
            request["betas"] = [*request.get("betas", ()), lapsing.BETA]
        return request

    def reply(self, reply: object) -> RawReply:
        """See `Shape`: a Message, its dict, or an assistant message."""
        data = plain(reply, "the reply")
        content = data.get("content")
        if "choices" in data or data.get("tool_calls"):
            raise UsageError(
                "the reply is an OpenAI completion, and the session's wire is anthropic; pass wire='openai'"
            )
        if data.get("type") == "error":
            raise UsageError(f"the provider sent an error, not a reply: {error_text(data)}")
        if data.get("role") != "assistant" or content is None:
            chunk = str(data.get("type", "")).startswith(("message_", "content_block_"))
            way_out = "pass its stream to absorb_stream" if chunk else "give what messages.create returned"
            raise UsageError(
                f"the reply holds no assistant message{' but a streamed piece' if chunk else ''}; {way_out}"
            )
        if not isinstance(content, (str, list)):
            raise UsageError(f"the reply's content is a {type(content).__name__}; it is text or a list of blocks")
        blocks = _with_ids([_kept(block) for block in parts_of(data)])
        usage = as_dict(data.get("usage")) or {}
        cached, written = number(usage.get("cache_read_input_tokens")), number(usage.get("cache_creation_input_tokens"))
        new = number(usage.get("input_tokens"))
        counted = None if new is None else new + (cached or 0) + (written or 0)
        message: Message = {"role": "assistant", "content": content if isinstance(content, str) else blocks}
        finish = str(data.get("stop_reason") or "")
        count = Usage(counted, cached, written, number(usage.get("output_tokens")), *cleared(data))
        return RawReply(repaired(message), finish, count)

    def told(self, messages: Sequence[Message], calls: Container[str], *, last_text: bool = False) -> Message:
        """See `Shape`; the blocks of one stand behind those of the other."""
        *earlier, last = messages
        hidden = ("tool_use", "text") if last_text else ("tool_use",)
        blocks = [block for each in earlier for block in parts_of(each) if block.get("type") not in hidden]
        own = [block for block in parts_of(last) if block.get("type") != "tool_use" or str(block.get("id")) in calls]
        return {**last, "content": [*blocks, *own]}

    def signature(self, message: Message) -> str:
        """See `Shape`."""
        calls = [[call.call_id, call.name, json.loads(call.arguments)] for call in self.calls(message)]
        return canonical(["assistant", comparable(self.text(message)), calls])


def _input(block: Mapping[str, Any]) -> str:
    """A call's input as JSON text.

    Raises   UsageError if it is no JSON.
    """
    try:
        return compact(block.get("input") or {})
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(
            f"the input of the call {block.get('id')!r} is not JSON: {exc}; give the block as the provider sent it"
        ) from exc


def _kept(block: dict[str, Any]) -> dict[str, Any]:
    fields = TEXT_FIELDS.get(str(block.get("type")))
    return block if fields is None else {key: block[key] for key in fields if key in block}


def _with_ids(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks with an id of its own for each call."""
    used = [at for at, block in enumerate(blocks) if block.get("type") == "tool_use"]
    for at, call_id in zip(used, distinct([str(blocks[at].get("id") or "") for at in used]), strict=True):
        blocks[at] = {**blocks[at], "id": call_id}
    return blocks


def _is_plain(block: Mapping[str, Any]) -> bool:
    return all(part.get("type") == "text" for part in parts_of(block))


def _texts(block: dict[str, Any]) -> list[str]:
    """All text of a block, in order."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _map_block(block, note)
    return found


def _map_block(block: dict[str, Any], change: TextMap) -> dict[str, Any]:
    """The block with `change` applied wherever a reader would read text; pictures, ids and types stay."""
    kind = str(block.get("type"))
    fields: dict[str, Any] = {
        key: change(block[key]) for key in READ_FIELDS.get(kind, ()) if isinstance(block.get(key), str)
    }
    if kind in NESTING:
        fields["content"] = _map_content(block.get("content"), change)
    source = as_dict(block.get("source"))
    if kind == "document" and source is not None:
        if source.get("type") == "text" and isinstance(source.get("data"), str):
            fields["source"] = {**source, "data": change(source["data"])}
        elif source.get("type") == "content":
            fields["source"] = {**source, "content": _map_content(source.get("content"), change)}
    changed = {key: value for key, value in fields.items() if value is not None}
    return block if all(block.get(key) == value for key, value in changed.items()) else {**block, **changed}


def _map_content(content: object, change: TextMap) -> Any:
    if isinstance(content, str):
        return change(content)
    parts = as_list(content)
    return None if parts is None else [_map_block(as_dict(part) or {}, change) for part in parts]
