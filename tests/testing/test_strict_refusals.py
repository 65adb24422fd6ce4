"""The strict upstreams refuse what the providers refuse, one reason at a time, and nothing that is sound."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from anthropic.types import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from offprompt.testing import strict_chat, strict_messages, strict_responses
from offprompt.testing.strict import RefusedError, StrictUpstream, request_faults
from offprompt.testing.strict_chunks import StrictWire
from offprompt.wire.lapsing import BETA

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
CHAT: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "messages": [
        {"role": "system", "content": "简短。"},
        {"role": "user", "content": [{"type": "text", "text": "Look"}], "name": "Ada"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "assistant", "content": "Seen."},
        {"role": "user", "content": "谢谢"},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "description": "A tool.", "parameters": SCHEMA}}],
    "temperature": 0.5,
    "max_completion_tokens": 100,
}
MESSAGES: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 4096,
    "system": [{"type": "text", "text": "简短。", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Look"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "seen"},
                {"type": "text", "text": "谢谢"},
            ],
        },
    ],
    "tools": [{"name": "look", "description": "A tool.", "input_schema": SCHEMA}],
    "thinking": {"type": "adaptive"},
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-5",
    "instructions": "简短。",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Look"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Seen."}]},
        {"role": "user", "content": "谢谢"},
    ],
    "tools": [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}],
}
SOUND: dict[StrictWire, dict[str, Any]] = {"openai": CHAT, "anthropic": MESSAGES, "responses": RESPONSES}


def seen(**_: Any) -> str:
    return "Seen."


def refused(wire: StrictWire, body: Mapping[str, Any]) -> str:
    upstream = StrictUpstream(wire, seen)
    with pytest.raises(RefusedError) as caught:
        upstream(**body)
    assert (caught.value.status, len(upstream.requests)) == (400, 1)
    error = caught.value.body["error"]
    assert error["type"] == "invalid_request_error"
    assert caught.value.body.get("type") == ("error" if wire == "anthropic" else None)
    return str(error["message"])


def changed(body: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The request with one place changed; `...` takes it out."""
    result: Any = copy.deepcopy(dict(body))
    current = result
    steps: list[Any] = [int(step) if step.lstrip("-").isdigit() else step for step in path.split("/")]
    for step in steps[:-1]:
        current = current[step]
    if value is ...:
        del current[steps[-1]]
    else:
        current[steps[-1]] = value
    return result


@pytest.mark.parametrize("wire", SOUND)
def test_what_is_sound_is_answered(wire: StrictWire) -> None:
    upstream = StrictUpstream(wire, seen)
    upstream(**SOUND[wire])
    assert upstream.faults == []
    assert upstream.requests == [SOUND[wire]]


def test_the_parameters_are_those_of_the_clients() -> None:
    def names(params: Any) -> set[str]:
        return set(params.__annotations__) | {"stream"}

    assert set(strict_chat.PARAMETERS) == names(completion_create_params.CompletionCreateParamsBase)
    assert set(strict_messages.PARAMETERS) == names(message_create_params.MessageCreateParamsBase)
    assert set(strict_responses.PARAMETERS) == names(response_create_params.ResponseCreateParamsBase)


CHAT_CASES: list[tuple[str, Any, str]] = [
    ("session", "s1", "Unknown parameter: 'session'"),
    ("model", ..., "Missing required parameter: 'model'"),
    ("messages", ..., "Missing required parameter: 'messages'"),
    ("messages", [], "there are no messages"),
    ("messages", "hi", "must be a list"),
    ("temperature", "hot", "must be a number"),
    ("temperature", 2.5, "between 0 and 2"),
    ("max_completion_tokens", 0, "at least 1"),
    ("max_tokens", 5, "at the same time"),
    ("stream_options", {"include_usage": True}, "only allowed when 'stream'"),
    ("tools", [], "too short"),
    ("tools/0/type", ..., "'tools[0].type'"),
    ("tools/0/cache_control", {}, "Unknown parameter: 'tools[0].cache_control'"),
    ("tools/0/function/name", "look up", "does not match"),
    ("tools/0/function/parameters", {"type": "string"}, 'its type must be "object"'),
    ("tool_choice", {"type": "function", "function": {"name": "other"}}, "not found in 'tools'"),
    ("tool_choice", "any", "must be one of none, auto, required"),
    ("messages/0/role", "narrator", "unknown role 'narrator'"),
    ("messages/0/content", [], "empty array"),
    ("messages/0/content", [{"type": "image_url", "image_url": {}}], "'image_url'"),
    ("messages/1/content", None, "must be text"),
    ("messages/1/content", [{"type": "text"}], "content[0].text"),
    ("messages/1/name", "Ada Okafor", "does not match"),
    ("messages/1/id", "m1", "Unknown parameter: 'messages[1].id'"),
    ("messages/2/tool_calls", [], "empty list of tool calls"),
    ("messages/2/tool_calls/0/type", ..., "tool_calls[0].type"),
    ("messages/2/tool_calls/0/id", "c2", "'c1'"),
    ("messages/2/tool_calls/0/function/arguments", {}, "must be text"),
    ("messages/2/tool_calls", ..., "assistant without content or calls"),
    ("messages/3", {"role": "user", "content": "no result"}, "call 'c1' has no result"),
    ("messages/3/tool_call_id", ..., "'messages[3].tool_call_id'"),
    ("messages/4", {"role": "tool", "tool_call_id": "c1", "content": "again"}, "a result for 'c1'"),
]


