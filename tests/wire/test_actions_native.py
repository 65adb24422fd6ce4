"""Calls that the wire carries as such: of both wires, as dicts and as the SDKs' objects."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from offprompt.wire.actions import parse_actions


def completion(*calls: tuple[str, Any], content: str | None = None) -> dict[str, Any]:
    tool_calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": tool_calls}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": message}],
    }


def anthropic_message(*blocks: dict[str, Any], stop: str = "tool_use") -> dict[str, Any]:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def use(name: str, value: object, call_id: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": value}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def test_openai_calls_as_completion_choice_message_and_sdk_object() -> None:
    raw = completion(("mem_read", '{"key": "城市"}'), ("pay", "{}"), ("mem_forget", '{"slot":"b"}'), content="好")
    choice = raw["choices"][0]
    for reply in (raw, choice, choice["message"], ChatCompletion.model_validate(raw)):
        parsed = parse_actions(reply)
        assert [(a.name, dict(a.arguments), a.where, a.call_id) for a in parsed.actions] == [
            ("mem_read", {"slot": "城市"}, "tool_calls[0]", "call_0"),
            ("mem_forget", {"slot": "b"}, "tool_calls[2]", "call_2"),
        ]
        assert parsed.text == "好"
        assert parsed.refused == ()


def test_anthropic_blocks_as_dict_message_and_sdk_object() -> None:
    raw = anthropic_message(
        {"type": "thinking", "thinking": '{"action":"mem_forget","slot":"x"}', "signature": "s"},
        text("I will look. "),
        use("mem_read", {"slot": "city"}),
        use("pay", {}, "t2"),
        text("One moment."),
    )
    for reply in (raw, {"role": "assistant", "content": raw["content"]}, Message.model_validate(raw)):
        parsed = parse_actions(reply)
        assert [(a.name, dict(a.arguments), a.where, a.call_id) for a in parsed.actions] == [
            ("mem_read", {"slot": "city"}, "content[2]", "t1")
        ]
        assert parsed.text == "I will look. One moment."


@pytest.mark.parametrize("arguments", ["", " ", "{}", None, {}])
def test_no_arguments_are_an_empty_object(arguments: object) -> None:
    assert dict(parse_actions(completion(("mem_search", arguments))).actions[0].arguments) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        '{"slot":"a","value":"b"}',
        '{"slot":"a","value":"b",}',
        "{'slot':'a','value':'b'}",
        '{"slot":"a","value":"b"}}',
        'json\n{"slot":"a","value":"b"}',
        '```json\n{"slot":"a","value":"b"}\n```',
        '```\n{"slot":"a","value":"b"}```\n',
        '"{\\"slot\\":\\"a\\",\\"value\\":\\"b\\"}"',
        {"slot": "a", "value": "b"},
    ],
)
def test_arguments_that_have_one_meaning_are_understood(arguments: object) -> None:
    assert dict(parse_actions(completion(("mem_write", arguments))).actions[0].arguments) == {"slot": "a", "value": "b"}


@pytest.mark.parametrize(
    "arguments",
    [
        '{"slot":"a","value":"half',
        '{"slot":"a"',
        '{"slot":"a","value":"b"}{"slot":"c","value":"d"}',
        '{"slot":"a","value":"b"}```',
        '```json\n{"slot":"a","value":"half\n```',
        '["a"]',
        '"a"',
        "a",
        "nope {",
        '{"slot":"a","value":NaN}',
        {"slot": "a", "value": float("nan")},
        ["a"],
        7,
    ],
)
def test_arguments_that_have_none_are_refused_under_their_call_id(arguments: object) -> None:
    parsed = parse_actions(completion(("mem_write", arguments), ("mem_read", '{"slot":"a"}')))
    assert [action.name for action in parsed.actions] == ["mem_read"]
    assert [(r.name, r.call_id, r.where) for r in parsed.refused] == [("mem_write", "call_0", "tool_calls[0]")]
    assert parsed.refused[0].why.startswith("mem_write: ")


def test_a_block_in_which_the_reply_was_cut_off_is_refused() -> None:
    reply = anthropic_message(use("mem_read", {"slot": "a"}), use("mem_write", {}, "t2"), stop="max_tokens")
    parsed = parse_actions(reply)
    assert [action.call_id for action in parsed.actions] == ["t1"]
    assert [(refusal.call_id, "cut off" in refusal.why) for refusal in parsed.refused] == [("t2", True)]


def test_a_call_that_stands_in_the_text_too_runs_once() -> None:
    content = '好的 <tool_call>{"name":"mem_read","arguments":{"slot":"a"}}</tool_call>'
    parsed = parse_actions(completion(("mem_read", '{"slot": "a"}'), content=content))
    assert [action.where for action in parsed.actions] == ["tool_calls[0]"]
    assert parsed.text == "好的 "


def test_text_parts_of_a_message_are_read_as_one_text() -> None:
    message = {"role": "assistant", "content": [text('{"action":"mem_read",'), text('"slot":"a"}')]}
    assert parse_actions(message).actions[0].where == "text[0:32]"


def test_reasoning_fields_are_never_read() -> None:
    call = '{"action":"mem_forget","slot":"a"}'
    message = {"role": "assistant", "content": "ok", "reasoning_content": call, "reasoning": call}
    parsed = parse_actions(message)
    assert (parsed.actions, parsed.text) == ((), "ok")
    parsed = parse_actions({"role": "assistant", "content": [{"type": "reasoning", "text": call}, text("ok")]})
    assert (parsed.actions, parsed.text) == ((), "ok")


def response(*items: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": status,
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
    }


def function_call(name: str, arguments: str, call_id: str = "c1", status: str = "completed") -> dict[str, Any]:
    call = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}
    return {**call, "status": status}


def spoken(value: str) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": value, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def test_a_response_as_dict_output_list_and_sdk_object() -> None:
    raw = response(
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": '{"action":"mem_forget"}'}]},
        spoken("我来看。"),
        function_call("mem_read", '{"key": "城市"}'),
        function_call("pay", "{}", "c2"),
        spoken(' {"action":"mem_read","slot":"city"}'),
    )
    for reply in (raw, raw["output"], Response.model_validate(raw)):
        parsed = parse_actions(reply)
        assert [(a.name, dict(a.arguments), a.where, a.call_id) for a in parsed.actions] == [
            ("mem_read", {"slot": "city"}, "text[5:40]", ""),
            ("mem_read", {"slot": "城市"}, "output[2]", "c1"),
        ]
        assert parsed.text == "我来看。 "


def test_a_response_cut_off_in_a_call_refuses_it() -> None:
    whole, cut = function_call("mem_read", '{"slot":"a"}'), function_call("mem_write", "{}", "c2")
    for reply in (
        response(whole, cut, status="incomplete"),
        response(whole, function_call("mem_write", "{}", "c2", "incomplete")),
    ):
        parsed = parse_actions(reply)
        assert [action.call_id for action in parsed.actions] == ["c1"]
        assert [(refusal.call_id, "cut off" in refusal.why) for refusal in parsed.refused] == [("c2", True)]
