"""A model's answer to memory work, read from what its wire sends: pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from offprompt.records import Completion, Finish, Usage, as_dict, as_list, compact

ANSWER: Final = "answer"
"""The name of the schema, and of the tool that stands for it."""

_THINK: Final = re.compile(r"\A\s*<(think|thinking)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_END_OF_THINK: Final = re.compile(r"\A(.*)</think(?:ing)?>", re.DOTALL)
_FENCE: Final = re.compile(r"\A```(?:json)?[ \t]*\n(.*)\n```\Z", re.DOTALL)
_FINISHES: Final[Mapping[str, Finish]] = {
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "calls",
    "tool_use": "calls",
    "content_filter": "refused",
    "refusal": "refused",
    "sensitive": "refused",
}


def in_words(schema: Mapping[str, Any]) -> str:
    """The schema as an instruction, for endpoints that know no other way."""
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema: {compact(dict(schema))}"


def of_chat(reply: Mapping[str, Any], *, schema: bool) -> Completion | None:
    """The answer in a chat completion; None if it is none."""
    choice = as_dict(next(iter(as_list(reply.get("choices")) or ()), None)) or {}
    message = as_dict(choice.get("message"))
    if message is None:
        return None
    text, thought = _without_thinking(_text(message.get("content")))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    thinking = "\n".join(each for each in (reasoning, thought) if isinstance(each, str) and each)
    finish: Finish = "refused" if message.get("refusal") else _finish(choice.get("finish_reason"))
    usage = as_dict(reply.get("usage")) or {}
    details = as_dict(usage.get("prompt_tokens_details")) or {}
    cached = (details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    counted = Usage(
        _number(usage.get("prompt_tokens")),
        next((found for each in cached if (found := _number(each)) is not None), None),
        _number(details.get("cache_write_tokens")),
        _number(usage.get("completion_tokens")),
    )
    return Completion(text, _data(text, finish) if schema else None, finish, counted, thinking)


def of_message(reply: Mapping[str, Any], *, schema: bool) -> Completion | None:
    """The answer in an Anthropic message: its text, or what it gives to the tool that stands for the schema."""
    if as_list(reply.get("content")) is None:
        return None
    blocks = [as_dict(block) or {} for block in as_list(reply.get("content")) or ()]
    texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
    thoughts = [str(block.get("thinking", "")) for block in blocks if block.get("type") == "thinking"]
    text, thought = _without_thinking("".join(texts))
    given = [block.get("input") for block in blocks if block.get("type") == "tool_use" and block.get("name") == ANSWER]
    finish = _finish(reply.get("stop_reason"))
    data = _data(text, finish) if schema else None
    if schema and given:
        text, data = compact(given[0]), given[0] if finish != "length" else None
        finish = "stop" if finish == "calls" else finish
    usage = as_dict(reply.get("usage")) or {}
    cached, written = _number(usage.get("cache_read_input_tokens")), _number(usage.get("cache_creation_input_tokens"))
    new = _number(usage.get("input_tokens"))
    counted = None if new is None else new + (cached or 0) + (written or 0)
    tokens = Usage(counted, cached, written, _number(usage.get("output_tokens")))
    return Completion(text, data, finish, tokens, "\n".join(each for each in (*thoughts, thought) if each))


def _without_thinking(text: str) -> tuple[str, str]:
    """The text behind `<think>…</think>`, and the thinking; a template may have put the opening tag in the prompt."""
    found = _THINK.match(text) or _END_OF_THINK.match(text)
    if found is None:
        return text.strip(), ""
    return text[found.end() :].strip(), found[found.lastindex or 0].strip()


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = [as_dict(part) or {} for part in as_list(content) or ()]
    return "".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))


def _data(text: str, finish: Finish) -> Any:
    """The JSON value that a whole text is; None if it is none."""
    if finish in ("length", "refused"):
        return None
    fenced = _FENCE.match(text)
    try:
        return json.loads(fenced[1] if fenced else text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finish(said: object) -> Finish:
    return _FINISHES.get(str(said), "stop")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
