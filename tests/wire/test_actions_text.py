"""Calls in a reply's text: what is run, what is refused, and what is left of the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from offprompt.wire.actions import parse_actions

NAMES = ("slot_set", "slot_get", "slot_del", "slot_list", "search")
CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/actions/cases.jsonl").read_text(encoding="utf-8").splitlines()
]


def got(text: str, names: tuple[str, ...] = NAMES) -> list[dict[str, Any]]:
    return [{"name": action.name, "arguments": action.arguments} for action in parse_actions(text, names=names).actions]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_collected_output_runs_as_meant(case: dict[str, Any]) -> None:
    assert got(case["raw"]) == case["expect"], case["kind"]


WRITE = {"name": "mem_write", "arguments": {"slot": "城市", "value": "杭州"}}


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"mem_write","arguments":{"slot":"城市","value":"杭州"}}',
        '{"action":"mem_write","slot":"城市","value":"杭州"}',
        '{"action":"mem_write","key":"城市","content":"杭州"}',
        '{"action":"mem_write","name":"城市","value":"杭州"}',
        '{"tool":"mem_write","args":{"name":"城市","value":"杭州"}}',
        '{"function":"mem_write","input":"{\\"slot\\":\\"城市\\",\\"value\\":\\"杭州\\"}"}',
        '{"type":"function","function":{"name":"mem_write","arguments":{"slot":"城市","value":"杭州"}}}',
        '{"type":"tool_use","id":"t","name":"mem_write","input":{"slot":"城市","value":"杭州"}}',
        '{"tool_call":{"name":"mem_write","parameters":{"slot":"城市","value":"杭州"}}}',
        '{"arguments":{"slot":"城市","value":"杭州"},"name":"mem_write"}',
        "{'action': 'mem_write', 'slot': '城市', 'value': '杭州'}",
        '｛"name"："mem_write"，"arguments"：｛"slot"："城市"，"value"："杭州"｝｝',
        "{“name”：“mem_write”，“arguments”：{“slot”：“城市”，“value”：“杭州”}}",
        '{name: "mem_write", arguments: {slot: "城市", value: "杭州"}}',
        '{"name": "mem_write", // 保存\n "arguments": {"slot": "城市", "value": "杭州",},}',
        '{"name": "mem_write" "arguments": {"slot": "城市" "value": "杭州"}}',
        '<tool_call>\n{"name":"mem_write","arguments":{"slot":"城市","value":"杭州"}\n</tool_call>',
        '<tool_call>{"name":"mem_write","arguments":{"slot":"\\u57ce\\u5e02","value":"\\u676d\\u5dde"}}',
        '```json\n{"name":"mem_write","arguments":{"slot":"城市","value":"杭州"}}```',
        '````\n{"name":"mem_write","arguments":{"slot":"城市","value":"杭州"}}\n````',
        '<think>先想 {"action":"mem_forget","slot":"a"}</think>{"action":"mem_write","slot":"城市","value":"杭州"}',
        '想好了</think>\n好的\n{"action":"mem_write","slot":"城市","value":"杭州"}',
    ],
)
def test_one_call_in_all_its_spellings(text: str) -> None:
    parsed = parse_actions(text)
    assert [{"name": action.name, "arguments": dict(action.arguments)} for action in parsed.actions] == [WRITE]
    assert parsed.refused == ()


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('我记下了。{"action":"mem_write","slot":"a","value":"b"}。好了！', "我记下了。。好了！"),
        ('Noted.\n```json\n{"action":"mem_write","slot":"a","value":"b"}\n```\nDone.', "Noted.\n\nDone."),
        ('[{"action":"mem_read","slot":"a"}, {"action":"mem_read","slot":"b"}]', ""),
        ('x <tool_call>\n{"action":"mem_read","slot":"a"}\n</tool_call>\n y', "x \n y"),
        ('{"action":"mem_read","slot":"a"}\n', ""),
        ('ok {"action":"mem_read","slot":"a"}}} end', "ok  end"),
        ('before {"action":"mem_write","slot":"a","value":"half', "before "),
        (
            '```python\nx = {"action":"mem_read","slot":"a"}\n```',
            '```python\nx = {"action":"mem_read","slot":"a"}\n```',
        ),
        ("  no call, {braces}, ``` and `ticks`\n", "  no call, {braces}, ``` and `ticks`\n"),
    ],
)
def test_text_keeps_all_but_the_envelopes(text: str, rest: str) -> None:
    assert parse_actions(text).text == rest


def test_several_calls_come_in_order_with_their_place() -> None:
    text = '先读：{"action":"mem_read","slot":"a"}\n再写：{"action":"mem_write","slot":"b","value":1}'
    actions = parse_actions(text).actions
    assert [action.name for action in actions] == ["mem_read", "mem_write"]
    for action in actions:
        start, end = action.where.removeprefix("text[").removesuffix("]").split(":")
        assert json.loads(text[int(start) : int(end)])["action"] == action.name
        assert action.call_id == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"action":"mem_write","slot":"a","value":"half of a sen', "cut off"),
        ('{"action":"mem_write","slot":"a","value":"whole"', "cut off"),
        ('{"name":"mem_write","arguments":{"slot":"a","value":"b"}', "cut off"),
        ('<tool_call>{"action":"mem_write","slot":"a","value":</tool_call>', "missing"),
        ('<tool_call>{"action":"mem_write","slot":"a",</tool_call>', "cut off"),
        ('{"action":"mem_write","slot":"a","value":}', "missing"),
        ('{"action":"mem_write","slot":"a","value":NaN}', "NaN"),
        ('{"action":"mem_write","slot":"a","value":-Infinity}', "Infinity"),
        ('{"action":"mem_write","slot":"a","value":1e999}', "infinity"),
        ("{'action':'mem_write','slot':'a','value':nan}", "nan"),
        ('{"action":"mem_write","slot":"a","value":"\\ud83d"}', "half a character"),
        ('{"action":"mem_write","slot":"a","key":"b","value":1}', "different values"),
        ('{"name":"mem_write","arguments":{"slot":"a","value":1},"parameters":{"slot":"b","value":1}}', "twice"),
        ('{"name":"mem_read","name":"mem_forget","arguments":{"slot":"a"}}', "twice"),
        ('{"name":"mem_read","action":"mem_forget","slot":"a"}', "two names"),
        ('{"name":"mem_read","arguments":["a"]}', "not an object"),
        ('{"name":"mem_search","input":"tea"}', "cannot be read"),
        ('{"name":"mem_write","arguments":"{\\"slot\\":\\"a\\",\\"value\\":\\"ha"}', "cut off"),
        ('<think>{"action":"mem_read","slot":"a"}', "reasoning"),
        ('{"action":"mem_write","slot":"a","value":' + "[" * 90 + "1" + "]" * 90 + "}", "nested"),
        ('{"action":"mem_write","slot":"a","value":' + "[" * 5000 + "]" * 5000 + "}", "nested"),
        ('{"action":"mem_write","slot":"a","value":["x" "y"]}', "two ways"),
        ('{"action":"mem_write","slot":"a","value":["甲”,“乙"],}', "two ways"),
        ('{"action":"mem_write","slot":"a","value":{"x":1 2 3}}', ""),
        ('{"action":"mem_write","slot":"文","value":"甲"，"乙","丙"}', ""),
    ],
)
def test_what_is_broken_is_refused_with_its_reason(text: str, why: str) -> None:
    parsed = parse_actions(text)
    assert parsed.actions == ()
    assert [refusal.name for refusal in parsed.refused] != []
    assert why in parsed.refused[0].why
    assert len(parsed.refused[0].raw) <= 200
    assert parsed.refused[0].where.startswith("text[")
    assert '"action"' not in parsed.text.replace("<think>", "")


@pytest.mark.parametrize(
    "text",
    [
        'For example `{"action":"mem_forget","slot":"a"}` forgets it.',
        '例如 ``{"action":"mem_forget","slot":"a"}`` 会忘记它。',
        '<think>{"action":"mem_forget","slot":"a"}</think>不用改。',
        '<thinking>{"action":"mem_forget","slot":"a"}</thinking>no change',
        '{"action":"mem_forget","slot":"a"}</think>不用改。',
        '{"action":"mem_forgets","slot":"a"}',
        '{"example": {"action":"mem_forget","slot":"a"}}',
        '{"name":"mem_forget","description":"Forget a slot.","parameters":{"type":"object","properties":{}}}',
        '{"name":"mem_forget"}',
        '{"answer":"use {\\"action\\":\\"mem_forget\\",\\"slot\\":\\"a\\"}"}',
        '```js\ncall({"action":"mem_forget","slot":"a"})\n```',
        '{"tool_calls":[{"name":"mem_forget","arguments":{"slot":"a"}},{"name":"pay","arguments":{}}]}',
        "mem_forget(a)",
    ],
)
def test_what_is_no_call_stays_as_it_is(text: str) -> None:
    parsed = parse_actions(text)
    assert (parsed.actions, parsed.refused, parsed.text) == ((), (), text)


@pytest.mark.parametrize(
    "value",
    [
        'Example:\n<tool_call>{"action":"mem_forget","slot":"x"}</tool_call>',
        '例：{"action":"mem_forget","slot":"x"}',
        '</think>{"action":"mem_forget","slot":"x"}',
        '```json\n{"action":"mem_forget","slot":"x"}\n```',
    ],
)
@pytest.mark.parametrize("broken", ["", "newline", "comma", "quotes", "cut"])
def test_a_call_inside_a_value_is_never_run(value: str, broken: str) -> None:
    raw = json.dumps({"action": "mem_write", "slot": "doc", "value": value}, ensure_ascii=False)
    raw = {
        "": raw,
        "newline": raw.replace("\\n", "\n"),
        "comma": raw[:-1] + ",}",
        "quotes": raw.replace('\\"', '"'),
        "cut": raw[:-2],
    }[broken]
    parsed = parse_actions(raw)
    if broken in ("quotes", "cut"):
        assert parsed.actions == ()
        assert [refusal.name for refusal in parsed.refused] == ["mem_write"]
    else:
        assert [dict(action.arguments) for action in parsed.actions] == [{"slot": "doc", "value": value}]


def test_the_last_of_two_equal_keys_counts() -> None:
    assert got('{"name":"search","arguments":{"q":"旧","q":"新"}}') == [{"name": "search", "arguments": {"q": "新"}}]


def test_quotes_inside_a_text_are_kept_where_only_one_reading_is_left() -> None:
    text = '{"action":"mem_write","slot":"话","value":"他说"好"。"}'
    assert got(text, ("mem_write",))[0]["arguments"]["value"] == '他说"好"。'
    text = '{"action":"mem_write","slot":"记号","value":"以"{"开头"}'
    assert got(text, ("mem_write",))[0]["arguments"]["value"] == '以"{"开头'


def test_an_address_without_quotes_is_no_comment() -> None:
    assert got('{"name":"search","arguments":{"q":http://a.b/c}}') == [
        {"name": "search", "arguments": {"q": "http://a.b/c"}}
    ]


def test_a_name_alone_is_a_call_only_where_calls_stand() -> None:
    assert got('<tool_call>{"name":"slot_list"}</tool_call>') == [{"name": "slot_list", "arguments": {}}]
    assert got('{"name":"slot_list"}<tool_call></tool_call>{"name":"slot_list"}') == []


def test_unknown_names_and_empty_sets_of_names_call_nothing() -> None:
    text = '{"action":"mem_read","slot":"a"}'
    assert parse_actions(text, names=()).actions == ()
    assert parse_actions(text, names=("other",)).text == text
