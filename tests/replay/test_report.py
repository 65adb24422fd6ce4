from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from offprompt.errors import UnsupportedError, UsageError
from offprompt.models.tokenizers import tokenizer_for
from offprompt.records.imported import Problem
from offprompt.service.replay.columns import COLUMNS
from offprompt.service.replay.log import Rules
from offprompt.service.replay.logged import Conversation, LoggedMessage
from offprompt.service.replay.picture import MAX_POINTS, nice, thinned, write_picture
from offprompt.service.replay.report import Lang, advice, document, head_line, label, overflow, summary, table_cells
from offprompt.service.replay.simulate import Replayed, simulate
from offprompt.wire.prices import builtin_sheets, named_sheet

SVG = "{http://www.w3.org/2000/svg}"


def _replayed(turns: int, *, sheet: str = "default", context_tokens: int = 10**9) -> Replayed:
    kinds = ("user", "assistant")
    messages = tuple(LoggedMessage(kinds[at % 2], "words 词语 " * 60) for at in range(2 * turns))
    rules = Rules(sheet=named_sheet(sheet, builtin_sheets()), context_tokens=context_tokens)
    return simulate([Conversation("c", "system " * 1200, messages)], tokenizer_for(), rules)


@pytest.mark.parametrize(
    ("turns", "sheet", "lang", "says"),
    [
        (2, "default", "en", "leave the window off here: it would cost 1."),
        (2, "default", "zh", "这里不要开 window：会贵到 1."),
        (30, "default", "en", "send everything: no policy saves more than 5 % here."),
        (30, "default", "zh", "照原样全部发送"),
        (300, "default", "en", "% of the input price from request "),
        (300, "default", "zh", "次请求起节省 "),
        (100, "local", "en", "leave the window off here: it would cost 1."),
    ],
)
def test_the_advice_follows_the_prices(turns: int, sheet: str, lang: Lang, says: str) -> None:
    assert says in advice(_replayed(turns, sheet=sheet), lang)


@pytest.mark.parametrize(("sheet", "policy"), [("default", "window"), ("openai-gpt-4", "auto")])
def test_the_advice_says_what_is_saved_from_where_on(sheet: str, policy: str) -> None:
    replayed = _replayed(300, sheet=sheet)
    line = advice(replayed, "en")
    since = int(line.split("from request ")[1].split()[0])
    share = int(line.split("saves ")[1].split()[0])
    name = line.split()[0]
    assert name == policy
    ours = sum(replayed.columns[name].price[since - 1 :])
    theirs = sum(replayed.columns["logged"].price[since - 1 :])
    assert share == round((1 - ours / theirs) * 100)
    assert 1 < since < 150
    spent = [sum(replayed.columns[column].price[: since - 1]) for column in (name, "logged")]
    assert spent[0] >= spent[1] - 1e-12
    spent = [sum(replayed.columns[column].price[:since]) for column in (name, "logged")]
    assert spent[0] < spent[1]


def test_the_document_is_json_whose_parts_add_up() -> None:
    replayed = _replayed(40)
    body: dict[str, Any] = json.loads(
        json.dumps(document(replayed, ["a.json"], [Problem("a.json", 3, "not JSON")], "en"), allow_nan=False)
    )
    assert body["requests"] == 40
    assert body["turns"] == len(body["by_turn"]) == 40
    assert list(body["columns"]) == list(body["by_request"]) == list(COLUMNS)
    for name, column in body["columns"].items():
        assert column["tokens"] == sum(body["by_request"][name]) == column["cached"] + column["uncached"]
        for field in ("chars", "tokens", "cached", "uncached"):
            assert column[field] == sum(turn["columns"][name][field] for turn in body["by_turn"])
        assert column["price"] == pytest.approx(sum(turn["columns"][name]["price"] for turn in body["by_turn"]))
    assert body["problems"] == [{"file": "a.json", "line": 3, "why": "not JSON"}]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_has_a_row_for_each_column(lang: Lang) -> None:
    heads, rows = table_cells(_replayed(5), lang)
    assert [row[0] for row in rows] == [label(name, lang) for name in COLUMNS]
    assert all(len(row) == len(heads) for row in rows)
    assert label("logged", lang) in ("as logged", "原样发送")


