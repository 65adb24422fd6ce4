"""Of every dialect: what is rendered is parsed back, what is cut runs nothing, no text raises, time is linear."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offprompt.records import as_dict, as_list
from offprompt.wire.actions import parse_actions

Arguments = dict[str, Any]
Render = Callable[[str, Arguments], str]
D = "｜DSML｜"


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def named(value: str, name: str, arguments: Arguments) -> str:
    return value.replace("NAME", name).replace("JSON", dumps(arguments))


def json_call(name: str, arguments: Arguments, key: str = "arguments") -> str:
    return dumps({"name": name, key: arguments})


def python(name: str, arguments: Arguments) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def gemma(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    items, members = as_list(value), as_dict(value)
    if items is not None:
        return "[" + ",".join(gemma(item) for item in items) + "]"
    if members is not None:
        return "{" + ",".join(f"{key}:{gemma(item)}" for key, item in members.items()) + "}"
    return json.dumps(value)


def elements(before: str, opening: str, closing: str, after: str) -> Render:
    def render(name: str, arguments: Arguments) -> str:
        parts = [opening.replace("KEY", key).replace("VALUE", str(value)) for key, value in arguments.items()]
        return before.replace("NAME", name) + "".join(part + closing for part in parts) + after

    return render


def dsml(name: str, arguments: Arguments) -> str:
    parts = [
        f'<{D}parameter name="{key}" string="{"true" if isinstance(value, str) else "false"}">'
        f"{value if isinstance(value, str) else dumps(value)}</{D}parameter>\n"
        for key, value in arguments.items()
    ]
    call = f'<{D}invoke name="{name}">\n{"".join(parts)}</{D}invoke>'
    return f"<{D}function_calls>\n{call}\n</{D}function_calls>"


def around(value: str) -> Render:
    return lambda name, arguments: named(value, name, arguments)


JSON_DIALECTS: dict[str, Render] = {
    "mistral": around("[TOOL_CALLS]NAME[ARGS]JSON"),
    "mistral array": lambda name, arguments: f"[TOOL_CALLS] [{json_call(name, arguments)}]",
    "llama json": lambda name, arguments: "<|python_tag|>" + json_call(name, arguments, "parameters"),
    "llama function": around("<function=NAME>JSON</function>"),
    "functionary": around(">>>NAME\nJSON"),
    "deepseek v3": around("<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nJSON\n```<｜tool▁call▁end｜>"),
    "deepseek v3.1": around("<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>JSON<｜tool▁call▁end｜>"),
    "kimi": around("<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>JSON<|tool_call_end|>"),
    "harmony": around("<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>JSON<|call|>"),
    "harmony stripped": around("commentary to=functions.NAME jsonJSON"),
    "react": around("Thought: t\nAction: NAME\nAction Input: JSON"),
    "react brackets": around("行动：NAME(JSON)"),
    "cohere": lambda name, arguments: (
        f"<|START_ACTION|>[{dumps({'tool_name': name, 'parameters': arguments})}]<|END_ACTION|>"
    ),
    "apertus": lambda name, arguments: f"<|tools_prefix|>[{dumps({name: arguments})}]<|tools_suffix|>",
    "granite": lambda name, arguments: f"<|tool_call|>[{dumps({'name': name, 'arguments': dumps(arguments)})}]",
    "minimax m1": lambda name, arguments: f"<tool_calls>\n{json_call(name, arguments)}\n</tool_calls>",
    "nemotron": lambda name, arguments: f"<TOOLCALL>[{json_call(name, arguments)}]</TOOLCALL>",
    "internlm": lambda name, arguments: (
        f"<|action_start|><|plugin|>\n{json_call(name, arguments, 'parameters')}<|action_end|>"
    ),
}
TYPED_DIALECTS: dict[str, Render] = {
    "pythonic": lambda name, arguments: f"[{python(name, arguments)}]",
    "pythonic block": lambda name, arguments: f"<function_calls>\n{python(name, arguments)}\n</function_calls>",
    "gemma": lambda name, arguments: f"<|tool_call>call:{name}{gemma(arguments)}<tool_call|>",
    "dsml": dsml,
}
TEXT_DIALECTS: dict[str, Render] = {
    "qwen3 coder": elements(
        "<tool_call>\n<function=NAME>\n", "<parameter=KEY>\nVALUE\n", "</parameter>\n", "</function>\n</tool_call>"
    ),
    "seed": elements(
        "<seed:tool_call><function=NAME>", "<parameter=KEY>\nVALUE\n", "</parameter>", "</function></seed:tool_call>"
    ),
    "glm": elements(
        "<tool_call>NAME\n", "<arg_key>KEY</arg_key>\n<arg_value>\nVALUE\n", "</arg_value>\n", "</tool_call>"
    ),
    "minimax m2": elements(
        '<minimax:tool_call>\n<invoke name="NAME">\n',
        '<parameter name="KEY">\nVALUE\n',
        "</parameter>\n",
        "</invoke>\n</minimax:tool_call>",
    ),
}
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
KEY = st.from_regex(r"[a-z][a-z_]{0,7}", fullmatch=True).filter(
    lambda key: key not in ("arguments", "parameters", "args", "input", "action_input", "function", "true", "false",
                            "tool_call", "tool_calls", "function_call", "null", "none", "nan", "inf", "infinity")
)  # fmt: skip
ARGUMENTS = st.dictionaries(KEY, JSON, min_size=1, max_size=4).filter(
    lambda value: not (value.get("type") == "object" and isinstance(value.get("properties"), dict))
)
PLAIN = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="<>\r\"'\\")).filter(
    lambda text: text.strip()[:1] not in ("{", "[")
)
SAFE = st.recursive(
    st.none() | st.booleans() | st.integers() | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=8,
)


def parsed_back(text: str, arguments: Arguments) -> None:
    parsed = parse_actions(text, names=["search"])
    assert [(action.name, dict(action.arguments)) for action in parsed.actions] == [("search", arguments)]
    assert parsed.refused == ()
    assert "search" not in parsed.text.replace(dumps(arguments), "")


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
@settings(max_examples=40)
@given(ARGUMENTS)
def test_any_json_is_parsed_back(dialect: str, arguments: Arguments) -> None:
    parsed_back(JSON_DIALECTS[dialect]("search", arguments), arguments)


@pytest.mark.parametrize("dialect", TYPED_DIALECTS)
@settings(max_examples=40)
@given(st.dictionaries(KEY, SAFE, min_size=1, max_size=4))
def test_typed_values_are_parsed_back(dialect: str, arguments: Arguments) -> None:
    parsed_back(TYPED_DIALECTS[dialect]("search", arguments), arguments)


@given(ARGUMENTS)
def test_any_value_is_parsed_back_from_python(arguments: Arguments) -> None:
    parsed_back(f"[{python('search', arguments)}]", arguments)


@pytest.mark.parametrize("dialect", TEXT_DIALECTS)
@given(st.dictionaries(KEY, PLAIN, min_size=1, max_size=4))
def test_texts_are_parsed_back(dialect: str, arguments: Arguments) -> None:
    parsed_back(TEXT_DIALECTS[dialect]("search", arguments), arguments)


@pytest.mark.parametrize("dialect", TEXT_DIALECTS)
@settings(max_examples=25)
@given(st.dictionaries(KEY, st.lists(SAFE, min_size=1) | st.dictionaries(KEY, SAFE), min_size=1, max_size=3))
def test_lists_and_objects_are_parsed_back_as_json_and_as_python(dialect: str, arguments: Arguments) -> None:
    parsed_back(TEXT_DIALECTS[dialect]("search", {key: dumps(value) for key, value in arguments.items()}), arguments)
    parsed_back(TEXT_DIALECTS[dialect]("search", arguments), arguments)


ALL = {**JSON_DIALECTS, **TYPED_DIALECTS, **TEXT_DIALECTS}


@pytest.mark.parametrize("dialect", ALL)
@settings(max_examples=40)
@given(st.dictionaries(KEY, PLAIN, min_size=1, max_size=3), st.data())
def test_a_call_cut_anywhere_runs_as_it_was_or_not_at_all(
    dialect: str, arguments: Arguments, data: st.DataObject
) -> None:
    whole = ALL[dialect]("search", arguments)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    actions = parse_actions(cut, names=["search"]).actions
    assert [dict(action.arguments) for action in actions] in ([], [arguments])


SAMPLES = [render("search", {"q": "茶", "n": [1]}) for render in ALL.values()]
MARKS = [part for sample in SAMPLES for part in sample.split("茶")]
NOISE = st.lists(
    st.sampled_from([*MARKS, "search", "茶", "\n", *"{}[]()\"'\\:,=<>|"]) | st.text(max_size=3), max_size=16
).map("".join)


@given(NOISE)
def test_no_text_raises_and_what_calls_nothing_stays(text: str) -> None:
    parsed = parse_actions(text, names=["search"])
    for where in [item.where for item in (*parsed.actions, *parsed.refused)]:
        start, end = where.removeprefix("text[").removesuffix("]").split(":")
        assert 0 <= int(start) < int(end) <= len(text)
    if not parsed.actions and not parsed.refused:
        assert parsed.text == text


def steps(text: str) -> int:
    """How many calls of functions, Python's and C's, the parser makes."""
    count = 0

    def tick(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tick)
    try:
        parse_actions(text, names=["search"])
    finally:
        sys.setprofile(None)
    return count


HOSTILE = [
    "[search(",
    "[search(q='",
    "[search(q=[",
    "[search(q='a'), ",
    "[a(b='x'), search(q='",
    "<function=search>",
    "<function=search><parameter=q>",
    '<invoke name="search">',
    '<invoke name="search"><parameter name="q">',
    "<tool_call>search<arg_key>",
    "<tool_call>search<arg_key>q</arg_key><arg_value>",
    "<|tool_call_begin|>search<|tool_sep|>",
    '<|tool_call_begin|>search<|tool_sep|>{"a',
    '<|tool_call_begin|>search<|tool_sep|>{"a<|tool_call_end|>',
    "[TOOL_CALLS]search[ARGS]",
    '[TOOL_CALLS]search{"a',
    ">>>search\n",
    '>>>search\n{"',
    "call:search{",
    'call:search{q:<|"|>',
    "commentary to=functions.search json{",
    "<|channel|>commentary to=functions.search<|message|>",
    "<|start|>assistant",
    "Action: search\n",
    "Action: search\nAction Input: ",
    'Action: search\nAction Input: {"',
    "Action: search(",
    "\nObservation:",
    "<|channel|>analysis",
    "```json\n",
    "```tool_code\nsearch(",
    "> ",
    '> {"a":1}',
    "<python_tag|>search(",
    "\n",
    " ",
    "[",
    "`",
    '{"name":"search","arguments":{}}',
    '```json\n{"name":"search","arguments":{}}\n```\n',
    "[search(q='a')]",
    "“",
    "analysis",
    '<tool_calls>{"name":"search"}\n',
    "[pay(a='b' c'), ",
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", HOSTILE)
def test_work_grows_with_the_text_not_with_its_square(piece: str) -> None:
    small, large = steps("search " + piece * 200), steps("search " + piece * 1600)
    assert large <= 12 * small + 1000


@pytest.mark.timeout(120)
def test_no_scan_behind_the_counts_is_quadratic() -> None:
    for piece in HOSTILE:
        parse_actions("search " + piece * (50_000 // len(piece)), names=["search"])