@pytest.mark.parametrize(("path", "value", "why"), CHAT_CASES)
def test_chat_refuses(path: str, value: Any, why: str) -> None:
    assert why in refused("openai", changed(CHAT, path, value))


def test_chat_refuses_what_needs_tools_without_them() -> None:
    plain = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert "'tool_choice' is only allowed" in refused("openai", {**plain, "tool_choice": "auto"})
    assert "'parallel_tool_calls' is only allowed" in refused("openai", {**plain, "parallel_tool_calls": True})
    twice = changed(CHAT, "tools", CHAT["tools"] * 2)
    assert "'look' stands twice" in refused("openai", twice)
    call = CHAT["messages"][2]["tool_calls"][0]
    assert "the id 'c1' twice" in refused("openai", changed(CHAT, "messages/2/tool_calls", [call, call]))


MARK = {"type": "ephemeral"}
RESULT = MESSAGES["messages"][2]["content"][0]
USE = MESSAGES["messages"][1]["content"][1]


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("session", "s1", "session: Extra inputs are not permitted"),
        ("n", 2, "n: Extra inputs are not permitted"),
        ("max_tokens", ..., "'max_tokens'"),
        ("max_tokens", 0, "at least 1"),
        ("stream", None, "must be true or false"),
        ("system", {"type": "text"}, "must be text"),
        ("system/0/text", "", "system.0: text content blocks must be non-empty"),
        ("system/0/cache_control", {"type": "forever"}, "ephemeral"),
        ("tools", ..., "must define tools"),
        ("tools/0/input_schema", ..., "'tools.0.input_schema'"),
        ("tools/0/parameters", SCHEMA, "tools.0.parameters: Extra inputs"),
        ("tools/0/name", "a b", "does not match"),
        ("tool_choice", {"type": "tool", "name": "other"}, "'other' not found"),
        ("tool_choice", {"type": "required"}, "auto, any, tool or none"),
        ("tool_choice", {"type": "any"}, "Thinking may not be enabled"),
        ("thinking", {"type": "enabled", "budget_tokens": 100}, "at least 1024"),
        ("thinking", {"type": "enabled", "budget_tokens": 5000}, "must be greater"),
        ("thinking", {"type": "deep"}, "thinking.type"),
        ("messages", [], "there are no messages"),
        ("messages/0/role", "assistant", "begins with the user"),
        ("messages/0/role", "system", "system text in front is a parameter"),
        ("messages/0/content", "", "empty text"),
        ("messages/0/content", " \n", "empty text"),
        ("messages/0/content", [], "no content"),
        ("messages/0/content", [{"type": "text", "text": ""}], "an empty text block"),
        ("messages/0/content", [{"text": "hi"}], "without a type"),
        ("messages/0/content", [USE], "`tool_use` blocks are not allowed in `user`"),
        ("messages/0/name", "Ada", "messages.0.name: Extra inputs"),
        ("messages/1/content/0/citations", "none", "must be a list"),
        ("messages/1/content/1/input", "{}", "must be an object"),
        ("messages/1/content/1/id", "t 1", "String should match pattern"),
        ("messages/1/content/1/arguments", "{}", "Extra inputs"),
        ("messages/1/content", [USE, USE], "ids must be unique"),
        ("messages/1/content", [{"type": "thinking", "thinking": "hm"}, USE], "'messages.1.content.0.signature'"),
        ("messages/1/content/1", {"type": "text", "text": "no call"}, "which was not asked"),
        ("messages/2/content", [RESULT, RESULT], "two results for 't1'"),
        ("messages/2/content", [{"type": "text", "text": "x"}, RESULT], "results do not stand first"),
        ("messages/2/content", [{"type": "text", "text": "x"}], "'t1' has no result"),
        ("messages/2/content/0/is_error", "yes", "must be true or false"),
        ("messages/2/content/0/content", [{"type": "text", "text": ""}], "non-empty"),
        ("messages/2/content/0/content", [USE], "`tool_use` is not allowed in a tool result"),
    ],
)
def test_messages_refuses(path: str, value: Any, why: str) -> None:
    assert why in refused("anthropic", changed(MESSAGES, path, value))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"clear_at": "next_user_message", "output_config": {"effort": "low"}}, ""),
        ({"name": "n"}, "name: Extra inputs are not permitted"),
        ({"clear_at": "noon"}, "must be one of next_user_message, never"),
        ({"content": [RESULT]}, "`tool_result` blocks are not allowed in `system` messages"),
        ({"content": ""}, "empty text"),
    ],
)
def test_messages_takes_system_messages_of_text(fields: dict[str, Any], why: str) -> None:
    said = {"role": "system", "content": "Be terse.", **fields}
    faults = request_faults({**MESSAGES, "messages": [*MESSAGES["messages"], said]}, "anthropic", betas=[BETA])
    assert any(why in fault.message for fault in faults) if why else faults == []


