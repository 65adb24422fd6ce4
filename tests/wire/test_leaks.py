"""Stored values in texts: every form by name, thresholds, hostile values, removal, memory."""

from __future__ import annotations

import random
import string
import tracemalloc

import pytest

from offprompt.testing.leaks import ENCODINGS
from offprompt.wire.fingerprints import GRAM, RUN, Fingerprints
from offprompt.wire.folding import Places, fold
from offprompt.wire.leaks import Leak, LeakIndex, find_values, unproven
from offprompt.wire.thresholds import provable

ENGLISH = "The spare key to the lake house lies under the third blue flowerpot, left of the door."
CHINESE = "湖边小屋的备用钥匙在门左边第三个蓝色花盆下面，请不要告诉任何人。"
JSON = '{"iban": "DE02 1203 0000 0000 2020 51", "holder": "Zoë Ångström", "note": "a \\"b\\""}'
FORMS = {
    "as_is": {"as_is"},
    "json": {"as_is", "json"},
    "json_ascii": {"as_is", "json", "folded"},
    "json_twice": {"as_is", "json", "folded"},
    "upper": {"as_is", "folded"},
    "lower": {"as_is", "folded"},
    "respaced": {"as_is", "folded"},
    "spaceless": {"as_is", "folded"},
    "grouped": {"folded"},
    "full_width": {"as_is", "folded"},
    "url": {"as_is", "url"},
    "url_form": {"as_is", "url", "folded"},
    "url_twice": {"as_is", "url"},
    "base64": {"base64"},
    "base64_url": {"base64"},
    "base64_lines": {"base64"},
    "hex": {"hex"},
    "hex_upper": {"hex"},
}


def names(found: list[Leak]) -> list[str]:
    return [leak.name for leak in found]


def letters(seed: int, size: int) -> str:
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=size))  # noqa: S311


@pytest.mark.parametrize("value", [ENGLISH, CHINESE, JSON, CHINESE[:12], "k" + letters(1, 23)])
@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_every_form_is_found_whole_and_where_it_stands(encoding: str, value: str) -> None:
    index = LeakIndex({"key": value, "other": "x" * 100})
    for seed in range(12):
        rng = random.Random(seed)  # noqa: S311
        spelled = ENCODINGS[encoding](value, rng)
        before = "Tool said: "[: rng.randrange(12)] + "— é 天 "[: rng.randrange(8)]
        text = f"{before} {spelled} and no more."
        found = index.find(text)
        assert names(found) == ["key"] * len(found)
        assert [leak for leak in found if leak.whole]
        assert {leak.form for leak in found} <= FORMS[encoding]
        start, end = len(before) + 1, len(before) + 1 + len(spelled.rstrip())
        assert found[0].start in range(start - 1, start + 5)
        assert found[-1].end in range(end - 5, end + 2)


@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_short_secrets_are_found_in_every_form(encoding: str) -> None:
    values = {"pin": "4711-0815", "word": "S3same!open", "place": "青海湖畔小屋", "long": letters(3, 21)}
    index = LeakIndex()
    for name, value in values.items():
        index.add(name, value, secret=True)
    for name, value in values.items():
        for seed in range(12):
            spelled = ENCODINGS[encoding](value, random.Random(seed))  # noqa: S311
            assert names(index.find(f"the answer is {spelled} or so")) == [name]


def test_a_part_counts_from_32_characters_and_12_han() -> None:
    index = LeakIndex({"en": ENGLISH.replace(" ", "_"), "zh": CHINESE})
    english = ENGLISH.replace(" ", "_")
    for at in range(len(english) - 32):
        assert index.find(f"<{english[at : at + 31]}>") == []
        assert [(leak.start, leak.end, leak.chars) for leak in index.find(f"<{english[at : at + 32]}>")] == [
            (1, 33, 32)
        ]
    for at in range(11):
        assert index.find(f"<{CHINESE[at : at + 11]}>") == []
        assert [(leak.start, leak.end, leak.chars) for leak in index.find(f"<{CHINESE[at : at + 12]}>")] == [
            (1, 13, 12)
        ]


def test_a_run_of_spaces_is_one_character() -> None:
    index = LeakIndex({"code": f"{letters(1, 40)}\n{' ' * 60}{letters(2, 40)}"})
    value = f"{letters(1, 40)}\n{' ' * 60}{letters(2, 40)}"
    assert index.find("." + value[30:111] + ".") == []
    assert names(index.find("." + value[20:115] + ".")) == ["code"]
    assert names(index.find("." + value[20:115].replace("\n", " ") + ".")) == ["code"]


