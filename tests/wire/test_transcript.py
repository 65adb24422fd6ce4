"""The checker that every transform's tests use: what it lets through, and every fault that it must name."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.wire.transcript import check_transcript

Messages = list[dict[str, Any]]


def call(call_id: str = "c1", arguments: Any = "{}", name: str = "look") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def answer(call_id: str = "c1", content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def user(content: Any = "你好") -> dict[str, Any]:
    return {"role": "user", "content": content}


def says(content: Any = "好的") -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def text(value: str = "hi") -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(call_id: str = "t1", value: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {} if value is None else value}


def result(call_id: str = "t1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


SYSTEM = {"role": "system", "content": "s"}
GOOD_OPENAI: list[Messages] = [
    [user()],
    [SYSTEM, user(""), says(), user([text()])],
    [user(), asks(call("a"), call("b"), content="看看"), answer("b"), answer("a", [text()]), says(), user()],
    [SYSTEM, user(), asks(call()), answer(), SYSTEM, asks(call()), answer(), user()],
    [says("hello"), user(), {"role": "developer", "content": "d"}, {"role": "assistant", "refusal": "no"}],
]
BAD_OPENAI: list[tuple[Messages, str]] = [
    ([], "there are no messages"),
    ([answer(), user()], "message 0: a result for 'c1', which no call just before it asks for"),
    ([user(), asks(call()), user()], "message 2: call 'c1' has no result before it"),
    ([user(), asks(call())], "message 2: call 'c1' has no result before it"),
    ([user(), asks(call()), SYSTEM, answer()], "message 2: call 'c1' has no result before it"),
    ([user(), asks(call("a"), call("b")), answer("a"), says()], "message 3: call 'b' has no result before it"),
    ([user(), asks(call()), answer(), answer()], "message 3: a result for 'c1', which no call just before it asks for"),
    (
        [user(), asks(call()), answer("x"), answer()],
        "message 2: a result for 'x', which no call just before it asks for",
    ),
    ([user(), says(), answer()], "message 2: a result for 'c1', which no call just before it asks for"),
    ([user(), asks(call(), call()), answer(), answer()], "message 1: the id 'c1' twice"),
    ([user(), asks(call("")), answer("")], "message 1: a call without an id"),
    ([user(), asks(call(name="")), answer()], "message 1: call 'c1' without a name"),
    ([user(), asks(call(arguments={})), answer()], "message 1: the arguments of 'c1' are not text"),
    ([user(), asks(call()), answer(content=None)], "message 2: a result without content"),
    ([user(), asks()], "message 1: an empty list of tool calls"),
    ([user(), says(None)], "message 1: assistant without content or calls"),
    ([user(), says("")], "message 1: assistant without content or calls"),
    ([user(None)], "message 0: user without content"),
    ([user([])], "message 0: user without content"),
    ([user([{"text": "x"}])], "message 0: a content part without a type"),
    ([user(7)], "message 0: content is neither text nor a list of parts"),
    ([{"role": "bot", "content": "x"}], "message 0: unknown role 'bot'"),
    ([{"content": "x"}], "message 0: unknown role None"),
]
GOOD_ANTHROPIC: list[Messages] = [
    [user()],
    [user([text()]), says([text()]), user(), user()],
    [user(), says([text(), use("a"), use("b")]), user([result("b"), result("a"), text()]), says(), user()],
    [user(), says([use()]), user([result()]), says([use()]), user([result()])],
    [user(), says("")],
    [user(), SYSTEM],
    [user(), says([use()]), user([result()]), SYSTEM, says(), user(), {**SYSTEM, "clear_at": "next_user_message"}],
    [user(), says([{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]), SYSTEM, says()],
    [{"role": "system", "content": [], "output_config": {"effort": "low"}}, user()],
]
BAD_ANTHROPIC: list[tuple[Messages, str]] = [
    ([], "there are no messages"),
    ([says(), user()], "message 0: a conversation begins with the user, not with 'assistant'"),
    ([SYSTEM, user()], "message 0: system text in front is a parameter of its own"),
    ([user(), says(), SYSTEM], "message 2: a system message stands behind a user message, not behind 'assistant'"),
    ([user(), SYSTEM, SYSTEM], "message 1: behind a system message comes the assistant, not 'system'"),
    ([user(), SYSTEM, user()], "message 1: behind a system message comes the assistant, not 'user'"),
    (
        [user(), says([use()]), SYSTEM, user([result()])],
        "message 2: a system message stands behind a user message, not behind 'assistant'",
    ),
    ([user(), {**SYSTEM, "content": [text(" ")]}], "message 1: an empty text block"),
    ([user(), {"role": "tool", "content": "x"}], "message 1: unknown role 'tool'"),
    ([user(), says([use()]), user()], "message 2: call 't1' has no result before it"),
    ([user(), says([use()])], "message 2: call 't1' has no result before it"),
    ([user(), says([use()]), user(), user([result()])], "message 2: call 't1' has no result before it"),
    ([user(), says([use()]), user(), user([result()])], "message 3: a result for 't1', which was not asked"),
    ([user(), says([use("a"), use("b")]), user([result("a")])], "message 2: call 'b' has no result before it"),
    ([user(), says([use()]), user([text(), result()])], "message 2: results do not stand first"),
    ([user(), says([use()]), user([result(), result()])], "message 2: two results for 't1'"),
    ([user([result()])], "message 0: a result for 't1', which was not asked"),
    ([user(), says([use()]), says([result()])], "message 2: results in a message of role 'assistant'"),
    ([user([use()]), user([result()])], "message 0: a call in a message of role 'user'"),
    ([user(), says([use(), use()]), user([result()])], "message 1: the id 't1' twice"),
    ([user(), says([use("")]), user()], "message 1: a call without id or name"),
    ([user(), says([use(value="{}")]), user([result()])], "message 1: the input of 't1' is not an object"),
    ([user("")], "message 0: empty text"),
    ([user([text(" ")])], "message 0: an empty text block"),
    ([user([])], "message 0: no content"),
    ([user(None)], "message 0: no content"),
    ([user(), says(""), user()], "message 1: empty text"),
    ([user(["x"])], "message 0: a content block without a type"),
]


@pytest.mark.parametrize("messages", GOOD_OPENAI)
def test_sound_openai_conversations_pass(messages: Messages) -> None:
    assert check_transcript(messages, wire="openai") == []


@pytest.mark.parametrize("messages", GOOD_ANTHROPIC)
def test_sound_anthropic_conversations_pass(messages: Messages) -> None:
    assert check_transcript(messages, wire="anthropic") == []


@pytest.mark.parametrize(("messages", "fault"), BAD_OPENAI)
def test_openai_faults_are_named(messages: Messages, fault: str) -> None:
    assert fault in check_transcript(messages, wire="openai")


@pytest.mark.parametrize(("messages", "fault"), BAD_ANTHROPIC)
def test_anthropic_faults_are_named(messages: Messages, fault: str) -> None:
    assert fault in check_transcript(messages, wire="anthropic")