def test_messages_allows_four_cache_marks() -> None:
    texts = [{"type": "text", "text": f"part {at}", "cache_control": MARK} for at in range(4)]
    upstream = StrictUpstream("anthropic", seen)
    upstream(**changed(MESSAGES, "messages/0/content", texts[:3]))
    assert "Found 5" in refused("anthropic", changed(MESSAGES, "messages/0/content", texts))
    with_automatic = {**changed(MESSAGES, "messages/0/content", texts[:3]), "cache_control": MARK}
    assert "Found 5" in refused("anthropic", with_automatic)
    named = changed(MESSAGES, "tools/0/input_schema/properties/cache_control", {"type": "string"})
    upstream(**changed(named, "messages/0/content", texts[:3]))


def test_messages_refuses_an_answer_to_go_on_with_that_ends_in_space() -> None:
    plain = {"model": "m", "max_tokens": 5}
    begun = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well, "}]
    assert "trailing whitespace" in refused("anthropic", {**plain, "messages": begun})
    assert "tool_choice may only" in refused(
        "anthropic", {**plain, "messages": begun[:1], "tool_choice": {"type": "auto"}}
    )


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("messages", [], "Unknown parameter: 'messages'"),
        ("model", ..., "'model'"),
        ("input", ..., "'input'"),
        ("input", [], "'input'"),
        ("max_output_tokens", 3, "at least 16"),
        ("tools/0/function", {}, "'tools[0].function'"),
        ("tools/0/type", ..., "'tools[0].type'"),
        ("tools/0/parameters", {"type": "array"}, 'its type must be "object"'),
        ("input/0/role", "tool", "'tool' for 'input[0].role'"),
        ("input/0/content/0/type", "text", "'text' for 'input[0].content[0].type'"),
        ("input/0/content", [], "empty array"),
        ("input/0/type", "tool_use", "'tool_use' for 'input[0].type'"),
        ("input/2/arguments", {}, "must be text"),
        ("input/2/call_id", ..., "'input[2].call_id'"),
        ("input/2/call_id", "c2", "No tool call found for function call output with call_id c1"),
        ("input/3", {"role": "user", "content": "no"}, "No tool output found for function call c1"),
        ("input/3/output", None, "must be text"),
        ("input/4", {"type": "function_call_output", "call_id": "c1", "output": ""}, "Duplicate output"),
        ("input/4", RESPONSES["input"][2], "Duplicate function call"),
        ("input/2", {"role": "user", "content": "x"}, "without its required following item"),
    ],
)
def test_responses_refuses(path: str, value: Any, why: str) -> None:
    assert why in refused("responses", changed(RESPONSES, path, value))


def test_responses_go_on_from_an_earlier_one() -> None:
    upstream = StrictUpstream("responses", seen)
    first = upstream(model="gpt-5", input="hi")
    upstream(model="gpt-5", input="and now?", previous_response_id=first["id"])
    with pytest.raises(RefusedError, match="not found"):
        upstream(model="gpt-5", input="hi", previous_response_id="resp_99")
    unstored = upstream(model="gpt-5", input="hi", store=False)
    with pytest.raises(RefusedError, match="not found"):
        upstream(model="gpt-5", input="hi", previous_response_id=unstored["id"])
    dangling = {"type": "function_call_output", "call_id": "c9", "output": "x"}
    with pytest.raises(RefusedError, match="c9"):
        upstream(model="gpt-5", input=[dangling], previous_response_id=first["id"])


def test_requests_that_are_refused_are_kept_with_the_reason() -> None:
    upstream = StrictUpstream("openai", seen)
    body = changed(CHAT, "session", "s1")
    with pytest.raises(RefusedError):
        upstream(**body)
    assert (upstream.requests, upstream.faults) == ([body], ["Unknown parameter: 'session'."])
    upstream(**CHAT, timeout=20, extra_body={"seed": 7})
    assert upstream.requests[1]["seed"] == 7
    assert "timeout" not in upstream.requests[1]
