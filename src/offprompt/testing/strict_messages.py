"""Anthropic messages: what the API refuses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.testing.strict_clearing import clearing_faults
from offprompt.testing.strict_lapsing import lapsing_faults
from offprompt.testing.strict_rules import (
    Check,
    Fault,
    check_fields,
    check_names,
    check_tool,
    either,
    flag,
    is_list,
    is_object,
    one_of,
    or_null,
    text,
    texts,
    whole,
)
from offprompt.wire.clearing import BETA
from offprompt.wire.transcript import check_transcript

MAX_MARKS: Final = 4
MIN_THINKING: Final = 1024
EXTRA: Final = "{field}: Extra inputs are not permitted"
PARAMETERS: Final[dict[str, Check]] = {
    "model": text,
    "messages": is_list,
    "max_tokens": whole(1),
    "cache_control": or_null(is_object),
    "container": or_null(either(text, is_object)),
    "diagnostics": or_null(is_object),
    "inference_geo": or_null(text),
    "metadata": is_object,
    "output_config": is_object,
    "service_tier": one_of("auto", "standard_only"),
    "speed": or_null(one_of("standard", "fast")),
    "stop_sequences": texts,
    "stream": flag,
    "system": either(text, is_list),
    "thinking": is_object,
    "tool_choice": is_object,
    "tools": is_list,
    "user_profile_id": text,
    "workspace_id": text,
}
BETA_PARAMETERS: Final[Mapping[str, tuple[str, Check]]] = {"context_management": (BETA, or_null(is_object))}
"""Parameters of a beta: its name, which the request must give, and the check."""

_NULL_TEXT: Final = or_null(text)
_MARK: Final[Mapping[str, Check]] = {"cache_control": or_null(is_object)}
_SOURCED: Final[Mapping[str, Check]] = {"type": text, "source": is_object, **_MARK}
BLOCKS: Final[Mapping[str, tuple[Mapping[str, Check], tuple[str, ...]]]] = {
    "text": ({"type": text, "text": text, "citations": or_null(is_list), **_MARK}, ("text",)),
    "image": ({**_SOURCED, "transformations": or_null(is_object)}, ("source",)),
    "document": (
        {**_SOURCED, "title": or_null(text), "context": or_null(text), "citations": or_null(is_object)},
        ("source",),
    ),
    "search_result": (
        {"type": text, "source": text, "title": text, "content": is_list, "citations": is_object, **_MARK},
        ("source", "title", "content"),
    ),
    "thinking": ({"type": text, "thinking": text, "signature": text}, ("thinking", "signature")),
    "redacted_thinking": ({"type": text, "data": text}, ("data",)),
    "tool_use": (
        {
            "type": text,
            "id": text,
            "name": text,
            "input": is_object,
            "caller": is_object,
            "toolset_name": _NULL_TEXT,
            **_MARK,
        },
        ("id", "name", "input"),
    ),
    "tool_result": (
        {
            "type": text,
            "tool_use_id": text,
            "content": either(text, is_list),
            "is_error": flag,
            "toolset_name": _NULL_TEXT,
            **_MARK,
        },
        ("tool_use_id",),
    ),
}
"""Fields of the blocks that clients send, and those that must be there; server tools' blocks are not checked."""

MESSAGE: Final[Mapping[str, Check]] = {"role": text, "content": either(text, is_list)}
SYSTEM_MESSAGE: Final[Mapping[str, Check]] = {
    **MESSAGE,
    "clear_at": or_null(one_of("next_user_message", "never")),
    "output_config": or_null(is_object),
}
OF_ROLE: Final = {
    "user": {"text", "image", "document", "search_result", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
    "system": {"text"},
}
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
_TOOL: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}", re.ASCII)


