"""Streamed text: the same as the whole, however it is cut, with nothing waited for but a possible handle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.records import Json
from offprompt.wire.handle_stream import MAX_HELD_CHARS, HandleStream
from offprompt.wire.handles import JOINER, MAX_BODY_CHARS, Looked, at_pointer, escape_lookalikes, resolve_text

VALUES: dict[str, Json] = {
    "city": "Hangzhou",
    "城市": "杭州",
    "order": {"id": "W123", "items": [{"sku": "a/b"}]},
    "quote": 'say "hi"\n[[mem:city]]',
    "@ab12": "a long body [",
}


def lookup(name: str, pointer: str) -> Looked:
    if name == "secret":
        return Looked("not_allowed", "must not be used")
    return at_pointer(VALUES[name], pointer) if name in VALUES else Looked("not_issued")


def stream() -> HandleStream:
    return HandleStream(lookup, missing="（无记录）")


def stream_of(text: str) -> str:
    """What is sure of a text, given at once."""
    return HandleStream(lookup, missing="").feed(text)


def cut(text: str, places: list[int]) -> list[str]:
    """The text in pieces, some of them empty."""
    ends = sorted(min(place, len(text)) for place in places)
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


MARKS = [
    *"[]{}【】［］:：#/\\ *`mMeｍＥ\n城x",
    JOINER,
    JOINER * 2,
    "\u200f",
    "mem",
    "[[",
    "[[mem:",
    "]]",
    " " * 15,
    "  ",
]
HANDLES = [
    "[[mem:city]]",
    "[[\u200fmem:city\u2069]]",
    "【【mem：城市】】",
    "{{ MEM:order#/items/0/sku }}",
    "[[mem:secret]]",
    "[[mem:nobody]]",
]
ODD = ["[[mem:@ab12]]", "[[mem:**city**]]", "[[mem:quote]]", f"[{JOINER}[mem:city]]", "[[mem:a b]]", "[[mem:ci", "ty]]"]
PIECES = st.sampled_from([*MARKS, *HANDLES, *ODD])
TEXTS = st.lists(PIECES, max_size=14).map("".join)
CUTS = st.lists(st.integers(0, 60), max_size=8)


@given(TEXTS, CUTS)
def test_the_stream_equals_the_whole(text: str, places: list[int]) -> None:
    whole = resolve_text(text, lookup, missing="（无记录）")
    parts = stream()
    out = "".join([*map(parts.feed, cut(text, places)), parts.finish()])
    assert out == whole.text
    assert (parts.used, parts.bad) == (whole.used, whole.bad)


@given(TEXTS)
def test_character_by_character_too(text: str) -> None:
    whole = resolve_text(text, lookup, missing="")
    parts = HandleStream(lookup, missing="")
    out: list[str] = []
    for at, char in enumerate(text, 1):
        out.append(parts.feed(char))
        assert "".join(out) == stream_of(text[:at])
    assert "".join(out) + parts.finish() == whole.text
    assert (parts.used, parts.bad) == (whole.used, whole.bad)


@pytest.mark.parametrize(
    "text", ["Plain words.", "你好，世界。", "a [link](x) and {json: 1}", "x[0]", "[[wiki]]", "【注】"]
)
def test_what_is_no_handle_is_not_waited_for(text: str) -> None:
    parts = stream()
    assert "".join(map(parts.feed, text)) == text
    assert parts.finish() == ""


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("In [", "In "),
        ("In [[", "In "),
        ("In [[[", "In ["),
        ("In [[me", "In "),
        ("In [[mem:ci", "In "),
        ("In [[mem:city]", "In "),
        ("In [[mem:city]]", "In Hangzhou"),
        ("In [[mem:ci\n", "In [[mem:ci\n"),
        ("In [[mem:city [", "In [[mem:city "),
        ("In [[man", "In [[man"),
        ("In 【【 mem ：", "In "),
        (f"In [{JOINER}[mem", "In "),
        (f"In [{JOINER}[mem:", "In [[mem:"),
        (f"In [{JOINER * 9}", f"In [{JOINER * 8}"),
        (f"In [{JOINER * 9}x", f"In [{JOINER * 9}x"),
    ],
)
def test_only_what_may_begin_a_handle_is_waited_for(text: str, sure: str) -> None:
    whole = stream()
    assert whole.feed(text) == sure
    parts = stream()
    assert "".join(map(parts.feed, text)) == sure


def test_waiting_ends_with_the_longest_possible_handle() -> None:
    parts = stream()
    opened = "[[" + " " * 16 + "mem" + "*" * 16 + ":" + "x" * MAX_BODY_CHARS + "]"
    assert len(opened) == MAX_HELD_CHARS
    assert parts.feed(opened) == ""
    assert parts.feed("!") == opened + "!"
    assert parts.feed("[[" + " " * 17) == "[[" + " " * 17
    assert parts.feed("[[mem:" + "x" * (MAX_BODY_CHARS + 1)) == "[[mem:" + "x" * (MAX_BODY_CHARS + 1)


def test_a_handle_is_looked_up_when_it_is_complete_and_only_once() -> None:
    asked: list[str] = []

    def noted(name: str, pointer: str) -> Looked:
        asked.append(name)
        return lookup(name, pointer)

    parts = HandleStream(noted, missing="")
    for char in "In [[mem:city]":
        parts.feed(char)
    assert asked == []
    assert parts.feed("]") == "Hangzhou"
    assert (parts.feed(" and more"), parts.finish(), asked) == (" and more", "", ["city"])


def test_values_are_not_read_for_handles() -> None:
    parts = stream()
    assert parts.feed("[[mem:quote]]") + parts.feed("]]") + parts.finish() == VALUES["quote"] + "]]"  # type: ignore[operator]
    body = stream()
    assert "".join([body.feed("[[mem:@ab12]]"), body.feed("[mem:city]]"), body.finish()]) == "a long body [[mem:city]]"


def test_a_run_of_joiners_is_not_kept() -> None:
    parts = stream()
    out = "".join(parts.feed(f"[{JOINER}" if at == 0 else JOINER * 7) for at in range(2000))
    assert len(out) == 1 + 1999 * 7
    rest = parts.feed("[mem:city]] [[mem:city]]")
    text = f"[{JOINER}" + JOINER * 7 * 1999 + "[mem:city]] [[mem:city]]"
    assert out + rest == resolve_text(text, lookup, missing="").text
    assert [text[each.start : each.end] for each in parts.used] == ["[[mem:city]]"]


@given(st.text(), CUTS)
def test_escaped_words_of_others_come_back_as_they_were(text: str, places: list[int]) -> None:
    parts = stream()
    escaped = escape_lookalikes(text)
    assert "".join([*map(parts.feed, cut(escaped, places)), parts.finish()]) == text


def test_hostile_text_costs_no_more_than_its_length() -> None:
    """Looked at: characters that the search sees, which a handle's length bounds."""
    for unit in ("[", "[[mem:", "[[mem:x", f"[{JOINER}", "[[ ", "{{mem:" + "x" * 1300):
        parts = stream()
        text = unit * (60_000 // len(unit))
        out = [parts.feed(text[at : at + 40]) for at in range(0, len(text), 40)]
        assert len(text) - len("".join(out)) <= MAX_HELD_CHARS
        assert "".join(out) + parts.finish() == resolve_text(text, lookup, missing="").text
