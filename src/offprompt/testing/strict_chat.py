"""OpenAI chat completions: what the API refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from offprompt.records import as_dict, as_list
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
    number,
    one_of,
    or_null,
    text,
    texts,
    whole,
)
from offprompt.wire.transcript import check_transcript

PARAMETERS: Final[Mapping[str, Check]] = {
    "model": text,
    "messages": is_list,
    "audio": or_null(is_object),
    "frequency_penalty": or_null(number(-2, 2)),
    "function_call": either(text, is_object),
    "functions": is_list,
    "logit_bias": or_null(is_object),
    "logprobs": or_null(flag),
    "max_completion_tokens": or_null(whole(1)),
    "max_tokens": or_null(whole(1)),
    "metadata": or_null(is_object),
    "modalities": or_null(texts),
    "moderation": or_null(is_object),
    "n": or_null(whole(1, 128)),
    "parallel_tool_calls": flag,
    "prediction": or_null(is_object),
    "presence_penalty": or_null(number(-2, 2)),
    "prompt_cache_key": or_null(text),
    "prompt_cache_options": is_object,
    "prompt_cache_retention": or_null(text),
    "reasoning_effort": or_null(text),
    "response_format": is_object,
    "safety_identifier": or_null(text),
    "seed": or_null(whole(-(2**63))),
    "service_tier": or_null(text),
    "stop": or_null(either(text, texts)),
    "store": or_null(flag),
    "stream": or_null(flag),
    "stream_options": or_null(is_object),
    "temperature": or_null(number(0, 2)),
    "tool_choice": either(one_of("none", "auto", "required"), is_object),
    "tools": is_list,
    "top_logprobs": or_null(whole(0, 20)),
    "top_p": or_null(number(0, 1)),
    "user": text,
    "verbosity": or_null(one_of("low", "medium", "high")),
    "web_search_options": is_object,
}

_CONTENT: Final = either(text, is_list)
_WITH_NAME: Final[Mapping[str, Check]] = {"role": text, "content": _CONTENT, "name": text}
MESSAGES: Final[Mapping[str, Mapping[str, Check]]] = {
    "system": _WITH_NAME,
    "developer": _WITH_NAME,
    "user": _WITH_NAME,
    "assistant": {
        **_WITH_NAME,
        "content": or_null(_CONTENT),
        "refusal": or_null(text),
        "tool_calls": is_list,
        "function_call": or_null(is_object),
        "audio": or_null(is_object),
    },
    "tool": {"role": text, "content": _CONTENT, "tool_call_id": text},
}
PARTS: Final[Mapping[str, frozenset[str]]] = {
    "system": frozenset({"text"}),
    "developer": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
}
_NAME: Final = re.compile(r"[^\s<|\\/>]+")


def chat_faults(body: Mapping[str, Any]) -> list[Fault]:
    """Why the API would refuse the request; empty if it would not.

    Source   the API reference of chat completions, and the field lists of its Python client.
    """
    faults = check_fields(body, PARAMETERS, needed=("model", "messages"))
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        faults.append(Fault("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."))
    if body.get("stream_options") is not None and not body.get("stream"):
        faults.append(
            Fault("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
        )
    faults += _tools(body)
    messages = [as_dict(each) for each in as_list(body.get("messages")) or []]
    for at, message in enumerate(messages):
        faults += [Fault("A message must be an object.")] if message is None else _message(message, f"messages[{at}]")
    sound = [message for message in messages if message is not None]
    faults += [Fault(why, "messages") for why in check_transcript(sound, wire="openai")]
    return faults


def _tools(body: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    tools = as_list(body.get("tools"))
    names: list[str] = []
    for at, item in enumerate(tools or []):
        tool = as_dict(item) or {}
        where = f"tools[{at}]"
        if tool.get("type") == "custom":
            continue
        faults += check_fields(tool, {"type": one_of("function"), "function": is_object}, needed=("type",), at=where)
        function = as_dict(tool.get("function")) or {}
        known: dict[str, Check] = {
            "name": text,
            "description": text,
            "parameters": is_object,
            "strict": or_null(flag),
        }
        faults += check_fields(function, known, needed=("name",), at=f"{where}.function")
        faults += check_tool(function.get("name"), function.get("parameters"), f"{where}.function")
        names.append(str(function.get("name")))
    if tools is not None and not tools:
        faults.append(Fault("[] is too short - 'tools'", "tools"))
    for key in ("tool_choice", "parallel_tool_calls"):
        if key in body and not tools:
            faults.append(Fault(f"'{key}' is only allowed when 'tools' are specified.", key))
    chosen = as_dict((as_dict(body.get("tool_choice")) or {}).get("function")) or {}
    if chosen and chosen.get("name") not in names:
        faults.append(Fault(f"Tool choice {chosen.get('name')!r} not found in 'tools' parameter.", "tool_choice"))
    return faults + check_names(names)


def _message(message: Mapping[str, Any], at: str) -> list[Fault]:
    known = MESSAGES.get(str(message.get("role")))
    if known is None:
        return []
    needed = ("tool_call_id", "content") if message.get("role") == "tool" else ()
    faults = check_fields(message, known, needed=needed, at=at)
    name = message.get("name")
    if isinstance(name, str) and not _NAME.fullmatch(name):
        faults.append(Fault(f"Invalid '{at}.name': it does not match {_NAME.pattern}.", f"{at}.name"))
    for place, item in enumerate(as_list(message.get("content")) or []):
        kind = (as_dict(item) or {}).get("type")
        if kind not in PARTS[str(message["role"])]:
            faults.append(Fault(f"Invalid value: {kind!r} for '{at}.content[{place}].type'.", f"{at}.content"))
        elif kind == "text" and not isinstance((as_dict(item) or {}).get("text"), str):
            faults.append(Fault(f"Missing required parameter: '{at}.content[{place}].text'.", f"{at}.content"))
    if message.get("content") == []:
        faults.append(Fault(f"Invalid '{at}.content': empty array.", f"{at}.content"))
    for place, item in enumerate(as_list(message.get("tool_calls")) or []):
        call = as_dict(item) or {}
        where = f"{at}.tool_calls[{place}]"
        if call.get("type") == "custom":
            continue
        fields: dict[str, Check] = {"id": text, "type": one_of("function"), "function": is_object}
        faults += check_fields(call, fields, needed=("type", "function"), at=where)
        function = as_dict(call.get("function")) or {}
        faults += check_fields(function, {"name": text, "arguments": text}, at=f"{where}.function")
    return faults
