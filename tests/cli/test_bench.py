"""`offprompt bench recall`: a data set's table, its document, and folders that hold none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

TURNS = [
    ("Ann", "I adopted a grey cat called Pixel last weekend."),
    ("Ben", "Lovely! I spent the weekend repairing my old bicycle."),
    ("Ann", "My sister moved to Lisbon and works in a bakery now."),
    ("Ben", "Next month I start a pottery class near the harbour."),
]
ASKED = [("What is the name of Ann's cat?", 4, "D1:1"), ("Where does Ann's sister work?", 1, "D1:3")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set in LoCoMo's form: two conversations of four turns."""
    turns = [
        {"dia_id": f"D1:{at}", "speaker": speaker, "text": text} for at, (speaker, text) in enumerate(TURNS, start=1)
    ]
    conversation: dict[str, Any] = {"session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    asked = [{"question": text, "category": category, "evidence": [found]} for text, category, found in ASKED]
    sample = {"conversation": conversation, "qa": asked}
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "locomo_two.json").write_text(json.dumps([{**sample, "sample_id": name} for name in ("a", "b")]))
    return folder


def test_recall_stands_beside_the_other_methods_by_category(run: Run, folder: Path) -> None:
    ran = run(f"bench recall {folder} --json")
    assert (ran.code, ran.err) == (0, "")
    (found,) = ran.document["data_sets"]
    assert (found["name"], found["corpora"], found["questions"]) == ("locomo_two", 2, 4)
    by_place = {(one["category"], one["method"]): one for one in found["results"]}
    methods = ("BM25", "vectors", "rank fusion", "words and vectors", "recall")
    assert set(by_place) == {(each, one) for each in (None, "multi-hop", "single-hop") for one in methods}
    ours = by_place[None, "recall"]
    assert ours["means"] == ours["low"] == ours["high"] == [1.0, 1.0, 1.0]
    assert all(one["low"] <= one["means"] <= one["high"] for one in by_place.values())


def test_the_table_is_in_english_and_chinese(run: Run, folder: Path) -> None:
    english, chinese = run(f"bench recall {folder}"), run(f"bench recall {folder} --lang zh")
    assert "locomo_two: 2 corpora, 4 questions" in english.out
    assert "nDCG@10" in english.out
    assert "rank fusion" in english.out
    assert "问题" in chinese.out
    assert chinese.out.count("single-hop") == english.out.count("single-hop") == 3


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("", "", "is not there; correct the path"),
        (".", "{}", "is a file; name the folder"),
        ("notes.txt", "", "holds no data set that is known"),
        ("locomo.json", "[{}]", "KeyError: 'conversation'"),
        ("locomo.json", "[", "fetch its files again"),
        ("questions.jsonl", "{}", "answers.jsonl"),
    ],
    ids=["absent", "file", "others", "other members", "broken", "half"],
)
def test_what_is_no_data_set_is_told_in_one_line(run: Run, tmp_path: Path, name: str, content: str, says: str) -> None:
    place = tmp_path / "some"
    if name and name != ".":
        place.mkdir()
        (place / name).write_text(content)
    elif name:
        place.write_text(content)
    ran = run(f"bench recall {place}")
    assert ran.code == 2
    assert says in ran.err
    assert ran.err.count("\n") == 1


def test_without_an_embedder_there_is_nothing_to_compare(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFPROMPT_EMBEDDER", "none")
    ran = run(f"bench recall {folder}")
    assert ran.code == 2
    assert "--embedder use" in ran.err
