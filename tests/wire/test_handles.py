"""Handles: written, found where models damaged them, resolved in text and arguments, escaped in foreign words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.errors import HandleError, NameInvalidError
from offprompt.records import Json, fold_name
from offprompt.wire.handles import (
    JOINER,
    Looked,
    at_pointer,
    escape_lookalikes,
    find_handles,
    format_handle,
    resolve_arguments,
    resolve_text,
    restore_lookalikes,
)

VALUES: dict[str, Json] = {
    "city": "Hangzhou",
    "城市": "杭州",
    "count": 3,
    "order": {"id": "W123", "items": [{"sku": "a/b"}, {"sku": "c~d"}], "": "empty", "paid": None},
    "quote": 'say "hi"\n[[mem:city]]',
    "@ab12": "a long body",
}


def lookup(name: str, pointer: str) -> Looked:
    if name == "secret":
        return Looked("not_allowed", "must not be used")
    if name not in VALUES:
        return Looked("not_issued")
    return at_pointer(VALUES[name], pointer)


def resolved(text: str) -> str:
    return resolve_text(text, lookup, missing="(not found)").text


NAMES = st.text(st.sampled_from("aZ_9-.城éß한ж"), min_size=1, max_size=64).filter(
    lambda name: name[0] != "." and not name.casefold().startswith("m_")
)
POINTERS = st.lists(st.text(max_size=6), max_size=3).map(
    lambda steps: "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
)
LOOKALIKES = st.lists(
    st.sampled_from(
        [*"[]{}【】［］:：#/\\ *`", JOINER, "mem", "ＭEm", "x", "城", "\n", "[[mem:x]]", f"[{JOINER}[mem:x]]"]
    ),
    max_size=24,
).map("".join)


@given(NAMES, POINTERS, st.text(st.sampled_from("a,。 \n("), max_size=5))
def test_what_is_written_is_found(name: str, pointer: str, around: str) -> None:
    handle = format_handle(name, pointer)
    (found,) = find_handles(around + handle + around)
    assert (found.name, found.pointer) == (fold_name(name), pointer)
    assert (found.start, found.end) == (len(around), len(around) + len(handle))


def test_the_plain_forms_are_the_documented_ones() -> None:
    assert format_handle("城市") == "[[mem:城市]]"
    assert format_handle("order", "/items/0/商品") == "[[mem:order#/items/0/商品]]"
    assert format_handle("@ab12") == "[[mem:@ab12]]"


def test_a_handle_of_nothing_is_not_written() -> None:
    with pytest.raises(HandleError, match="write '/a'"):
        format_handle("order", "a")
    with pytest.raises(NameInvalidError):
        format_handle("a b")
    with pytest.raises(NameInvalidError):
        format_handle("@a b")


@pytest.mark.parametrize(
    "damaged",
    [
        *(
            "[[MEM:City]]",
            "[[ mem : city ]]",
            "[[mem:\u00a0city]]",
            "［［mem：city］］",
            "【【mem：city】】",
            "[[ｍｅｍ:ｃｉｔｙ]]",
        ),
        *(
            "{{mem:city}}",
            "{{ mem:city }}",
            "｛｛mem：city｝｝",
            "[[mem:**city**]]",
            "[[**mem:city**]]",
            "[[mem:`city`]]",
        ),
        *('[[mem:"city"]]', "[[mem:“city”]]", "[［mem:city］]", "[[mem:city}}", "[[mem:ci\u200bty]]", "[[\nmem:city]]"),
        # What right-to-left text brings along: marks of direction, isolates, embeddings.
        *("[[mem:city\u200f]]", "[[\u200emem:city]]", "[[mem\u061c:\u061ccity]]", "[[mem:\u2067city\u2069]]"),
        *("[[\u202bmem:city\u202c]]", "[[\u200bmem:\ufeffcity]]", "[[mem:\u2060city]]", "[[\u2066mem\u2069:city]]"),
    ],
)
def test_damage_with_a_clear_meaning_is_understood(damaged: str) -> None:
    assert resolved(f"In {damaged}.") == "In Hangzhou."


@pytest.mark.parametrize(
    ("damaged", "name", "pointer"),
    [
        ("[[mem:reply\\_style]]", "reply_style", ""),
        ("[[mem:reply＿style]]", "reply_style", ""),
        ("[[mem:a‑b–c]]", "a-b-c", ""),
        ("[[mem:order#\\/items\\/0]]", "order", "/items/0"),
        ("[[mem:order＃／items/0]]", "order", "/items/0"),
        ("[[mem:order#items/0]]", "order", "/items/0"),
        ("[[mem:order#/50%]]", "order", "/50%"),
        ("[[mem:order#/items\u200f]]", "order", "/items"),
        ("[[mem:order#/%FF]]", "order", "/%FF"),
        ("[[mem:order # /a ]]", "order", "/a"),
        ("【【mem：回复风格】】", "回复风格", ""),
        ("[[mem:＠AB12]]", "@ab12", ""),
    ],
)
def test_names_and_pointers_are_put_right(damaged: str, name: str, pointer: str) -> None:
    assert [(found.name, found.pointer) for found in find_handles(damaged)] == [(name, pointer)]


@pytest.mark.parametrize(
    "text",
    [
        "[mem:city]",
        "[[city]]",
        "[[mem city]]",
        "[[mem:]]",
        "[[mem:…]]",
        "[[mem:a b]]",
        "[[mem:m_1]]",
        "[[mem:a\nb]]",
        "[[mem:city",
    ],
)
def test_what_is_no_handle_is_left_alone(text: str) -> None:
    assert find_handles(text) == []
    assert resolved(text) == text


def test_text_gets_values_once_and_says_what_is_missing() -> None:
    result = resolve_text(
        "去[[mem:城市]]，[[mem:order#/items/1/sku]]，[[mem:quote]]，[[mem:gone]]，[[mem:secret]]，[[mem:order#/no]]",
        lookup,
        missing="（无记录）",
    )
    assert result.text == '去杭州，c~d，say "hi"\n[[mem:city]]，（无记录），（无记录），（无记录）'
    assert [found.name for found in result.used] == ["城市", "order", "quote"]
    assert [(bad.text, bad.why) for bad in result.bad] == [
        ("[[mem:gone]]", "not_issued"),
        ("[[mem:secret]]", "not_allowed"),
        ("[[mem:order#/no]]", "not_found"),
    ]


def test_arguments_get_typed_values() -> None:
    raw = json.dumps(
        {
            "n": "[[mem:count]]",
            "all": " [[mem:order]] ",
            "none": "[[mem:order#/paid]]",
            "text": "in [[mem:city]]: [[mem:count]]",
            "deep": [{"q": "{{mem:quote}}"}],
            "[[mem:city]]": "key stays",
        }
    )
    result = resolve_arguments(raw, lookup)
    assert result.bad == ()
    assert json.loads(result.text) == {
        "n": 3,
        "all": VALUES["order"],
        "none": None,
        "text": "in Hangzhou: 3",
        "deep": [{"q": VALUES["quote"]}],
        "[[mem:city]]": "key stays",
    }
    assert len(result.used) == 6


@pytest.mark.parametrize("around", ["**", "*", "`", "***", " ** "])
def test_emphasis_around_a_whole_argument_is_damage(around: str) -> None:
    raw = json.dumps({"n": f"{around}[[mem:count]]{around}", "text": f"in {around}[[mem:city]]{around}"})
    result = resolve_arguments(raw, lookup)
    assert json.loads(result.text) == {"n": 3, "text": f"in {around}Hangzhou{around}"}


def test_what_is_no_emphasis_around_an_argument_stays() -> None:
    raw = json.dumps(["* [[mem:city]]", "**[[mem:city]]*", '"[[mem:city]]"'])
    assert json.loads(resolve_arguments(raw, lookup).text) == ["* Hangzhou", "**Hangzhou*", '"Hangzhou"']


@pytest.mark.parametrize(
    "raw",
    ['{ "a" :1.50, "b":"\\u57ce\\/", "a":1e2 }', "[]", '"x"', "", "not json", '{"a": "cut', "[" * 5000 + "]" * 5000],
)
def test_arguments_without_handles_keep_their_bytes(raw: str) -> None:
    result = resolve_arguments(raw, lookup)
    assert (result.text, result.used, result.bad) == (raw, (), ())


def test_arguments_with_a_handle_keep_all_other_bytes() -> None:
    raw = '{ "x" :1.50, "城":"\\u57ce", "to":"[[mem:city]]" , "x":1e2}'
    assert resolve_arguments(raw, lookup).text == raw.replace("[[mem:city]]", "Hangzhou")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ('{"to":"[[mem:city]]","cc":"[[mem:gone]]"}', "not_issued"),
        ('{"to":"see [[mem:secret]]"}', "not_allowed"),
        ('{"to":"[[mem:order#/items/7]]"}', "not_found"),
        ('{"to":"[[mem:my city]]"}', "malformed"),
        ('{"to":"[[mem:city]]', "malformed"),
    ],
)
def test_a_bad_handle_leaves_the_arguments_as_they_are(raw: str, why: str) -> None:
    result = resolve_arguments(raw, lookup)
    assert result.text == raw
    assert [bad.why for bad in result.bad] == [why]


def test_escaped_lookalikes_come_back_in_text_and_arguments() -> None:
    words = "write [[mem:city]] or {{ mem : x }} or 【【mem：城市】】"
    escaped = escape_lookalikes(words)
    assert resolved(f"{escaped} [[mem:city]]") == f"{words} Hangzhou"
    assert json.loads(resolve_arguments(json.dumps({"a": escaped}), lookup).text) == {"a": words}
    assert resolve_arguments(json.dumps({"a": escaped}), lookup).used == ()


@given(st.text() | LOOKALIKES)
def test_escaping_can_be_undone_and_leaves_no_handle(text: str) -> None:
    escaped = escape_lookalikes(text)
    assert restore_lookalikes(escaped) == text
    assert restore_lookalikes(restore_lookalikes(escape_lookalikes(escaped))) == text
    assert find_handles(escaped) == []
    assert resolved(escaped) == text


@given(st.text() | LOOKALIKES)
def test_no_text_raises(text: str) -> None:
    resolve_text(text, lookup, missing="")
    resolve_arguments(text, lookup)
    resolve_arguments(json.dumps({text: text}), lookup)


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", VALUES["order"]),
        ("/id", "W123"),
        ("/items/0/sku", "a/b"),
        ("/", "empty"),
        ("/paid", None),
    ],
)
def test_pointers_find_parts(pointer: str, value: Any) -> None:
    assert at_pointer(VALUES["order"], pointer) == Looked("ok", value)


@pytest.mark.parametrize(
    "pointer", ["id", "/items/2", "/items/-", "/items/00", "/items/-1", "/id/0", "/x", "/items/１"]
)
def test_pointers_to_nothing_find_nothing(pointer: str) -> None:
    assert at_pointer(VALUES["order"], pointer) == Looked("not_found")


def test_pointers_unescape_keys_and_do_not_look_into_text() -> None:
    assert at_pointer({"a/b": {"m~n": 1}}, "/a~1b/m~0n") == Looked("ok", 1)
    assert at_pointer({"~1": 2}, "/~01") == Looked("ok", 2)
    assert at_pointer("text", "/0") == Looked("not_found")
    assert at_pointer("text", "") == Looked("ok", "text")
