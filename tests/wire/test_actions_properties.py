"""No input raises; what is rendered is parsed back; a cut reply never runs what it had not finished."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.wire.actions import parse_actions

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(st.text(max_size=8), JSON, max_size=4).filter(
    lambda value: not (value.get("type") == "object" and isinstance(value.get("properties"), dict))
)
PIECES = st.sampled_from(
    [
        *(
            '{"',
            '"',
            "'",
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\\",
            "\\u",
            "\n",
            "`",
            "```",
            "```json\n",
            "~~~",
            "“",
            "”",
            "：",
        ),
        *(
            "，",
            "｛",
            "｝",
            "<tool_call>",
            "</tool_call>",
            "<think>",
            "</think>",
            "mem_write",
            '"name":"mem_write"',
            "//",
        ),
        *('"arguments":{', '{"action":"mem_forget","slot":"a"}', "NaN", "1e999", "/*", " ", "值", "\ud800", "/"),
    ]
)
RENDER: list[Callable[[dict[str, Any]], str]] = [
    lambda call: json.dumps(call, ensure_ascii=False),
    lambda call: json.dumps(call, indent=2),
    lambda call: f"好的，{json.dumps(call, ensure_ascii=False)} 完成",
    lambda call: f"Sure:\n```json\n{json.dumps(call)}\n```\nDone",
    lambda call: f"<tool_call>\n{json.dumps(call)}\n</tool_call>",
    lambda call: json.dumps({**call, "arguments": json.dumps(call["arguments"])}),
    lambda call: f"<think>{json.dumps(call)[:30]}</think>[{json.dumps(call)}]".replace("</think></think>", "</think>"),
]


@given(ARGUMENTS, st.sampled_from(RENDER))
def test_what_is_rendered_is_parsed_back(arguments: dict[str, Any], render: Callable[[dict[str, Any]], str]) -> None:
    parsed = parse_actions(render({"name": "search", "arguments": arguments}), names=["search"])
    assert [(action.name, action.arguments) for action in parsed.actions] == [("search", arguments)]
    assert parsed.refused == ()


@given(ARGUMENTS)
def test_native_arguments_are_parsed_back(arguments: dict[str, Any]) -> None:
    call = {"id": "c", "function": {"name": "search", "arguments": json.dumps(arguments)}}
    assert parse_actions({"tool_calls": [call]}, names=["search"]).actions[0].arguments == arguments


@given(ARGUMENTS, st.data())
def test_a_reply_cut_anywhere_runs_nothing(arguments: dict[str, Any], data: st.DataObject) -> None:
    whole = json.dumps({"name": "search", "arguments": arguments}, ensure_ascii=False)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert parse_actions(cut, names=["search"]).actions == ()
    native = json.dumps(arguments)
    cut = native[: data.draw(st.integers(1, len(native) - 1))]
    call = {"id": "c", "function": {"name": "search", "arguments": cut}}
    assert parse_actions({"tool_calls": [call]}, names=["search"]).actions == ()


@given(st.text() | st.lists(PIECES, max_size=24).map("".join))
def test_no_text_raises_and_ranges_are_ranges(text: str) -> None:
    parsed = parse_actions(text)
    for where in [item.where for item in (*parsed.actions, *parsed.refused)]:
        start, end = where.removeprefix("text[").removesuffix("]").split(":")
        assert 0 <= int(start) < int(end) <= len(text)
    if not parsed.actions and not parsed.refused:
        assert parsed.text == text


@given(JSON, st.sampled_from(["choices", "message", "content", "tool_calls"]))
def test_no_json_raises(value: Any, key: str) -> None:
    for reply in (
        value,
        {key: value},
        {key: [value]},
        {"content": [{"type": "tool_use", "name": "mem_read", key: value}]},
    ):
        parse_actions(reply)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_no_native_arguments_raise(arguments: str) -> None:
    parsed = parse_actions({"tool_calls": [{"id": "c", "function": {"name": "mem_read", "arguments": arguments}}]})
    assert len(parsed.actions) + len(parsed.refused) == 1


@pytest.mark.timeout(60)
def test_time_grows_with_the_text_not_with_its_square() -> None:
    for piece in ('{"a', '{"a":"', "`", "<think>", '"', "{'mem_read'", '{"name":"mem_read"', "{", '{"a":"}" ', "```x"):
        parse_actions('mem_read {"name":"mem_read" ' + piece * 20_000)
        parse_actions("mem_read " + piece * 20_000)
