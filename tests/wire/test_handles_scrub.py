"""Scrubbing: values become handles, and resolving gives the text back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from offprompt.records import Json
from offprompt.wire.handles import Looked, at_pointer, find_handles, resolve_arguments, resolve_text
from offprompt.wire.scrub import scrub_text


def back(text: str, values: dict[str, str]) -> str:
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


PIECES = st.sampled_from([*"[]{}:ab ", "[[", "mem", "[[mem:a]]", "城市", "value-one", "e-o", '"', "\\", "\u2060", "0"])
TEXTS = st.lists(PIECES, max_size=16).map("".join)
PLAIN = st.lists(st.sampled_from([*"[]{}:ab ", "[[", "mem", "城", "\u2060"]), min_size=1, max_size=6).map("".join)


@given(TEXTS, st.dictionaries(st.sampled_from(["one", "二", "three"]), PLAIN, max_size=3))
def test_resolving_undoes_scrubbing(text: str, values: dict[str, str]) -> None:
    scrubbed, names = scrub_text(text, values)
    assert back(scrubbed, values) == text
    assert {found.name for found in find_handles(scrubbed)} == set(names)
    assert set(names) == {name for name in values if f"[[mem:{name}]]" in scrubbed}
