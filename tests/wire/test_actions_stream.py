"""A reply in pieces: the text that comes out and the calls at the end are those of the whole."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.records import Parsed
from offprompt.wire.action_stream import ActionStream
from offprompt.wire.actions import parse_actions

NAMES = ("slot_set", "slot_get", "slot_del", "slot_list", "search")
DATA = Path(__file__).parents[1] / "data/actions"
RAWS: list[str] = [
    json.loads(line)["raw"]
    for name in ("cases", "siblings")
    for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
]
CALL = '{"name":"search","arguments":{"q":"茶"}}'
TOKENS = (
    "<tool_call> </tool_call> <think> </think> ` `` ``` ```json⏎ ```python⏎ ```tool_code⏎ ~~~ { } [ ] ( ) ⏎ ⏎⏎ 茶 "
    "hello search(q='a') [search(q='茶')] call: call:search{q:1} Action:␠search⏎ Action␠Input:␠{} 行动： commentary␠ "
    "json to=functions.search␠ assistant commentary␠to=functions.search␠json{} analysis final >>>search⏎ search⏎{ "
    "[ARGS] [TOOL_CALLS] <function=search> </function> <parameter=q> < >␠ ⏎>␠ User:␠ functools[ “ ” ◁think▷ ◁/think▷ ␠ "
    "⏎Observation:␠x [link](u) e.g.␠ </invoke> <|channel|> <|message|> <|call|> <|start|>assistant <|python_tag|> "
    "<|tool_call_begin|>"
)
PIECES = st.sampled_from(
    [
        *(token.replace("⏎", "\n").replace("␠", " ") for token in TOKENS.split(" ")),
        *(CALL, '{"a": 1}', '{"a": ', '"name": "search"', '<invoke name="search">', '"'),
    ]
)
AROUND = st.sampled_from(["", "你好 ", "`x` ok\n", "  ", " done"])
TEXTS = st.lists(PIECES, max_size=14).map("".join) | st.tuples(AROUND, st.sampled_from(RAWS), AROUND).map("".join)


def streamed(text: str, cuts: list[int]) -> tuple[str, str, Parsed]:
    stream = ActionStream(names=NAMES)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    given_out = "".join(stream.feed(text[start:end]) for start, end in pairwise(edges))
    rest, parsed = stream.end()
    return given_out, rest, parsed


@pytest.mark.parametrize("raw", RAWS)
def test_every_case_streams_to_the_same(raw: str) -> None:
    whole = parse_actions(raw, names=NAMES)
    rng = random.Random(raw)  # noqa: S311
    for cuts in ([], list(range(len(raw))), *([rng.randint(0, len(raw)) for _ in range(4)] for _ in range(4))):
        first, rest, parsed = streamed(raw, cuts)
        assert (first + rest, parsed) == (whole.text, whole)


@given(TEXTS, st.lists(st.integers(0, 300), max_size=12))
def test_any_text_streams_to_the_same(text: str, cuts: list[int]) -> None:
    whole = parse_actions(text, names=NAMES)
    first, rest, parsed = streamed(text, cuts)
    assert (first + rest, parsed) == (whole.text, whole)


@given(TEXTS)
def test_any_text_streams_to_the_same_character_by_character(text: str) -> None:
    first, rest, parsed = streamed(text, list(range(len(text))))
    assert first + rest == parsed.text


@pytest.mark.parametrize(
    "text",
    [
        "Your city is Hangzhou. Anything else?",
        "您住在杭州。还需要什么吗？",
        "Use `x = 1` or ``y`` here, then 3 < 4 and a > b; see [1] and [the docs](https://a.b).",
        "Steps:\n\n1. one\n2. two\n\n> a quotation\n\nAction: buy milk.\nAction movies are fun.\n",
        'As JSON it is {"a": [1, 2], "b": "茶"} and {x} stays.',
        "```python\nf({'a': 1})\n```\nand\n```json\n{\"a\": 1}\n```\nso.",
        "<think>用户问茶，先想想</think>绿茶很好。",
        "He said “yes” and 她说“好”。~ about 5 ~ or ~~gone~~ text",
    ],
)
def test_text_without_a_call_does_not_wait_for_the_end(text: str) -> None:
    stream = ActionStream(names=NAMES)
    out = "".join(stream.feed(char) for char in text + " word")
    assert len(out) >= len(text)
    assert stream.end()[1].text == text + " word"


def test_only_what_may_begin_a_call_waits() -> None:
    stream = ActionStream(names=NAMES)
    assert stream.feed("记下了。<tool") == "记下了。"
    assert stream.feed("box> is no tag, 好") == "<toolbox> is no tag, 好"
    assert stream.feed("\n<tool_call>\n{") == "\n"
    assert stream.feed('"name":"search","arguments":{"q":"茶"}}\n</tool_call>\n再见') == ""
    rest, parsed = stream.end()
    assert rest == "\n再见"
    assert [dict(action.arguments) for action in parsed.actions] == [{"q": "茶"}]


def test_a_word_that_only_begins_like_a_thought_is_not_taken_for_one() -> None:
    text = "<|channel|>analysishello call:search{q:1}"
    first, rest, parsed = streamed(text, list(range(len(text))))
    assert (first + rest, len(parsed.actions)) == ("<|channel|>analysishello ", 1)


def test_a_list_bracket_and_a_fence_wait_with_the_call_behind_them() -> None:
    for opening in ("[", "```json\n", "```json\n[\n", "`"):
        stream = ActionStream(names=NAMES)
        assert "".join(stream.feed(char) for char in "I will: " + opening + "{") == "I will: "


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [*["a", "<", "{", '{"', "`", "[", "[a(", "<think>", "茶", ">", "A", "call:", '{"a":1}', "Action:"], "\n", " "],
)
def test_the_text_looked_at_grows_with_the_text_not_with_its_square(piece: str) -> None:
    def held(count: int) -> int:
        stream = ActionStream(names=NAMES)
        looked = 0
        for _ in range(count):
            stream.feed(piece)
            looked += stream.looked_at
        return looked

    small, large = held(400), held(1600)
    assert large <= 8 * max(small, 4000)