def test_whole_values_count_from_24_characters_and_in_our_text_from_8() -> None:
    values = {"seven": letters(1, 7), "eight": letters(2, 8), "long": letters(3, 23), "whole": letters(4, 24)}
    values |= {"三": "青海湖", "四": "雪山脚下", "十一": "青海湖畔的小屋门前有棵", "十二": "天山南麓的牧场里有一匹马"}
    index = LeakIndex(values)
    for name, value in values.items():
        text = f"< {value} >"
        assert names(index.find(text)) == ([name] if name in {"whole", "十二"} else [])
        assert names(index.find(text, ours=True)) == ([] if name in {"seven", "三"} else [name])
    assert index.unproven == ("seven", "三")
    assert [provable(value) for value in values.values()].count(False) == 2


@pytest.mark.parametrize(
    ("value", "spellings", "others"),
    [
        ("Oak-1002", ["Oak-1002", "OAK 1002", "oak1002", "T2FrLTEwMDI=", "4f616b2d31303032"], ["Oak-1003", "ak-1002"]),
        ("AB-12-CD", ["AB-12-CD", "ab 12 cd", "AB\\n12\\ncd", "xAB--12 CDx"], ["ab12cd", "AB-12CD", "cab12cd-"]),
        ("4711 08 9", ["4711 08 9", "4711-08-9", "4711089"], ["4711 08 8", "471108"]),
        ("a-b-c-d-", ["a-b-c-d-", "A B C D"], ["abcd", "a-bcd-"]),
        ("%41%42%43%44", ["%41%42%43%44", "%2541%2542%43%44"], ["abcd", "ABC%44"]),
    ],
)
def test_spaces_and_dashes_count_as_characters_of_a_short_value(
    value: str, spellings: list[str], others: list[str]
) -> None:
    index = LeakIndex()
    index.add("v", value, secret=True)
    assert index.unproven == ()
    for shift in range(5):
        for spelled in spellings:
            assert names(index.find(f"{'.' * shift}({spelled})")) == ["v"], spelled
        for other in others:
            assert index.find(f"{'.' * shift}({other})") == [], other
    index.remove("v")
    assert index.find(value) == []


@pytest.mark.parametrize("escaped", ['\\\\"b\\\\": ', '\\\\\\\\\\\\"b\\\\\\\\\\\\": '])
def test_a_space_before_an_escaped_quote_counts(escaped: str) -> None:
    value = f'{letters(1, 9)}, "b": {letters(2, 40)}'
    assert names(LeakIndex({"v": value}).find(f"< {escaped}{letters(2, 40)[:26]}>")) == ["v"]
    assert LeakIndex({"v": value}).find(f"< {escaped}{letters(2, 40)[:25]}>") == []


def test_numbers_fold_over_spaces_dashes_and_widths() -> None:
    index = LeakIndex()
    index.add("card", "6222021234567890123", secret=True)
    for text in (
        "6222 0212 3456 7890 123",
        "6222-0212-3456-7890-123",
        "６２２２０２１２３４５６７８９０１２３",
        "6222\u00a00212\n34567890123",
    ):
        assert [(leak.name, leak.whole) for leak in index.find(f"No. {text}.")] == [("card", True)]
    assert index.find("No. 6222 0212 3456 7890 124.") == []


def test_values_that_overlap_and_prefixes_are_each_found() -> None:
    base = letters(5, 90)
    index = LeakIndex({"front": base[:60], "back": base[30:], "all": base, "again": base, "apart": letters(6, 90)})
    found = index.find(f"-> {base} <-")
    assert sorted(names(found)) == ["again", "all", "back", "front"]
    assert all(leak.whole for leak in found)
    assert names(index.find(f"-> {base[5:55]} <-")) in (["front"], ["all"], ["again"])
    assert names(index.find(f"{base[:40]} {letters(6, 90)[10:50]}"))[-1] == "apart"


def test_two_parts_of_one_value_are_two_leaks() -> None:
    value = letters(7, 400)
    index = LeakIndex({"v": value})
    found = index.find(f"{value[10:60]}\n{value[300:350]}\n{value[100:150]}")
    assert [(leak.start, leak.end) for leak in found] == [(0, 50), (51, 101), (102, 152)]


