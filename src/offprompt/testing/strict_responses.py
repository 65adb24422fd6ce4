"""OpenAI responses: what the API refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.testing.strict_rules import (
    Check,
    Fault,
    anything,
    check_fields,
    check_names,
    check_tool,
    either,
    flag,
    is_list,
    is_object,
    number,
    one_of,
    or_null,
    text,
    texts,
    whole,
)

MIN_OUTPUT_TOKENS: Final = 16
PARAMETERS: Final[Mapping[str, Check]] = {
    "model": text,
    "input": either(text, is_list),
    "access_programs": anything,
    "background": or_null(flag),
    "background_options": anything,
    "image": anything,
    "moderation": anything,
    "conversation": or_null(either(text, is_object)),
    "context_management": or_null(is_list),
    "include": or_null(texts),
    "instructions": or_null(text),
    "max_output_tokens": or_null(whole(MIN_OUTPUT_TOKENS)),
    "max_tool_calls": or_null(whole(1)),
    "metadata": or_null(is_object),
    "parallel_tool_calls": or_null(flag),
    "previous_response_id": or_null(text),
    "prompt": or_null(is_object),
    "prompt_cache_key": or_null(text),
    "prompt_cache_options": is_object,
    "prompt_cache_retention": or_null(text),
    "reasoning": or_null(is_object),
    "safety_identifier": or_null(text),
    "service_tier": or_null(text),
    "store": or_null(flag),
    "stream": or_null(flag),
    "stream_options": or_null(is_object),
    "temperature": or_null(number(0, 2)),
    "text": is_object,
    "tool_choice": either(one_of("none", "auto", "required"), is_object),
    "tools": is_list,
    "top_logprobs": or_null(whole(0, 20)),
    "top_p": or_null(number(0, 1)),
    "truncation": or_null(one_of("auto", "disabled")),
    "user": text,
}
_STATE: Final[Mapping[str, Check]] = {"type": text, "id": or_null(text), "status": or_null(text)}
ITEMS: Final[Mapping[str, tuple[Mapping[str, Check], tuple[str, ...]]]] = {
    "message": (
        {**_STATE, "role": text, "content": either(text, is_list), "phase": or_null(text)},
        ("role", "content"),
    ),
    "function_call": (
        {**_STATE, "call_id": text, "name": text, "arguments": text, "namespace": or_null(text), "caller": anything},
        ("call_id", "name", "arguments"),
    ),
    "function_call_output": (
        {
            **_STATE,
            "call_id": text,
            "output": either(text, is_list),
            "name": or_null(text),
            "namespace": or_null(text),
            "caller": anything,
        },
        ("call_id", "output"),
    ),
    "reasoning": (
        {**_STATE, "summary": is_list, "content": or_null(is_list), "encrypted_content": or_null(text)},
        ("id", "summary"),
    ),
    "item_reference": ({"type": text, "id": text}, ("id",)),
}
PARTS: Final = {
    "user": {"input_text", "input_image", "input_file", "input_audio"},
    "system": {"input_text"},
    "developer": {"input_text"},
    "assistant": {"output_text", "refusal"},
}


def response_faults(body: Mapping[str, Any], before: Sequence[Mapping[str, Any]] = ()) -> list[Fault]:
    """Why the API would refuse the request; empty if it would not.

    before   the items that `previous_response_id` stands for.
    Source   the API reference of responses, and the field lists of its Python client.
    """
    faults = check_fields(body, PARAMETERS, needed=("model",))
    given = body.get("input")
    if not given and not body.get("previous_response_id"):
        faults.append(Fault("Missing required parameter: 'input'.", "input"))
    faults += _tools(body)
    items = [as_dict(each) or {} for each in as_list(given) or []]
    for at, item in enumerate(items):
        faults += _item(item, f"input[{at}]")
    return faults + _pairs([*before, *items])


def kind_of(item: Mapping[str, Any]) -> str:
    """An item's type; messages may leave it out."""
    return str(item.get("type") or ("message" if "role" in item else ""))


def _tools(body: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    names: list[str] = []
    for at, item in enumerate(as_list(body.get("tools")) or []):
        tool = as_dict(item) or {}
        if tool.get("type") != "function":
            if not tool.get("type"):
                faults.append(Fault(f"Missing required parameter: 'tools[{at}].type'.", "tools"))
            continue
        known: dict[str, Check] = {
            "type": text,
            "name": text,
            "description": or_null(text),
            "parameters": or_null(is_object),
            "strict": or_null(flag),
            "allowed_callers": or_null(texts),
            "defer_loading": flag,
            "output_schema": or_null(is_object),
        }
        faults += check_fields(tool, known, needed=("name",), at=f"tools[{at}]")
        faults += check_tool(tool.get("name"), tool.get("parameters"), f"tools[{at}]")
        names.append(str(tool.get("name")))
    return faults + check_names(names)


def _item(item: Mapping[str, Any], at: str) -> list[Fault]:
    kind = kind_of(item)
    if kind not in ITEMS:
        return [Fault(f"Invalid value: {kind!r} for '{at}.type'.", at)]
    known, needed = ITEMS[kind]
    faults = check_fields(item, known, needed=needed, at=at)
    if kind != "message":
        return faults
    role = str(item.get("role"))
    if role not in PARTS:
        return [*faults, Fault(f"Invalid value: {role!r} for '{at}.role'.", at)]
    if item.get("content") == []:
        faults.append(Fault(f"Invalid '{at}.content': empty array.", at))
    for place, part in enumerate(as_list(item.get("content")) or []):
        of = (as_dict(part) or {}).get("type")
        if of not in PARTS[role]:
            faults.append(Fault(f"Invalid value: {of!r} for '{at}.content[{place}].type' of role {role}.", at))
    return faults


def _pairs(items: Sequence[Mapping[str, Any]]) -> list[Fault]:
    """Calls and outputs belong together, each once; reasoning belongs to the item that follows it."""
    faults: list[Fault] = []
    called: list[str] = []
    answered: list[str] = []
    for at, item in enumerate(items):
        kind, call_id = kind_of(item), str(item.get("call_id"))
        if kind == "function_call":
            if call_id in called:
                faults.append(Fault(f"Duplicate function call with call_id {call_id}.", "input"))
            called.append(call_id)
        elif kind == "function_call_output":
            if call_id not in called:
                faults.append(Fault(f"No tool call found for function call output with call_id {call_id}.", "input"))
            elif call_id in answered:
                faults.append(Fault(f"Duplicate output for function call with call_id {call_id}.", "input"))
            answered.append(call_id)
        elif kind == "reasoning":
            following: Mapping[str, Any] = items[at + 1] if at + 1 < len(items) else {}
            own = kind_of(following) in ("function_call", "reasoning") or following.get("role") == "assistant"
            if not own:
                faults.append(
                    Fault(
                        f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
                    )
                )
    faults += [
        Fault(f"No tool output found for function call {each}.", "input") for each in called if each not in answered
    ]
    return faults
