"""Scrubbing: values become handles, and resolving gives the text back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.records import Json, compact
from offprompt.wire.handles import Looked, at_pointer, find_handles, resolve_arguments, resolve_text
from offprompt.wire.scrub import scrub_arguments, scrub_text
from offprompt.wire.scrub_forms import too_short


def back(text: str, values: Mapping[str, Json]) -> str:
    return resolve_text(text, lambda name, pointer: at_pointer(values[name], pointer), missing="?").text


def test_values_become_their_handles() -> None:
    values = {"token": "sk-live-0123456789", "地址": "杭州市西湖区文三路一号"}
    text = "Bearer sk-live-0123456789; 送到杭州市西湖区文三路一号。"
    assert scrub_text(text, values) == ("Bearer [[mem:token]]; 送到[[mem:地址]]。", ("token", "地址"))


def test_the_longest_goes_first_wherever_it_stands() -> None:
    values = {"part": "xxabc", "whole": "abcdefgh"}
    assert scrub_text("xxabcdefgh xxabc", values) == ("xx[[mem:whole]] [[mem:part]]", ("whole", "part"))


def test_json_escaped_values_are_found_and_come_back_escaped() -> None:
    values = {"note": 'line "one"\n第二行'}
    for ascii_only in (True, False):
        raw = json.dumps({"out": f"<{values['note']}>"}, ensure_ascii=ascii_only)
        scrubbed, names = scrub_text(raw, values)
        assert (json.loads(scrubbed), names) == ({"out": "<[[mem:note]]>"}, ("note",))
        restored = resolve_arguments(scrubbed, lambda name, _: Looked("ok", values[name])).text
        assert json.loads(restored) == json.loads(raw)


def test_json_values_are_found_in_their_usual_texts() -> None:
    value: Json = {"b": [1, 2], "a": "城"}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), '{"a":"城","b":[1,2]}'):
        assert scrub_text(f"got {text}.", {"@ab": value}) == ("got [[mem:@ab]].", ("@ab",))


def test_what_looks_like_a_handle_beside_a_value_stays_what_it_is() -> None:
    values = {"a": "0123"}
    for text in ("[[mem:a]] 0123", "0123 [[mem:a]]", "[[mem:0123]]"):
        scrubbed, names = scrub_text(text, values)
        assert names == ("a",)
        assert len(find_handles(scrubbed)) == 1
        assert back(scrubbed, values) == text


def test_nothing_to_find_and_empty_values_change_nothing() -> None:
    assert scrub_text("plain", {"a": "", "b": "other"}) == ("plain", ())
    assert scrub_text("", {"b": "other"}) == ("", ())


LOGIN: Json = {"user": "bob", "password": "Zx9-hunter2", "地址": {"街": "文三路一号"}, "pins": [4711, 123456]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(LOGIN, indent=2),
        json.dumps(LOGIN, indent="\t", ensure_ascii=False),
        json.dumps(LOGIN, sort_keys=True, separators=(" , ", " :")),
        json.dumps(dict(reversed(list(LOGIN.items())))),
        json.dumps(json.dumps(LOGIN))[1:-1],
    ],
)
def test_a_json_value_is_found_in_any_spelling(text: str) -> None:
    assert scrub_text(f"it is {text}!", {"login": LOGIN}) == ("it is [[mem:login]]!", ("login",))


@pytest.mark.parametrize(
    "text",
    ["{", '{"user":"bob"}', '{"user":"bob",', '{"user":"bob" "password"', '{"user":"bob","user":"bob"}', '["bob"]'],
)
def test_another_json_value_is_not_taken_for_it(text: str) -> None:
    assert scrub_text(text, {"login": LOGIN}) == (text, ())


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("the key Zx9-hunter2 works", "the key [[mem:login#/password]] works"),
        ('{"password": "Zx9-hunter2", "id": 31}', '{"password": "[[mem:login#/password]]", "id": 31}'),
        ("住在文三路一号", "住在[[mem:login#/地址/街]]"),
        (json.dumps({"a": "文三路一号"}), '{"a": "[[mem:login#/地址/街]]"}'),
        (json.dumps(json.dumps({"a": "文三路一号"})), r'"{\"a\": \"[[mem:login#/地址/街]]\"}"'),
        ("pin 123456.", "pin [[mem:login#/pins/1]]."),
        ("bob has 4711 and 1234567 and 123456.5", "bob has 4711 and 1234567 and 123456.5"),
    ],
)
def test_parts_of_a_json_value_are_found_wherever_they_stand(text: str, scrubbed: str) -> None:
    assert scrub_text(text, {"login": LOGIN})[0] == scrubbed
    assert "\\u" in text or back(scrubbed, {"login": LOGIN}) == text


def test_parts_are_left_where_only_whole_values_are_asked_for() -> None:
    values: dict[str, Json] = {"login": LOGIN, "other": {"city": "Paris"}}
    text = 'Zx9-hunter2 in Paris {"city": "Paris"}'
    assert scrub_text(text, values, parted=()) == ("Zx9-hunter2 in Paris [[mem:other]]", ("other",))
    assert scrub_text(text, values, parted={"login"})[0] == "[[mem:login#/password]] in Paris [[mem:other]]"


def test_parts_under_odd_keys_have_handles_that_resolve() -> None:
    value: Json = {"a/b~c": {"": ["", {'k "[1]" ％／＃#`*': "hunter-two"}]}, "x" * 2000: "hunter-ten"}
    scrubbed, _ = scrub_text("<hunter-two> <hunter-ten>", {"odd": value})
    assert back(scrubbed.split(" <")[0], {"odd": value}) == "<hunter-two>"
    assert scrubbed.endswith(" <[[mem:odd]]>")


@pytest.mark.parametrize(
    ("value", "text", "scrubbed"),
    [
        ("123", 'pin 123, "123", 1234, 0.123, a123, _123', 'pin @, "@", 1234, 0.123, a123, _@'),
        ("abc", "abc abcd ABC (abc)", "@ abcd ABC (@)"),
        ("q9", "q9 q9", "q9 q9"),
        ("杭州", "我在杭州。", "我在@。"),
        ("杭1", "在杭1号, 杭12", "在@号, 杭12"),
        ("4711", "pin4711 847110 1.4711 4711.", "pin@ 847110 1.4711 @."),
        ("62220212", "id162220212", "id1@"),
        (110, '{"price": 110, "id": 1101, "of": 110.5}', '{"price": @, "id": 1101, "of": 110.5}'),
        (31, "31 and 31", "31 and 31"),
        (True, '{"ok": true}', '{"ok": true}'),
        (None, "null", "null"),
        ([], "[]", "[]"),
        ("----", "a ---- b", "a ---- b"),
        ("  \n ", "a   \n  b", "a   \n  b"),
    ],
)
def test_short_values_destroy_no_text(value: Json, text: str, scrubbed: str) -> None:
    """They are found as whole words or numbers only, and not at all where chance is the likelier."""
    there = scrub_text(text, {"short": value})
    assert there == (scrubbed.replace("@", "[[mem:short]]"), ("short",) if "@" in scrubbed else ())


@pytest.mark.parametrize("value", ["", "ab", "汉", " a ", "-----", 7, 99, True, False, None, [], {}])
def test_what_cannot_be_told_from_chance_is_named(value: Json) -> None:
    assert too_short(value)
    assert scrub_text(f"x {value} {json.dumps(value)} x", {"v": value})[1] == ()


@pytest.mark.parametrize("value", ["abc", "汉字", "a汉", 100, -12, [1], {"a": 1}])
def test_what_can_be_told_from_chance_is_looked_for(value: Json) -> None:
    assert not too_short(value)
    text = value if isinstance(value, str) else json.dumps(value)
    assert scrub_text(f"x {text} x", {"v": value}) == ("x [[mem:v]] x", ("v",))


def test_a_deep_value_is_found_in_its_usual_texts() -> None:
    value: Any = "hunter-two"
    for _ in range(400):
        value = [value]
    assert scrub_text(json.dumps(value), {"deep": value})[0] == "[[mem:deep]]"
    assert "hunter" not in scrub_text("hunter-two", {"deep": value})[0]


def test_hostile_text_is_scrubbed_in_linear_time() -> None:
    text = '{"user":"bob","password":"' * 20_000 + '{"user" ' * 50_000 + "[" * 100_000
    assert scrub_text(text, {"login": LOGIN, "list": [[1, 2]]}) == (text, ())


ARGUMENTS: list[tuple[Json, Json]] = [
    ({"to": "Zx9-hunter2 now"}, {"to": "[[mem:login#/password]] now"}),
    ({"Zx9-hunter2": {"n": 123456}}, {"[[mem:login#/password]]": {"n": "[[mem:login#/pins/1]]"}}),
    ({"all": dict(reversed(list(LOGIN.items())))}, {"all": "[[mem:login]]"}),
    ([7, 7.5, 4711, True, None, "", [], {}], [7, 7.5, "[[mem:pin]]", True, None, "", [], {}]),
]


@pytest.mark.parametrize(("arguments", "scrubbed"), ARGUMENTS)
def test_arguments_are_scrubbed_as_json(arguments: Json, scrubbed: Json) -> None:
    values: dict[str, Json] = {
        "login": LOGIN,
        "pin": 4711,
        "n": 7,
        "ok": True,
        "none": None,
        "no": "",
        "l": [],
        "d": {},
    }
    assert json.loads(scrub_arguments(json.dumps(arguments), values)[0]) == scrubbed


def test_arguments_that_are_no_json_or_hold_no_value() -> None:
    values: dict[str, Json] = {"login": LOGIN}
    for arguments in ('{"a":  1e999}', '{"a": NaN}', '{"a": ', "[" * 2000, '{"a":  "[[mem:login]]"}'):
        assert scrub_arguments(arguments, values)[1] == ()
    assert scrub_arguments('{"a":  1}', values) == ('{"a":  1}', ())
    assert scrub_arguments('{"a": 1e999, "b": "Zx9-hunter2"}', values)[1] == ("login",)
    assert scrub_arguments('{"b": "Zx9-hunter2"}', values, parted=()) == ('{"b": "Zx9-hunter2"}', ())


PIECES = st.sampled_from([*"[]{}:ab ", "[[", "mem", "[[mem:a]]", "城市", "value-one", "e-o", '"', "\\", "\u2060", "0"])
TEXTS = st.lists(PIECES, max_size=16).map("".join)
PLAIN = st.lists(st.sampled_from([*"[]{}:ab ", "[[", "mem", "城", "\u2060"]), min_size=1, max_size=6).map("".join)


@given(TEXTS, st.dictionaries(st.sampled_from(["one", "二", "three"]), PLAIN, max_size=3))
def test_resolving_undoes_scrubbing(text: str, values: dict[str, str]) -> None:
    scrubbed, names = scrub_text(text, values)
    assert back(scrubbed, values) == text
    assert {found.name for found in find_handles(scrubbed)} == set(names)
    assert set(names) == {name for name in values if f"[[mem:{name}]]" in scrubbed}


LEAVES = st.one_of(PLAIN, st.integers(), st.booleans(), st.none(), st.text(max_size=8))
NESTED: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@given(st.data(), st.dictionaries(st.sampled_from(["one", "二", "three"]), NESTED, max_size=3))
def test_resolving_undoes_scrubbing_of_json_and_its_parts(data: st.DataObject, values: dict[str, Json]) -> None:
    leaves = [text for value in values.values() for text in texts_in(value)]
    known = st.sampled_from([*leaves, *(compact(value) for value in values.values())]) if values else st.nothing()
    text = "".join(data.draw(st.lists(st.one_of(PIECES, known), max_size=10)))
    scrubbed, names = scrub_text(text, values)
    assert back(scrubbed, values) == text
    assert {found.name for found in find_handles(scrubbed)} == set(names)


def texts_in(value: Json) -> list[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_in(item)]
    return [text for item in value for text in texts_in(item)] if isinstance(value, list) else []