HOSTILE = [
    "a" * 5000, "ab" * 300, "\u3000 \t\n" * 50, "-" * 80, "😀🎉" * 30, "\ud83d" * 40 + "\udc00" * 40, "%" * 60,
    "\\" * 60, "%E4%B8%AD" * 20, "\\u4e2d\\n" * 20, "\x00\x01" * 30, "é" * 60, "e\u0301" * 60, "=" * 64, "A" * 64,
    "00" * 40, "[[mem:x]]" * 9,
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
def test_hostile_values_are_found_or_listed_and_raise_nothing(value: str) -> None:
    index = LeakIndex({"v": value, "plain": ENGLISH})
    if index.unproven:
        assert not fold(value)
    else:
        assert "v" in names(index.find(f"({value})"))
    for encoding in ENCODINGS:
        index.find(ENCODINGS[encoding](value, random.Random(1)))  # noqa: S311
        index.find(value[: len(value) // 2] + "%" + value + "\\" + value + "\\u12" + value[:7] + "%E")
    assert names(index.find(f"{value} {ENGLISH}"))[-1] == "plain"


def test_what_is_removed_or_replaced_is_not_found() -> None:
    index = LeakIndex({"a": ENGLISH, "b": CHINESE})
    index.add("pin", "4711-0815", secret=True)
    index.remove("a")
    index.remove("a")
    index.remove("pin")
    index.add("b", JSON)
    assert index.find(f"{ENGLISH} {CHINESE} 4711-0815") == []
    assert names(index.find(JSON)) == ["b"]
    assert ("a" in index, "b" in index, len(index)) == (False, True, 1)
    index.add("a", ENGLISH)
    assert names(index.find(f"{ENGLISH} {CHINESE}")) == ["a"]


def test_ten_thousand_changes_leave_what_is_there_and_no_more_memory() -> None:
    index = LeakIndex()
    kept: dict[str, str] = {}
    rng = random.Random(4)  # noqa: S311
    for number in range(3000):
        name = f"slot{rng.randrange(40)}"
        if rng.random() < 0.3:
            index.remove(name)
            kept.pop(name, None)
        else:
            kept[name] = letters(number, rng.choice((9, 24, 200)))
            index.add(name, kept[name], secret=True)
    assert len(index) == len(kept)
    assert [name for name, value in kept.items() if names(index.find(f"<{value}>")) != [name]] == []
    assert index.bytes < 600_000


def test_a_run_as_long_as_promised_is_never_missed() -> None:
    rng = random.Random(9)  # noqa: S311

    def folded(size: int) -> bytes:
        return bytes(rng.choices(range(0x21, 0x100), k=size))

    for trial in range(600):
        shared = folded(RUN)
        stored = folded(rng.randrange(40)) + shared + folded(rng.randrange(40))
        scanned = folded(rng.randrange(61_400, 61_500) if trial % 20 == 0 else rng.randrange(60)) + shared
        prints = Fingerprints()
        for text in (folded(rng.randrange(40)), stored, folded(rng.randrange(40))):
            prints.add(text)
        where = stored.index(shared) - scanned.index(shared)
        met = [at for at, number, place in prints.meetings(scanned) if (number, place) == (1, at + where)]
        assert [at for at in met if len(scanned) - RUN <= at <= len(scanned) - GRAM], trial


def test_clean_text_has_no_leak() -> None:
    index = LeakIndex({str(number): letters(number, 400) for number in range(200)})
    assert index.find(" ".join(letters(10_000 + number, 200) for number in range(200))) == []
    assert index.find("") == []
    assert LeakIndex().find(ENGLISH) == []


def test_memory_is_bounded() -> None:
    values = {str(number): letters(number, 4096) for number in range(60)}
    tracemalloc.start()
    index = LeakIndex(values)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = 60 * 4096
    assert index.bytes < 8 * size
    assert held < 9 * size


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, JSON, "a%20b\\u4e2d\\n Ｘ１ é — 😀" * 40, "x" * 3000, "\n" * 999])
def test_places_lead_back_to_the_characters(text: str) -> None:
    places = Places(text)
    folded = fold(text)
    for start in range(0, len(folded), max(1, len(folded) // 97)):
        for end in (start + 1, start + 7, len(folded)):
            first, past = places.span(start, min(end, len(folded)))
            assert folded[start:end] in fold(text[first:past])
            assert past - first <= len(text)


def test_plain_values_as_before() -> None:
    values = {"a": "sesame open", "b": 'say "friend" and', "c": "short", "d": ""}
    assert find_values('x sesame open y say \\"friend\\" and z short', values) == ["a", "b"]
    assert unproven(values) == ["c"]


@pytest.mark.timeout(60)
def test_the_search_grows_with_the_text_not_with_its_square() -> None:
    index = LeakIndex({"key": ENGLISH, "other": CHINESE})
    for piece in (
        "\\",
        "\\u",
        "\\n",
        "%",
        "%25",
        "\\u005c",
        "A",
        "41",
        "QUJD",
        "\u200f",
        "e\u0301",
        "\u1161",
        "\n ",
        '\\"',
    ):
        filler = piece * (150_000 // len(piece))
        assert index.find(filler) == []
        assert names(index.find(f"{filler}|{ENGLISH}|{filler}")) == ["key"]
