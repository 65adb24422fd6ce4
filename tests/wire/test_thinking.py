"""Thinking at the beginning of an answer is taken off it, whole or in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.wire.thinking import MARKS, ThoughtFilter, without_thinking

CASES = {
    "Hello": "Hello",
    "": "",
    "  hi": "  hi",
    "<": "<",
    "<th": "<th",
    "<think>a</think>Hello": "Hello",
    "  <THINK>a</think>\n\nHello <think>x</think>": "Hello <think>x</think>",
    "[THINK]q[/THINK] <think>z</think>\n好的": "好的",
    "◁think▷想◁/think▷是": "是",
    "<think>no end": "",
}


def in_pieces(text: str, sizes: list[int]) -> str:
    known, out, at = ThoughtFilter(), "", 0
    for size in sizes:
        out += known.feed(text[at : at + size])
        at += size
    return out + known.feed(text[at:]) + known.finish()


@pytest.mark.parametrize("text", CASES, ids=range(len(CASES)))
def test_an_answer_is_told_without_its_thought(text: str) -> None:
    assert without_thinking(text) == CASES[text]
    assert in_pieces(text, [1] * len(text)) == CASES[text]


def test_a_thought_that_the_prompt_opened_ends_where_it_ends() -> None:
    assert without_thinking("so it is</think>\n\nYes.") == "Yes."


@given(
    st.lists(st.sampled_from([*(mark for pair in MARKS for mark in pair), "a", " ", "\n", "好"])),
    st.lists(st.integers(0, 5)),
)
def test_pieces_of_any_length_make_no_difference(words: list[str], sizes: list[int]) -> None:
    text = "".join(words)
    assert in_pieces(text, sizes) == in_pieces(text, [len(text)])
