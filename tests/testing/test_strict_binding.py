"""Thinking comes back behind the prompt that it was made with, or the request is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from offprompt.testing.strict import RefusedError, Said, SaidCall, StrictUpstream

TOOLS = [{"name": "look", "input_schema": {"type": "object"}}]
BASE: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 4096,
    "tools": TOOLS,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}


def thinking(**request: Any) -> Said:
    """Calls once, then answers; thinks each time."""
    last = request["messages"][-1]["content"]
    if isinstance(last, list):
        return Said("看到了。", thinking="I have seen it.")
    return Said("", (SaidCall("look", {"q": last}),), thinking="Let me look.")


def played(upstream: StrictUpstream) -> list[dict[str, Any]]:
    """A turn of two requests, and the user's next words."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look"}]
    for _ in range(2):
        reply = upstream(**BASE, system="Be brief.", messages=messages)
        messages.append({"role": "assistant", "content": reply["content"]})
        calls = [block["id"] for block in reply["content"] if block["type"] == "tool_use"]
        if calls:
            results = [{"type": "tool_result", "tool_use_id": each, "content": "seen"} for each in calls]
            messages.append({"role": "user", "content": results})
    return [*messages, {"role": "user", "content": [{"type": "text", "text": "Thanks"}]}]


def test_a_transcript_that_only_grows_is_taken() -> None:
    upstream = StrictUpstream("anthropic", thinking, binding=True)
    messages = played(upstream)
    upstream(**BASE, system="Be brief.", messages=messages)
    marked = copy.deepcopy(messages)
    marked[2]["content"][0]["cache_control"] = {"type": "ephemeral"}
    upstream(**BASE, system=[{"type": "text", "text": "Be brief."}], messages=marked)
    assert upstream.faults == []


def edit_user(messages: list[dict[str, Any]]) -> None:
    messages[0]["content"] = "Look again"


def edit_result(messages: list[dict[str, Any]]) -> None:
    messages[2]["content"][0]["content"] = "stub"


def drop_turn(messages: list[dict[str, Any]]) -> None:
    messages[:3] = [{"role": "user", "content": "Look"}]


def edit_thought(messages: list[dict[str, Any]]) -> None:
    messages[1]["content"][0]["thinking"] = "Let me not look."


def edit_signature(messages: list[dict[str, Any]]) -> None:
    messages[1]["content"][0]["signature"] = "0" * 64


@pytest.mark.parametrize("change", [edit_user, edit_result, drop_turn, edit_thought, edit_signature])
def test_a_change_before_retained_thinking_is_refused(change: Callable[[list[dict[str, Any]]], None]) -> None:
    upstream = StrictUpstream("anthropic", thinking, binding=True)
    messages = played(upstream)
    change(messages)
    with pytest.raises(RefusedError, match="Invalid `signature` in `thinking` block"):
        upstream(**BASE, system="Be brief.", messages=messages)
    assert StrictUpstream("anthropic", thinking)(**BASE, system="Be brief.", messages=messages)


def test_other_system_text_or_tools_are_a_change_too() -> None:
    upstream = StrictUpstream("anthropic", thinking, binding=True)
    messages = played(upstream)
    with pytest.raises(RefusedError, match="signature"):
        upstream(**BASE, system="Be verbose.", messages=messages)
    with pytest.raises(RefusedError, match="signature"):
        upstream(**{**BASE, "tools": [*TOOLS, {**TOOLS[0], "name": "send"}]}, system="Be brief.", messages=messages)


def test_a_change_behind_the_last_thought_or_without_any_is_free() -> None:
    upstream = StrictUpstream("anthropic", thinking, binding=True)
    messages = played(upstream)
    messages[-1]["content"][0]["text"] = "No thanks"
    upstream(**BASE, system="Be brief.", messages=messages)
    for message in messages:
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    messages[0]["content"] = "Something else"
    upstream(**BASE, system="Be brief.", messages=messages)
    assert upstream.faults == []


def test_in_a_tool_loop_the_thinking_must_be_there() -> None:
    upstream = StrictUpstream("anthropic", thinking, binding=True)
    messages = played(upstream)[:3]
    messages[1]["content"] = messages[1]["content"][1:]
    with pytest.raises(RefusedError, match="Expected `thinking` or `redacted_thinking`, but found `tool_use`"):
        upstream(**BASE, system="Be brief.", messages=messages)


def test_reasoning_of_responses_is_bound_to_its_input() -> None:
    def model(**_: Any) -> Said:
        return Said("Seen.", thinking="hm")

    upstream = StrictUpstream("responses", model, binding=True)
    first = [{"role": "user", "content": "Look"}]
    reply = upstream(model="gpt-5", input=first)
    onward = [*first, *reply["output"], {"role": "user", "content": "Thanks"}]
    upstream(model="gpt-5", input=onward)
    upstream(model="gpt-5", input="Thanks", previous_response_id=reply["id"])
    with pytest.raises(RefusedError, match="could not be verified"):
        upstream(model="gpt-5", input=[{"role": "user", "content": "Other"}, *onward[1:]])
