"""Scrub and resolve, escape and restore undo each other, both ways, whatever the script."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from offprompt.records import Json, fold_name
from offprompt.wire.handles import (
    JOINER,
    Looked,
    escape_lookalikes,
    find_handles,
    format_handle,
    resolve_arguments,
    resolve_text,
    restore_lookalikes,
)
from offprompt.wire.scrub import scrub_arguments, scrub_text

SCRIPTS = {
    "latin": "abcXYZéßçñ",
    "greek": "αβγΩΣςώ",
    "cyrillic": "абвЖЯё",
    "hebrew": "אבגדש\u05b8",
    "arabic": "ابتثجى\u064b٣",
    "devanagari": "अआकखि\u094d५",
    "thai": "กขคงเ\u0e31\u0e49",
    "han": "城市记忆上海龘",
    "kana": "あいうアイウヴー",
    "hangul": "가나다한글\u1100\u1161",
    "other": "🏮👩\u200d👩\U00020000\u202e",
}
PARTS = ["[[", "]]", "[", "]", "【【", "】】", "{{", "}}", "mem", "ＭＥＭ", ":", "：", "#", "/", "@", "*", "`"]
MARKS = [
    *PARTS,
    " ",
    "\n",
    '"',
    "\\",
    "\u00a0",
    JOINER,
    "[[mem:a]]",
    "[[mem:@ab12]]",
    "%5B",
    "\u200b",
    "\u200f",
    "\x00",
]


def texts(script: str, *, at_least: int = 0, at_most: int = 14) -> st.SearchStrategy[str]:
    """Texts of one script with all that handles are made of in between."""
    pieces = st.sampled_from([*SCRIPTS[script], *MARKS])
    return st.lists(pieces, min_size=at_least, max_size=at_most).map("".join)


ANY = st.sampled_from(sorted(SCRIPTS)).flatmap(texts)
VALUES = st.sampled_from(sorted(SCRIPTS)).flatmap(lambda script: texts(script, at_least=1, at_most=6))
NAMES = ["one", "городу", "城市", "اسم", "한글", "नाम", "γ", "ชื่อ", "שם", "なまえ"]
STORES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)


def lookup_in(values: dict[str, str]) -> dict[str, str]:
    return {fold_name(name): value for name, value in values.items()}


def resolved(text: str, values: dict[str, str]) -> str:
    folded = lookup_in(values)
    return resolve_text(text, lambda name, _: Looked("ok", folded[name]), missing="?").text


@given(ANY)
def test_escaped_text_holds_no_handle_and_comes_back(text: str) -> None:
    escaped = escape_lookalikes(text)
    assert find_handles(escaped) == []
    assert restore_lookalikes(escaped) == text
    assert restore_lookalikes(escape_lookalikes(escaped)) == escaped


@given(ANY, STORES)
def test_resolving_undoes_scrubbing(text: str, values: dict[str, str]) -> None:
    scrubbed, names = scrub_text(text, values)
    assert resolved(scrubbed, values) == text
    assert {found.name for found in find_handles(scrubbed)} == {fold_name(name) for name in names}
    assert set(names) <= set(values)


@given(st.lists(st.sampled_from(NAMES) | ANY, max_size=8), STORES)
def test_scrubbing_undoes_resolving(parts: list[str], values: dict[str, str]) -> None:
    # The text of a model: handles of what is stored, and words in which nothing looks like a handle or a value.
    own = {name: f"⟨{at} {value}⟩" for at, (name, value) in enumerate(values.items())}
    words = [format_handle(part) if part in own else escape_lookalikes(part) for part in parts]
    written = "·".join(words)
    assert scrub_text(resolved(written, own), own)[0] == written


@given(ANY, STORES, st.booleans())
def test_arguments_come_back_as_they_were(text: str, values: dict[str, str], ascii_only: bool) -> None:
    folded = lookup_in(values)
    given = {"a": [f"<{text}>", 1, None], "键": {"b": f"<x{text}>"}}
    arguments = json.dumps(given, ensure_ascii=ascii_only)
    scrubbed, names = scrub_arguments(arguments, values)
    if not names:
        assert scrubbed == arguments
    if escape_lookalikes(text) == text == restore_lookalikes(text):
        again = resolve_arguments(scrubbed, lambda name, _: Looked("ok", folded[name]))
        assert (json.loads(again.text), again.bad) == (given, ())
        assert {found.name for found in again.used} == {fold_name(name) for name in names}


def test_json_values_in_arguments_become_handles_whole() -> None:
    values: dict[str, Json] = {"凭据": {"user": "root", "pin": 4711}, "pin": 4711, "flag": True, "none": None}
    given = {"login": {"pin": 4711, "user": "root"}, "n": [4711, True, None, "4711 x"], "text": "a"}
    scrubbed, names = scrub_arguments(json.dumps(given), values)
    assert json.loads(scrubbed) == {
        "login": "[[mem:凭据]]",
        "n": ["[[mem:pin]]", True, None, "[[mem:pin]] x"],
        "text": "a",
    }
    assert names == ("凭据", "pin")
    assert scrub_arguments("no json 4711", values) == ("no json [[mem:pin]]", ("pin",))
