from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from offprompt.errors import UsageError
from offprompt.protocols import EmbedKind
from offprompt.service.recall_bench.datasets import Corpus, DataSet, Note, Question, read
from offprompt.service.recall_bench.measure import METHODS, Result, measure, rank_fusion, score
from offprompt.service.recall_bench.report import lines


class Letters:
    """How often each of the letters a to z is in a text."""

    name, dimension, piece_chars, unrelated = "letters", 26, 500, 0.0

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        assert kind in ("query", "passage")
        counts = np.array([[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts], np.float32)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)


def test_scores_are_the_published_measures() -> None:
    assert score(["a", "x", "b"], frozenset("ab")) == pytest.approx([1, 1, (1 + 0.5) / (1 + 0.63093)], abs=1e-4)
    assert score([*"vwxyz", "a"], frozenset("ab")) == pytest.approx([0, 0.5, 0.35621 / 1.63093], abs=1e-4)
    assert score([], frozenset("a")) == [0, 0, 0]


def test_rank_fusion_adds_reciprocal_ranks() -> None:
    assert rank_fusion([["a", "b"], ["b", "c"]]) == ["b", "a", "c"]
    assert rank_fusion([["b"], ["a"]]) == ["a", "b"]


def test_an_interval_holds_the_mean_and_is_the_same_again() -> None:
    result = Result("m", np.tile([[0.0], [1.0]], (20, 3)), ("x", "y") * 20)
    low, high = result.interval()
    assert 0.3 < low[0] < 0.5 < high[0] < 0.7
    assert result.interval()[0].tolist() == low.tolist()
    assert result.interval("y")[0].tolist() == [1, 1, 1]
    assert result.interval(against=result)[1].tolist() == [0, 0, 0]


def test_all_methods_are_measured_on_the_same_questions() -> None:
    notes = (Note("a", "green tea"), Note("b", "red car"), Note("c", "绿茶很好喝"))
    asked = (Question("tea?", frozenset("a"), "en"), Question("绿茶", frozenset("c"), "zh"))
    data = DataSet("own", (Corpus("one", notes, asked),))
    measured = measure(data, Letters())
    assert [result.method for result in measured.results] == list(METHODS)
    assert measured.results[-1].mean().tolist() == measured.results[0].mean().tolist() == [1, 1, 1]
    assert measured.results[1].mean("zh").tolist() == [0, 0, 0]
    told = "\n".join(lines(data, measured))
    assert "| recall | 1.000 / 1.000 / 1.000 |" in told
    assert "| zh | 1 |" in told
    assert (measured.floors, measured.without) == ([], {})


def test_a_floor_stops_questions_to_those_who_know_nothing_of_them() -> None:
    tea = Corpus("tea", (Note("a", "green tea"),), (Question("tea?", frozenset("a"), "en"),))
    cars = Corpus("cars", (Note("b", "红色的汽车"),), (Question("汽车", frozenset("b"), "zh"),))
    data = DataSet("own", (tea, cars))
    measured = measure(data, Letters())
    assert [(each.means.tolist(), each.unanswered) for each in measured.floors] == [([1, 1, 1], 1.0)] * 6
    assert "| .100 | 1.000 / 1.000 / 1.000 | 100 % |" in list(lines(data, measured))


def test_each_part_of_a_log_is_left_out_once() -> None:
    said = [("Ann", "Which instrument does Bob play?"), ("Bob", "Three."), ("Ann", "Rain."), ("Ann", "Wind.")]
    notes = tuple(Note(f"t{at}", text, "episode", who, "s", at) for at, (who, text) in enumerate(said))
    asked = (Question("Which instrument does Bob play?", frozenset({"t1"}), "log"),)
    measured = measure(DataSet("own", (Corpus("one", notes, asked),)), Letters())
    assert set(measured.without) == {"neighbour", "answers", "session", "speaker", "question", "time", "recency"}
    assert any(line.startswith("| neighbour |") for line in lines(DataSet("own", ()), measured))


def test_malformed_evidence_and_search_words_of_images(tmp_path: Path) -> None:
    turn = {"speaker": "Ann", "text": "Look!", "dia_id": "D1:1", "blip_caption": "a dog", "query": "big hound"}
    asked = [
        {"question": "q1", "evidence": ["D1:1; D1:01"], "category": 1},
        {"question": "q2", "evidence": ["D:1:1", "D"], "category": 4},
        {"question": "q3", "evidence": ["D9:9"], "category": 2},
        {"question": "q4", "evidence": ["D1:1"], "category": 5},
    ]
    conversation = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [turn], "session_2_date_time": "x"}
    content = [{"sample_id": "c", "conversation": conversation, "qa": asked}]
    (tmp_path / "locomo.json").write_text(json.dumps(content), encoding="utf-8")
    (data,) = read(tmp_path)
    (corpus,) = data.corpora
    assert [(note.text, note.event_at) for note in corpus.notes] == [("Look! [a dog]", 1683554160.0)]
    assert [(one.text, set(one.relevant)) for one in corpus.questions] == [("q1", {"D1:1"}), ("q2", {"D1:1"})]
    assert data.without_evidence == 1


def test_a_folder_without_data_says_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"locomo\*\.json"):
        read(tmp_path)


@pytest.mark.data
@pytest.mark.parametrize(
    ("folder", "sizes"),
    [
        ("bfcl-memory", {"bfcl-memory": (323, 155, 0)}),
        ("madial", {"madial-en": (160, 160, 0), "madial-zh": (171, 160, 0)}),
        ("locomo-dev", {"locomo_first5": (2760, 760, 2)}),
    ],
)
def test_every_question_of_a_published_set_is_read(folder: str, sizes: dict[str, tuple[int, int, int]]) -> None:
    found = read(Path(os.environ["OFFPROMPT_DATA"]) / folder)
    assert {
        data.name: (
            sum(len(corpus.notes) for corpus in data.corpora),
            sum(len(corpus.questions) for corpus in data.corpora),
            data.without_evidence,
        )
        for data in found
    } == sizes
    assert all(question.text for data in found for corpus in data.corpora for question in corpus.questions)
