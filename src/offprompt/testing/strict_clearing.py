"""Anthropic's context editing, as the API refuses and does it: old tool results of long requests are cleared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.testing.strict_cache import prompt_units
from offprompt.testing.strict_rules import (
    Check,
    Fault,
    check_fields,
    either,
    flag,
    is_list,
    is_object,
    one_of,
    or_null,
    texts,
    whole,
)
from offprompt.wire.clearing import EDIT

PLACEHOLDER: Final = "[Old tool result content cleared]"
OTHER_EDITS: Final = ("clear_thinking_20251015", "compact_20260112")
TRIGGER: Final = 100_000
KEEP: Final = 3
_FIELDS: Final[Mapping[str, Check]] = {
    "type": one_of(EDIT),
    "trigger": is_object,
    "keep": is_object,
    "clear_at_least": or_null(is_object),
    "exclude_tools": or_null(texts),
    "clear_tool_inputs": or_null(either(flag, texts)),
}
_UNITS: Final = {
    "trigger": ("input_tokens", "tool_uses"),
    "keep": ("tool_uses",),
    "clear_at_least": ("input_tokens",),
}


@dataclass(frozen=True, slots=True)
class Cleared:
    """A request as the model reads it, and what was cleared of it. report: for the reply; None: nothing was asked."""

    body: Mapping[str, Any]
    report: dict[str, Any] | None = None


def clearing_faults(body: Mapping[str, Any]) -> list[Fault]:
    """Why the API would refuse the request's `context_management`; empty if it would not."""
    given = body.get("context_management")
    if given is None:
        return []
    at, extra = "context_management", "{field}: Extra inputs are not permitted"
    faults = check_fields(as_dict(given) or {"": given}, {"edits": is_list}, at=at, unknown=extra)
    for place, each in enumerate(as_list((as_dict(given) or {}).get("edits")) or []):
        edit, where = as_dict(each) or {}, f"{at}.edits.{place}"
        if edit.get("type") in OTHER_EDITS:
            continue
        faults += check_fields(edit, _FIELDS, needed=("type",), at=where, unknown=extra)
        for key, units in _UNITS.items():
            measure = as_dict(edit.get(key))
            if measure is not None:
                known: dict[str, Check] = {"type": one_of(*units), "value": whole(0)}
                faults += check_fields(measure, known, needed=known, at=f"{where}.{key}", unknown=extra)
    return faults


def clear(body: Mapping[str, Any], count: Callable[[str], int]) -> Cleared:
    """The request with what its `context_management` clears, in the order of its calls, oldest first.

    Each request is edited anew from the whole history that the client sends: over the trigger, all results but those
    of the newest calls become a placeholder, if that frees enough.
    Source   Anthropic's page on context editing; the placeholder's words are ours.
    """
    given = as_dict(body.get("context_management"))
    edits = [as_dict(each) or {} for each in as_list((given or {}).get("edits")) or []]
    applied: list[dict[str, Any]] = []
    for edit in edits:
        if edit.get("type") == EDIT:
            done = _edited(body, edit, count)
            if done is not None:
                body, report = done
                applied.append(report)
    return Cleared(body, None if given is None else {"applied_edits": applied})


def _edited(
    body: Mapping[str, Any], edit: Mapping[str, Any], count: Callable[[str], int]
) -> tuple[Mapping[str, Any], dict[str, Any]] | None:
    excluded = as_list(edit.get("exclude_tools")) or []
    uses = [block for block in _blocks(body, "tool_use") if block.get("name") not in excluded]
    trigger = as_dict(edit.get("trigger")) or {"type": "input_tokens", "value": TRIGGER}
    before = _tokens(body, count)
    if (before if trigger["type"] == "input_tokens" else len(uses)) <= int(trigger["value"]):
        return None
    keep = int((as_dict(edit.get("keep")) or {"value": KEEP})["value"])
    old = {str(block.get("id")): str(block.get("name")) for block in uses[: max(len(uses) - keep, 0)]}
    inputs = edit.get("clear_tool_inputs")
    emptied = {each for each, name in old.items() if inputs is True or name in (as_list(inputs) or [])}
    messages = [_emptied(as_dict(each) or {}, set(old), emptied) for each in as_list(body.get("messages")) or []]
    after = {**body, "messages": messages}
    freed = before - _tokens(after, count)
    least = int((as_dict(edit.get("clear_at_least")) or {"value": 0})["value"])
    if not old or freed <= 0 or freed < least:
        return None
    return after, {"type": EDIT, "cleared_tool_uses": len(old), "cleared_input_tokens": freed}


def _emptied(message: Mapping[str, Any], results: set[str], inputs: set[str]) -> dict[str, Any]:
    blocks = as_list(message.get("content"))
    if blocks is None:
        return dict(message)
    return {**message, "content": [_emptied_block(as_dict(block) or {}, results, inputs) for block in blocks]}


def _emptied_block(block: dict[str, Any], results: set[str], inputs: set[str]) -> dict[str, Any]:
    if block.get("type") == "tool_result" and str(block.get("tool_use_id")) in results:
        return {**block, "content": PLACEHOLDER}
    if block.get("type") == "tool_use" and str(block.get("id")) in inputs:
        return {**block, "input": {}}
    return block


def _blocks(body: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    messages = [as_dict(each) or {} for each in as_list(body.get("messages")) or []]
    blocks = [as_dict(block) or {} for message in messages for block in as_list(message.get("content")) or []]
    return [block for block in blocks if block.get("type") == kind]


def _tokens(body: Mapping[str, Any], count: Callable[[str], int]) -> int:
    return sum(count(unit.text) for unit in prompt_units(body, "anthropic") if unit.counts)