def message_faults(body: Mapping[str, Any], betas: Collection[str] = ()) -> list[Fault]:
    """Why the API would refuse the request; empty if it would not.

    betas    that the request's header names.
    Source   the API reference of messages, its pages on tool use, prompt caching and extended thinking, and the field
             lists of its Python client.
    """
    known = PARAMETERS | {name: check for name, (beta, check) in BETA_PARAMETERS.items() if beta in betas}
    faults = check_fields(body, known, needed=("model", "messages", "max_tokens"), unknown=EXTRA)
    faults += clearing_faults(body)
    faults += _system(body) + _tools(body) + _thinking(body)
    messages = [as_dict(each) or {} for each in as_list(body.get("messages")) or []]
    ids: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        fields = SYSTEM_MESSAGE if message.get("role") == "system" else MESSAGE
        faults += check_fields(message, fields, needed=("role", "content"), at=where, unknown=EXTRA)
        faults += lapsing_faults(message, where, betas)
        for place, item in enumerate(as_list(message.get("content")) or []):
            block = as_dict(item) or {}
            faults += _block(block, str(message.get("role")), f"{where}.content.{place}")
            if block.get("type") == "tool_use":
                ids.append(str(block.get("id")))
    faults += [Fault("messages: `tool_use` ids must be unique") for each in set(ids) if ids.count(each) > 1]
    faults += [Fault(why, "messages") for why in check_transcript(messages, wire="anthropic")]
    faults += _last(messages)
    if not as_list(body.get("tools")) and _has_tool_blocks(messages):
        faults.append(Fault("Requests which have `tool_use` or `tool_result` blocks in `messages` must define tools."))
    marks = sum(1 for _ in marked(body))
    if marks > MAX_MARKS:
        faults.append(Fault(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {marks}."))
    return faults


def marked(value: object) -> Iterator[Mapping[str, Any]]:
    """The blocks, tools and system texts with a cache mark, wherever they stand."""
    members = as_dict(value)
    if members is not None:
        if members.get("cache_control") is not None:
            yield members
        # A schema or a call's input may have a member of that name, which is no mark.
        for key, item in members.items():
            if key in ("tools", "system", "messages", "content"):
                yield from marked(item)
    for item in as_list(value) or []:
        yield from marked(item)


def _has_tool_blocks(messages: list[dict[str, Any]]) -> bool:
    blocks = [as_dict(item) or {} for message in messages for item in as_list(message.get("content")) or []]
    return any(block.get("type") in ("tool_use", "tool_result") for block in blocks)


def _block(block: Mapping[str, Any], role: str, at: str) -> list[Fault]:
    kind = str(block.get("type"))
    faults = _mark(block, at)
    if kind not in BLOCKS:
        return faults
    known, needed = BLOCKS[kind]
    faults += check_fields(block, known, needed=needed, at=at, unknown=EXTRA)
    if role in OF_ROLE and kind not in OF_ROLE[role]:
        faults.append(Fault(f"{at}: `{kind}` blocks are not allowed in `{role}` messages", at))
    if kind == "tool_use" and not _ID.fullmatch(str(block.get("id"))):
        faults.append(Fault(f"{at}.id: String should match pattern '^{_ID.pattern}$'", at))
    if kind == "tool_use" and not _TOOL.fullmatch(str(block.get("name"))):
        faults.append(Fault(f"{at}.name: String should match pattern '^{_TOOL.pattern}$'", at))
    for place, item in enumerate(as_list(block.get("content")) or [] if kind == "tool_result" else []):
        part = as_dict(item) or {}
        if part.get("type") not in ("text", "image", "document", "search_result", "tool_reference"):
            faults.append(Fault(f"{at}.content.{place}: `{part.get('type')}` is not allowed in a tool result", at))
        elif part.get("type") == "text" and not str(part.get("text") or ""):
            faults.append(Fault(f"{at}.content.{place}: text content blocks must be non-empty", at))
    return faults


def _mark(block: Mapping[str, Any], at: str) -> list[Fault]:
    given = block.get("cache_control")
    if given is None:
        return []
    mark = as_dict(given) or {}
    faults: list[Fault] = []
    if mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in ("5m", "1h") or mark.keys() - {"type", "ttl"}:
        faults.append(Fault(f"{at}.cache_control: Input should be an ephemeral mark", at))
    if block.get("type") == "text" and not block.get("text"):
        faults.append(Fault(f"{at}: cache_control cannot be set for empty text blocks", at))
    return faults


def _last(messages: list[dict[str, Any]]) -> list[Fault]:
    """An answer that the model shall go on with must not end in white space."""
    if not messages or messages[-1].get("role") != "assistant":
        return []
    content = messages[-1].get("content")
    blocks = as_list(content) or [{"type": "text", "text": content}]
    said = (as_dict(blocks[-1]) or {}).get("text")
    ends = isinstance(said, str) and said != said.rstrip()
    return [Fault("messages: final assistant content cannot end with trailing whitespace")] if ends else []


def _system(body: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    for at, item in enumerate(as_list(body.get("system")) or []):
        block = as_dict(item) or {}
        where = f"system.{at}"
        faults += check_fields(block, BLOCKS["text"][0], needed=("type", "text"), at=where, unknown=EXTRA)
        faults += _mark(block, where)
        if not str(block.get("text") or "").strip():
            faults.append(Fault(f"{where}: text content blocks must be non-empty", where))
    return faults


def _tools(body: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    tools = as_list(body.get("tools")) or []
    names: list[str] = []
    for at, item in enumerate(tools):
        tool = as_dict(item) or {}
        where = f"tools.{at}"
        names.append(str(tool.get("name")))
        faults += _mark(tool, where)
        if tool.get("type", "custom") != "custom":
            continue
        known: dict[str, Check] = {
            "type": text,
            "name": text,
            "description": text,
            "input_schema": is_object,
            "strict": flag,
            "input_examples": is_list,
            "allowed_callers": texts,
            "defer_loading": flag,
            "eager_input_streaming": or_null(flag),
            **_MARK,
        }
        faults += check_fields(tool, known, needed=("name", "input_schema"), at=where, unknown=EXTRA)
        faults += check_tool(tool.get("name"), tool.get("input_schema"), where, pattern=_TOOL)
    choice = as_dict(body.get("tool_choice"))
    if choice is not None:
        if not tools:
            faults.append(Fault("tool_choice may only be specified while providing tools", "tool_choice"))
        if choice.get("type") not in ("auto", "any", "tool", "none"):
            faults.append(Fault("tool_choice.type: must be auto, any, tool or none", "tool_choice"))
        if choice.get("type") == "tool" and choice.get("name") not in names:
            faults.append(Fault(f"Tool '{choice.get('name')}' not found in provided tools", "tool_choice"))
    return faults + check_names(names)


def _thinking(body: Mapping[str, Any]) -> list[Fault]:
    thinking = as_dict(body.get("thinking"))
    if thinking is None or thinking.get("type") == "disabled":
        return []
    faults: list[Fault] = []
    if thinking.get("type") not in ("enabled", "adaptive", "between_tools"):
        return [Fault("thinking.type: must be enabled, disabled, adaptive or between_tools", "thinking")]
    budget, most = thinking.get("budget_tokens"), body.get("max_tokens")
    if thinking["type"] == "enabled":
        if not isinstance(budget, int) or budget < MIN_THINKING:
            faults.append(Fault(f"thinking.budget_tokens: must be at least {MIN_THINKING}", "thinking"))
        elif isinstance(most, int) and budget >= most:
            faults.append(Fault("`max_tokens` must be greater than `thinking.budget_tokens`", "max_tokens"))
    if (as_dict(body.get("tool_choice")) or {}).get("type") in ("any", "tool"):
        faults.append(Fault("Thinking may not be enabled when tool_choice forces tool use.", "tool_choice"))
    return faults
