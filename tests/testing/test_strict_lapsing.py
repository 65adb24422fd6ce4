"""Anthropic's system messages of one turn: what the strict upstream refuses of them, shows and counts."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.testing.strict import Said, StrictUpstream, request_faults
from offprompt.testing.strict_cache import PromptCache
from offprompt.testing.strict_lapsing import as_read
from offprompt.wire.lapsing import BETA, lapses, lapsing
from offprompt.wire.prices import PriceSheet

ALL = PriceSheet("all", input=1, cache_write=1, cache_read=0.1, output=1)
BODY: dict[str, Any] = {"model": "m", "max_tokens": 9, "tools": [{"name": "look", "input_schema": {"type": "object"}}]}
USER = {"role": "user", "content": "What is my plan?"}
USE: dict[str, Any] = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "seen"}]}
ANSWER = {"role": "assistant", "content": "Walk."}
FRAME = lapsing("plan: walk, then rest")
LASTING = {"role": "system", "content": "Be terse.", "clear_at": "never"}


def request(*messages: Any, **more: Any) -> dict[str, Any]:
    return {**BODY, "messages": list(messages), **more}


def thinks(**body: Any) -> Said:
    return Said("ok", thinking=f"{len(body['messages'])} messages")


def test_what_lapses_is_read_until_the_next_message_of_the_user() -> None:
    assert lapses(FRAME)
    assert not lapses(LASTING)
    first = request(USER, FRAME)
    assert as_read(first) is first
    assert as_read(request(USER, FRAME, USE))["messages"] == [USER, FRAME, USE]
    assert as_read(request(USER, FRAME, USE, RESULT, FRAME))["messages"] == [USER, USE, RESULT, FRAME]
    assert as_read(request(USER, LASTING, ANSWER, USER))["messages"] == [USER, LASTING, ANSWER, USER]


@pytest.mark.parametrize(
    ("messages", "betas", "why"),
    [
        ([USER, FRAME], [BETA], ""),
        ([USER, LASTING], [BETA], ""),
        ([USER, FRAME], [], "messages.1.clear_at: Extra inputs are not permitted"),
        ([USER, LASTING], ["another"], "messages.1.clear_at: Extra inputs are not permitted"),
        ([{**USER, "clear_at": "next_user_message"}], [BETA], "messages.0.clear_at: Extra inputs are not permitted"),
        ([USER, FRAME, USER], [BETA], "comes the assistant, not 'user'"),
        ([USER, ANSWER, FRAME], [BETA], "behind a user message, not behind 'assistant'"),
        (
            [USER, {**FRAME, "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}],
            [BETA],
            "messages.1.content.0.cache_control: a message with `clear_at` is not cached",
        ),
    ],
)
def test_what_the_api_would_refuse(messages: list[Any], betas: list[str], why: str) -> None:
    faults = request_faults(request(*messages), "anthropic", betas=betas)
    assert any(why in fault.message for fault in faults) if why else faults == []


def test_the_model_reads_it_once_and_it_is_counted_once() -> None:
    read: list[Any] = []

    def model(**body: Any) -> Said:
        read.append(body["messages"])
        return Said("ok")

    upstream = StrictUpstream("anthropic", model, count=len)
    shown, lapsed = (
        upstream(**request(USER, FRAME), betas=[BETA]),
        upstream(**request(USER, FRAME, ANSWER, USER), betas=[BETA]),
    )
    plain = [upstream(**request(USER)), upstream(**request(USER, ANSWER, USER))]
    assert [FRAME in messages for messages in read] == [True, False, False, False]
    assert shown["usage"]["input_tokens"] > plain[0]["usage"]["input_tokens"]
    assert lapsed["usage"]["input_tokens"] == plain[1]["usage"]["input_tokens"]


def test_thinking_is_bound_to_what_was_sent_and_the_cache_to_what_is_read() -> None:
    upstream = StrictUpstream("anthropic", thinks, sheet=ALL, binding=True, count=len)
    marked = {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}
    reply = upstream(**request(marked, FRAME), betas=[BETA])
    said = {"role": "assistant", "content": reply["content"]}
    assert reply["usage"]["cache_creation_input_tokens"] > 0
    again = upstream(**request(marked, FRAME, said, marked), betas=[BETA])
    assert again["usage"]["cache_read_input_tokens"] == reply["usage"]["cache_creation_input_tokens"]
    with pytest.raises(Exception, match="Invalid `signature`"):
        upstream(**request(marked, said, marked), betas=[BETA])


def test_a_mark_for_the_whole_request_stands_before_what_lapses() -> None:
    cache = PromptCache(ALL, len)
    whole = {"cache_control": {"type": "ephemeral"}}
    first = cache.counted(as_read(request(USER, FRAME, **whole)), "anthropic")
    assert 0 < first.written < first.total
    second = cache.counted(as_read(request(USER, FRAME, ANSWER, USER, **whole)), "anthropic")
    assert second.read == first.written
