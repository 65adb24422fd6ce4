"""Streamed arguments: the same as the whole, however they are cut; bad ones never come to their end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.wire.argument_stream import ArgumentStream
from offprompt.wire.handles import JOINER, resolve_arguments
from tests.wire.test_handle_stream import CUTS, cut, lookup

CHARS = [
    "a",
    "é",
    "城",
    " ",
    "\n",
    "\t",
    '"',
    "\\",
    "\u2028",
    "\x7f",
    "\ud83d",
    "😀",
    "/",
    "[",
    "[[",
    "mem",
    "\x1f",
    "*",
    "**",
    "`",
]
HANDLES = [
    "[[mem:city]]",
    "【【mem：城市】】",
    "[[mem:order]]",
    "{{mem:order#/items}}",
    f"[{JOINER}[mem:x",
    f"[{JOINER}",
]
STRINGS = st.lists(st.sampled_from([*CHARS, *HANDLES, "[[\nmem:city]]", "[[mem:a\\_b]]"]), max_size=5).map("".join)
BAD = st.sampled_from(["[[mem:nobody]]", "x [[mem:secret]]", "[[mem:a b]]", "[[mem:city]] [[mem:]]"])


def values(strings: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaves = st.one_of(strings, st.none(), st.booleans(), st.integers(-9, 9))
    return st.recursive(
        leaves, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(strings, inner, max_size=3))
    )


@st.composite
def written(draw: st.DrawFn, strings: st.SearchStrategy[str]) -> str:
    """Arguments as models write them: escaped or not, spaced or not."""
    value = draw(st.one_of(st.dictionaries(strings, values(strings), max_size=4), values(strings)))
    indent = draw(st.sampled_from([None, None, 2]))
    separators = draw(st.sampled_from([(",", ":"), (" , ", " : "), None]))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=indent, separators=separators)
    return text.replace("/", "\\/") if draw(st.booleans()) else text


def streamed(text: str, places: list[int]) -> tuple[str, ArgumentStream]:
    parts = ArgumentStream(lookup)
    return "".join([*map(parts.feed, cut(text, places)), parts.finish()]), parts


@given(written(STRINGS), CUTS)
def test_the_stream_equals_the_whole(text: str, places: list[int]) -> None:
    whole = resolve_arguments(text, lookup)
    out, parts = streamed(text, places)
    assert (parts.used, parts.bad) == (whole.used, whole.bad)
    if not whole.bad:
        assert out == whole.text
    by_char, chars = streamed(text, list(range(len(text))))
    assert (chars.used, chars.bad) == (whole.used, whole.bad)
    assert by_char == whole.text or whole.bad


@given(written(st.one_of(STRINGS, BAD)), CUTS)
def test_bad_ones_are_known_and_never_complete(text: str, places: list[int]) -> None:
    whole = resolve_arguments(text, lookup)
    out, parts = streamed(text, places)
    assert (parts.used, parts.bad) == (whole.used, whole.bad)
    if whole.bad:
        with pytest.raises(ValueError, match=r"."):
            json.loads(out)


@given(written(STRINGS), st.integers(0, 40), CUTS)
def test_arguments_that_end_early_are_bad_or_as_they_came(text: str, at: int, places: list[int]) -> None:
    text = text[:at]
    whole = resolve_arguments(text, lookup)
    out, parts = streamed(text, places)
    assert (parts.used, parts.bad) == (whole.used, whole.bad)
    if "[" not in text and "【" not in text and "{{" not in text and "\\u" not in text:
        assert out == whole.text == text


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ('{"city": "', '{"city": '),
        ('{"city": "  ', '{"city": '),
        ('{"city": "Ulm', '{"city": "Ulm'),
        ('{"city": "In [[me', '{"city": "In '),
        ('{"city": "In [[mem:city]] and', '{"city": "In '),
        ('{"city": "In [[mem:city]] and"', '{"city": "In Hangzhou and"'),
        ('{"city": "[[mem:order]]"', '{"city": {"id": "W123", "items": [{"sku": "a/b"}]}'),
        ('{"city": " [[mem:order#/items]] "', '{"city": [{"sku": "a/b"}]'),
        ('{"[[mem:city]]": "x', '{"[[mem:city]]": "x'),
        ('{"a": "b\\n', '{"a": "b\\n'),
        ('{"a": "\\n\\nx', '{"a": "\\n\\nx'),
        ('{"a": "\\n\\n', '{"a": '),
        ('{"a": "caf\\u00e9 x', '{"a": "caf'),
        ('{"a": "caf\\u00e9 x"', '{"a": "caf\\u00e9 x"'),
        ('{"a": "caf\\u00e9 [[mem:city]]"', '{"a": "café Hangzhou"'),
        ('{"a": "b\\', '{"a": "b'),
        ('["[[mem:city]]", "[[mem:city]]"]', '["Hangzhou", "Hangzhou"]'),
    ],
)
def test_what_is_given_out_when(text: str, sure: str) -> None:
    assert ArgumentStream(lookup).feed(text) == sure
    parts = ArgumentStream(lookup)
    assert "".join(map(parts.feed, text)) == sure


def test_a_bad_handle_is_known_before_its_string_ends() -> None:
    parts = ArgumentStream(lookup)
    assert parts.feed('{"a": "[[mem:city]]", "b": "to [[mem:nobody]]') == '{"a": "Hangzhou", "b": "to '
    assert parts.bad == ()
    assert parts.feed('"') == ""
    assert [each.name for each in parts.bad] == ["nobody"]
    assert parts.feed(', "c": 1}') + parts.finish() == ""


def test_broken_arguments_with_a_handle_are_bad_and_others_come_as_they_are() -> None:
    out, parts = streamed('{"a": "[[mem:city]]", oops', [3])
    assert ([each.why for each in parts.bad], parts.used) == (["malformed"], ())
    assert out.startswith('{"a": ')
    for text in (
        "",
        "not json",
        '{"a": "x',
        '{"a": "\\q',
        '{"a": "\\u12',
        '{"a',
        '{"a": "b" "c"}',
        '{"a": "raw\nline"}',
    ):
        out, parts = streamed(text, [4, 9])
        assert (out, parts.bad) == (text, ())


def test_long_values_flow_and_are_not_copied_again_and_again() -> None:
    parts = ArgumentStream(lookup)
    first = parts.feed('{"text": "')
    out = [parts.feed("word ") for _ in range(20_000)]
    assert all(out)
    assert first + "".join(out) + parts.feed('"}') == json.dumps({"text": "word " * 20_000})
