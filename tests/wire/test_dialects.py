"""Every kind of call that models were seen to write, in both languages: our own siblings of the collected cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from offprompt.wire.actions import parse_actions

NAMES = ("slot_set", "slot_get", "slot_del", "slot_list", "search")
DATA = Path(__file__).parents[1] / "data/actions"
SIBLINGS: list[dict[str, Any]] = [
    json.loads(line) for line in (DATA / "siblings.jsonl").read_text(encoding="utf-8").splitlines()
]
KINDS = 76
KIMI = (
    '<|tool_calls_section_begin|><|tool_call_begin|>search:0<|tool_call_argument_begin|>{"q":"茶"}'
    "<|tool_call_end|><|tool_calls_section_end|>"
)
HARMONY = "<|start|>assistant<|channel|>commentary to=functions.slot_list<|message|>{}<|call|>"
DSML = '<｜DSML｜invoke name="search"><｜DSML｜parameter name="q" string="false">'


def got(text: str, names: tuple[str, ...] = NAMES) -> list[dict[str, Any]]:
    return [{"name": action.name, "arguments": action.arguments} for action in parse_actions(text, names=names).actions]


@pytest.mark.parametrize("case", SIBLINGS, ids=[case["id"] for case in SIBLINGS])
def test_each_kind_runs_as_meant(case: dict[str, Any]) -> None:
    assert got(case["raw"]) == case["expect"], case["note"]


def test_every_kind_has_a_case_and_every_case_its_own_id() -> None:
    assert {case["kind"] for case in SIBLINGS} == set(range(1, KINDS + 1))
    assert len({case["id"] for case in SIBLINGS}) == len(SIBLINGS)


def test_both_languages_are_in_it() -> None:
    chinese = [case for case in SIBLINGS if any("一" <= char <= "鿿" for char in case["raw"])]
    assert len(SIBLINGS) / 3 < len(chinese) < len(SIBLINGS)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"ok {KIMI} 完", "ok  完"),
        ('好。[TOOL_CALLS]search[ARGS]{"q":"a"}', "好。"),
        ("<tool_call>\n<function=search>\n<parameter=q>\n茶\n</parameter>\n</function>\n</tool_call>\n再见", "\n再见"),
        ("I will. [search(q='a'), slot_list()]", "I will. "),
        ("Thought: t\nAction: search\nAction Input: {\"q\":\"a\"}\nObservation: o", "Thought: t\n\nObservation: o"),
        (f"<|channel|>analysis<|message|>hm<|end|>{HARMONY}", "<|channel|>analysis<|message|>hm<|end|>"),
        ('```python\nf(x)\n```\n{"name":"search","arguments":{"q":"a"}}', "```python\nf(x)\n```\n"),
        ("```tool_code\nsearch(q='a')\n```\n好", "\n好"),
        ("x <|tool_call>call:search{q:<|\"|>a<|\"|>}<tool_call|> y", "x  y"),
    ],
)  # fmt: skip
def test_marks_leave_the_text_with_their_call(text: str, rest: str) -> None:
    parsed = parse_actions(text, names=NAMES)
    assert parsed.text == rest
    assert parsed.actions


CALL = '{"name":"slot_del","arguments":{"key":"a"}}'


@pytest.mark.parametrize(
    "text",
    [
        f"You wrote:\n> {CALL}\nShall I?",
        f'User: please run {CALL}\nAssistant: no',
        f"用户：请执行 {CALL}\n不行。",
        f"Thought: maybe {CALL}\nFinal Answer: no",
        f"他写了“{CALL}”，我没有执行。",
        f'The text was "{CALL}" and no call.',
        f"「{CALL}」只是引文。",
        f"For example:\n```json\n{CALL}\n```",
        f"示例：\n```json\n{CALL}\n```",
        f"```json\n{CALL}\n```\nA call looks like that.",
        f"The manual shows\n```json\n{CALL}\n```\nand more.",
        f"您可以发送：\n```\n{CALL}\n```",
        f"<function=pay>{{\"note\": {CALL}}}</function>",
        f"Action: pay\nAction Input: {CALL}",
        f"[TOOL_CALLS]pay[ARGS]{CALL}",
        f"<tool_call>pay<arg_key>a</arg_key><arg_value>{CALL}</arg_value></tool_call>",
        f'<invoke name="pay"><parameter name="a">{CALL}</parameter></invoke>',
        f"[pay(a={CALL})]",
        f"call:pay{{a:{CALL}}}",
        f"analysisLet me see {CALL}assistantfinalNothing.",
        f"<|inner_prefix|>{CALL}<|inner_suffix|>ok",
        "[slot_del](https://a.b) and slot_del(key='a') are words.",
    ],
)  # fmt: skip
def test_what_is_quoted_shown_thought_or_meant_for_another_tool_is_no_call(text: str) -> None:
    parsed = parse_actions(text, names=NAMES)
    assert (parsed.actions, parsed.refused, parsed.text) == ((), (), text)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{CALL}\n```",
        f"<think>hm</think>\n```json\n{CALL}\n```\n",
        f"`{CALL}`",
        f"I'll delete it.\n```json\n{CALL}\n```\nDone.",
        f"好的，正在删除：\n\n```json\n{CALL}\n```",
        f"Calling the tool:\n```\n{CALL}\n```",
    ],
)
def test_a_fence_that_is_the_reply_or_that_is_announced_is_a_call(text: str) -> None:
    assert got(text) == [{"name": "slot_del", "arguments": {"key": "a"}}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[TOOL_CALLS]search[ARGS]{\"q\": \"a\"", "cut off"),
        ("<function=search>", "cut off|missing"),
        ("<function=search>{\"q\": \"a\"}{\"q\": \"b\"}</function>", "more than one"),
        (">>>search\n", "missing"),
        ("<tool_call>\n<function=search>\n<parameter=q>茶</parameter>\n", "cut off"),
        ("<function=search>\n<parameter=q>a</parameter>\nb</parameter>\n</function>\n", "between"),
        ("<function=search>\n<parameter=q>see <function=a><parameter=q>x</parameter></function>", "marks of another"),
        ("<function=search>\n<parameter=q>see <function=a></function>", "cut off"),
        ("<function=search>\n<parameter=q>a</function>\n</tool_call>", "cut off"),
        ("<function=search>\n<parameter=q>\n<parameter=k>a</parameter></function>", "marks of another"),
        ("<function=search><parameter=q>a</parameter></function> b</parameter></function>", "closing tag"),
        ('<invoke name="search"><parameter name="q">a</parameter><parameter name="q">b</parameter></invoke>', "twice"),
        (f'{DSML}b"a"</｜DSML｜parameter></｜DSML｜invoke>', ""),
        (f'{DSML}1e999</｜DSML｜parameter></｜DSML｜invoke>', "infinity"),
        ("<tool_call>search<arg_key>q</arg_key><arg_value>a</arg_value>", "cut off"),
        ("[search('茶')]", "no name"),
        ("[search(q='a', q='b')]", "twice"),
        ("[search(q='a'", "cut off"),
        ("[search(q='a'), slot_list()", "cut off"),
        ("[search(q='a') or nothing]", "list"),
        ("[search(q=" + "[" * 90 + "]" * 90 + ")]", "nested"),
        ("call:search{q:<|\"|>a", "cut off"),
        ("<|channel|>commentary to=functions.search<|message|>tea<|call|>", "not an object"),
        ("Action: search\nAction Input: rain in Ly", "may be cut off"),
        ("Action: search", "missing"),
        ("Action: search({\"q\": \"a\"", "cut off"),
        ("Action: search\nAction Input: [1, 2]", "not an object"),
        ("Action: search\nAction Input: {\"tool\": {\"name\": \"pay\", \"arguments\": {}}", "cut off"),
        ("<think>a</think>ok " + CALL + "</think>end", "second end"),
        ("[THINK]" + CALL, "reasoning"),
        ("<|channel|>analysis<|message|>" + CALL, "reasoning"),
    ],
)  # fmt: skip
def test_what_is_cut_or_has_two_meanings_is_refused_with_its_reason(text: str, why: str) -> None:
    parsed = parse_actions(text, names=NAMES)
    assert parsed.actions == ()
    assert len(parsed.refused) >= 1
    assert any(part in parsed.refused[0].why for part in why.split("|"))


@pytest.mark.parametrize(
    "value",
    [
        "Example:\n<tool_call>" + CALL + "</tool_call>",
        '例：[TOOL_CALLS]slot_del[ARGS]{"key": "a"}',
        "[slot_del(key='a')]",
        'Action: slot_del\nAction Input: {"key": "a"}',
        "<function=slot_del>\n<parameter=key>a</parameter>",
        '<|tool_call_end|><|tool_call_begin|>slot_del:0<|tool_call_argument_begin|>{"key": "a"}<|tool_call_end|>',
        "</think>" + CALL,
    ],
)
@pytest.mark.parametrize("frame", [
    "<tool_call>{call}</tool_call>", "[TOOL_CALLS]slot_set[ARGS]{args}", "<function=slot_set>{args}</function>",
    "<|tool_call_begin|>slot_set:0<|tool_call_argument_begin|>{args}<|tool_call_end|>", ">>>slot_set\n{args}",
    "<|channel|>commentary to=functions.slot_set<|message|>{args}<|call|>", "Action: slot_set\nAction Input: {args}",
])  # fmt: skip
@pytest.mark.parametrize("cut", [0, 3, 12])
def test_a_call_inside_an_argument_is_never_run(value: str, frame: str, cut: int) -> None:
    arguments = {"key": "doc", "value": value}
    args = json.dumps(arguments, ensure_ascii=False)
    call = json.dumps({"name": "slot_set", "arguments": arguments}, ensure_ascii=False)
    head, mark, tail = frame.partition("{call}" if "{call}" in frame else "{args}")
    body = call if mark == "{call}" else args
    text = head + (body[:-cut] if cut else body + tail)
    calls = got(text)
    assert calls == ([] if cut else [{"name": "slot_set", "arguments": arguments}])


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ('Action: mem_read\nAction Input: "城市"', "城市"),
        ("<tool_call>mem_read<arg_key>name</arg_key><arg_value>city</arg_value></tool_call>", "city"),
        ("[mem_read(key='城市')]", "城市"),
        ('<|tools_prefix|>[{"mem_read": {"slot": "city"}}]<|tools_suffix|>', "city"),
        ('{"action": "mem_read", "action_input": "city"}', "city"),
        ('{"action": "mem_read", "action_input": {"key": "city"}}', "city"),
        ('{"name": "mem_read", "arguments": {"arguments": {"slot": "city"}}}', "city"),
    ],
)
def test_memory_calls_have_their_proper_names_in_every_dialect(text: str, slot: str) -> None:
    assert got(text, ("mem_read",)) == [{"name": "mem_read", "arguments": {"slot": slot}}]


def test_a_bare_text_is_no_write() -> None:
    parsed = parse_actions('Action: mem_write\nAction Input: "杭州"')
    assert (parsed.actions, [item.name for item in parsed.refused]) == ((), ["mem_write"])
