"""What the strict upstream clears of long requests, and what it refuses of `context_management`."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.testing.strict import StrictUpstream
from offprompt.testing.strict_clearing import PLACEHOLDER, clear, clearing_faults
from offprompt.wire.clearing import BETA, clearing

TYPE = "clear_tool_uses_20250919"
LONG = "seen " * 100


def asked(number: int, **edit: Any) -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": "Look"}]
    for at in range(number):
        use = {"type": "tool_use", "id": f"t{at}", "name": "look" if at % 2 == 0 else "send", "input": {"q": at}}
        messages.append({"role": "assistant", "content": [use]})
        messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{at}", "content": LONG}]}
        )
    return {"messages": messages, "context_management": {"edits": [{"type": TYPE, **edit}]}}


def says(**request: Any) -> str:
    return f"{len(request['messages'])} messages"


def results(body: Any) -> list[bool]:
    """Which results are still whole."""
    return [message["content"][0]["content"] == LONG for message in body["messages"][2::2]]


def tokens(value: int) -> dict[str, Any]:
    return {"type": "input_tokens", "value": value}


def uses(value: int) -> dict[str, Any]:
    return {"type": "tool_uses", "value": value}


@pytest.mark.parametrize(
    ("edit", "whole"),
    [
        ({}, [True] * 6),
        ({"trigger": tokens(10_000)}, [True] * 6),
        ({"trigger": tokens(1_000)}, [False] * 3 + [True] * 3),
        ({"trigger": uses(5), "keep": uses(1)}, [False] * 5 + [True]),
        ({"trigger": uses(6)}, [True] * 6),
        ({"trigger": tokens(1_000), "clear_at_least": tokens(1_300)}, [False] * 3 + [True] * 3),
        ({"trigger": tokens(1_000), "clear_at_least": tokens(2_000)}, [True] * 6),
        ({"trigger": tokens(1_000), "keep": uses(0), "exclude_tools": ["send"]}, [False, True] * 3),
    ],
)
def test_old_results_are_cleared_over_the_trigger(edit: dict[str, Any], whole: list[bool]) -> None:
    done = clear(asked(6, **edit), len)
    assert results(done.body) == whole
    gone = whole.count(False)
    assert done.report is not None
    assert [each["cleared_tool_uses"] for each in done.report["applied_edits"]] == ([gone] if gone else [])
    freed = [each["cleared_input_tokens"] for each in done.report["applied_edits"]]
    assert freed == ([gone * (len(LONG) - len(PLACEHOLDER))] if gone else [])


def test_inputs_go_only_if_asked_for() -> None:
    edit = {"trigger": tokens(1_000), "clear_tool_inputs": ["send"]}
    done = clear(asked(6, **edit), len)
    assert [message["content"][0]["input"] for message in done.body["messages"][1::2]][:3] == [{"q": 0}, {}, {"q": 2}]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"edits": "all"}, "must be a list"),
        ({"edits": [], "mode": "x"}, "context_management.mode: Extra inputs are not permitted"),
        ({"edits": [{"type": "clear_all"}]}, f"must be one of {TYPE}"),
        ({"edits": [{"type": TYPE, "at": 3}]}, "edits.0.at: Extra inputs are not permitted"),
        ({"edits": [{"type": TYPE, "trigger": {"type": "messages", "value": 3}}]}, "input_tokens, tool_uses"),
        ({"edits": [{"type": TYPE, "keep": {"type": "tool_uses"}}]}, "Missing required parameter"),
        ({"edits": [{"type": TYPE, "clear_at_least": tokens(-1)}]}, "at least 0"),
        ({"edits": [{"type": TYPE, "exclude_tools": "send"}]}, "a list of texts"),
    ],
)
def test_what_the_api_would_refuse(given: Any, why: str) -> None:
    faults = clearing_faults({"context_management": given})
    assert any(why in fault.message for fault in faults), faults


def test_what_sessions_ask_for_is_sound() -> None:
    wanted = clearing(100_000)
    assert clearing_faults(wanted) == []
    assert wanted["betas"] == [BETA]


def test_the_reply_says_what_was_cleared_and_counts_what_is_left() -> None:
    def model(**request: Any) -> str:
        assert results(request)[0] is False
        return says(**request)

    upstream = StrictUpstream("anthropic", model, count=len)
    body = {"model": "m", "max_tokens": 9, "tools": [{"name": "look", "input_schema": {"type": "object"}}]}
    body |= asked(6, trigger=tokens(1_000))
    reply = upstream(**body, betas=[BETA])
    assert reply["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 3
    freed = reply["context_management"]["applied_edits"][0]["cleared_input_tokens"]
    plain = {key: value for key, value in body.items() if key != "context_management"}
    whole = StrictUpstream("anthropic", says, count=len)(**plain)
    assert "context_management" not in whole
    assert whole["usage"]["input_tokens"] - reply["usage"]["input_tokens"] == freed
    chunks = list(upstream(**body, betas=[BETA], stream=True))
    assert "context_management" not in chunks[0]["message"]
    assert chunks[-2]["context_management"] == reply["context_management"]