def test_the_summary_says_with_what_it_was_counted() -> None:
    assert "o200k_base" in summary(_replayed(5), "en")
    assert "2026-11" in summary(_replayed(5), "zh")
    assert "(1 = a million input tokens, " in summary(_replayed(5), "en")
    assert "（1 = 一百万输入令牌的价格，" in summary(_replayed(5), "zh")
    assert "(USD, " in summary(_replayed(5, sheet="deepseek-v4-pro"), "en")


def test_a_log_that_does_not_fit_the_context_is_said() -> None:
    assert overflow(_replayed(5), "en") == ""
    replayed = _replayed(100, context_tokens=10_000)
    first = int(overflow(replayed, "en").split("from request ")[1].split()[0])
    assert replayed.columns["logged"].tokens[first - 1] > 10_000 - 4096 >= replayed.columns["logged"].tokens[first - 2]
    assert f"第 {first} 次请求" in overflow(replayed, "zh")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_svg_is_whole_and_has_a_line_for_each_column(tmp_path: Path, lang: Lang) -> None:
    path = tmp_path / "p.svg"
    write_picture(_replayed(30), path, lang)
    root = ET.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314 - our own file
    assert len(root.findall(f"{SVG}polyline")) == len(COLUMNS)
    texts = [item.text for item in root.findall(f"{SVG}text")]
    assert all(label(name, lang) in texts for name in COLUMNS)


def test_one_request_can_be_drawn(tmp_path: Path) -> None:
    write_picture(_replayed(1), tmp_path / "p.svg", "en")
    assert "nan" not in (tmp_path / "p.svg").read_text(encoding="utf-8")


def test_thinning_keeps_peaks_and_few_points() -> None:
    values = [1] * 5000
    values[3210] = 99
    points = thinned(values)
    assert len(points) <= MAX_POINTS
    assert (3211, 99) in points
    assert thinned([5, 7]) == ((1, 5), (2, 7))
    assert thinned([]) == ()


def test_axes_end_at_round_numbers() -> None:
    assert [nice(value) for value in (0, 1, 3, 900, 1000, 1001, 41_000)] == [1, 1, 4, 1000, 1000, 2000, 80_000]


def test_a_png_by_the_extra(tmp_path: Path) -> None:
    write_picture(_replayed(10), tmp_path / "p.png", "zh")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_png_without_the_extra_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'offprompt\[png\]'"):
        write_picture(_replayed(2), tmp_path / "p.png", "en")


@pytest.mark.parametrize("name", ["p.jpg", "p", "no/such/folder/p.svg"])
def test_a_picture_that_cannot_be_written_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="the picture"):
        write_picture(_replayed(2), tmp_path / name, "en")


def test_the_head_that_auto_leaves_out_is_said_with_what_it_adds() -> None:
    replayed = _replayed(40)
    head = json.loads(json.dumps(document(replayed, [], [], "en")))["head"]
    columns = document(replayed, [], [], "en")["columns"]
    # Nothing pays in so short a log: auto is everything, and the policies without stubs are everything and the head.
    assert columns["auto"]["tokens"] == columns["logged"]["tokens"]
    added = head["tokens"] * replayed.requests
    assert 200 < head["tokens"] < 400
    assert head["input_share"] == pytest.approx(added / columns["logged"]["tokens"])
    assert head["auto_input_ratio"] == pytest.approx(columns["stub_at_once"]["input_ratio"])
    assert head["auto_price_ratio"] == pytest.approx(columns["stub_at_once"]["price_ratio"])
    assert f"head of {head['tokens']:,.0f} tokens" in head_line(replayed, "en")
    assert f"+ {head['price_share'] * 100:.1f} % price" in head_line(replayed, "en")
    assert f"{head['auto_price_ratio']:.3f} price" in head_line(replayed, "en")
    assert f"开头（{head['tokens']:,.0f} 令牌" in head_line(replayed, "zh")
    assert document(replayed, [], [], "zh")["head_line"] == head_line(replayed, "zh")


def test_the_head_is_not_counted_twice_once_auto_carries_it() -> None:
    replayed = _replayed(300, sheet="openai-gpt-4")
    assert 0 < replayed.head.auto_tokens < replayed.head.everything_tokens / 2
    assert head_line(simulate([], tokenizer_for(), replayed.rules), "en") == ""
