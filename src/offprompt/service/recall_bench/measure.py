"""Recall beside what others do, on the same notes, questions and vectors, in one run."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.protocols import Embedder
from offprompt.recall.chunks import embed
from offprompt.recall.docs import EPISODE, Doc, Query, Weights, analyse
from offprompt.recall.scope_index import ScopeIndex
from offprompt.service.recall_bench.datasets import Corpus, DataSet, Question

Progress = Callable[[str], None]

RRF_K: Final = 60
DEPTH: Final = 100
FLOORS: Final = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3)
RESAMPLES: Final = 2000
SEED: Final = 7
NOTHING: Final = replace(Weights(), **{each.name: 0.0 for each in fields(Weights) if each.name != "half_life_s"})
PARTS: Final[Mapping[str, Mapping[str, float]]] = {
    "neighbour": {"follow": 0.0, "answer": 0.0},
    "answers": {"answer": Weights().follow},
    "session": {"session": 0.0},
    "speaker": {"speaker": 0.0},
    "question": {"question": 0.0},
    "time": {"time": 0.0},
    "recency": {"recency": 0.0},
}
METRICS: Final = ("R@5", "R@10", "nDCG@10")
METHODS: Final = ("BM25", "vectors", "rank fusion", "words and vectors", "recall")
"""`BM25`: words alone. `vectors`: cosine alone. `rank fusion`: reciprocal ranks of both. `words and vectors`: the two
scores as recall weighs them, nothing else. `recall`: what the product does, floor included."""

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Result:
    """scores: one row for each question, columns as METRICS."""

    method: str
    scores: Scores
    categories: tuple[str, ...]

    def mean(self, category: str | None = None) -> Scores:
        """The mean of each metric over all questions, or those of one category."""
        return self._of(category).mean(axis=0)

    def interval(self, category: str | None = None, *, against: Result | None = None) -> tuple[Scores, Scores]:
        """The 95 % bootstrap interval of the means; `against`: of the mean differences, question by question.

        Source   Efron & Tibshirani 1993, "An introduction to the bootstrap", percentile intervals; 2,000 resamples of
                 the questions with a fixed seed.
        """
        scores = self._of(category) - (against._of(category) if against else 0.0)  # noqa: SLF001 - of its own kind
        draws = np.random.default_rng(SEED).integers(0, len(scores), (RESAMPLES, len(scores)))
        means = scores[draws].mean(axis=1)
        low, high = np.percentile(means, (2.5, 97.5), axis=0)
        return low, high

    def _of(self, category: str | None) -> Scores:
        return self.scores if category is None else self.scores[[each == category for each in self.categories]]


@dataclass(frozen=True, slots=True)
class Floor:
    """What a floor does. means: as METRICS; unanswered: the share of questions without a hit when they are asked of
    the next corpus of the set, which knows nothing of them.
    """

    floor: float
    means: Scores
    unanswered: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A data set's results. floors: none where one corpus is all. without: the means of recall without one of the
    parts that count in logs, by the part's name; none where nothing is a log.
    """

    results: list[Result]
    floors: list[Floor]
    without: dict[str, Scores]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A corpus as a scope, with the vectors of its questions."""

    corpus: Corpus
    index: ScopeIndex
    vectors: NDArray[np.float32]


def measure(data: DataSet, embedder: Embedder, progress: Progress | None = None) -> Measured:
    """All methods on a data set, each question once; and recall with other floors, and without each of its parts.

    Cost   embeds each note and question once; progress is told each corpus before.
    """
    ready: list[_Ready] = []
    for corpus in data.corpora:
        if progress:
            progress(f"{data.name} {corpus.name}: {len(corpus.notes)} notes, {len(corpus.questions)} questions")
        vectors = embed(embedder, [question.text for question in corpus.questions], kind="query")
        ready.append(_Ready(corpus, index_of(corpus, embedder), vectors))
    scores: defaultdict[str, list[list[float]]] = defaultdict(list)
    categories: list[str] = []
    for question, ranked in (pair for each in ready for pair in _rankings(each)):
        categories.append(question.category)
        for method in METHODS:
            scores[method].append(score(ranked[method], question.relevant))
    results = [Result(method, np.array(scores[method]), tuple(categories)) for method in METHODS]
    logs = any(note.kind == EPISODE for corpus in data.corpora for note in corpus.notes)
    return Measured(
        results,
        [_floor(ready, floor) for floor in FLOORS] if len(ready) > 1 else [],
        {name: _means(ready, replace(Weights(), **left_out)) for name, left_out in PARTS.items()} if logs else {},
    )


def _means(ready: Sequence[_Ready], weights: Weights) -> Scores:
    found = [
        score(_ids(each.index, replace(query, weights=weights)), question.relevant)
        for each in ready
        for question, query in _queries(each)
    ]
    return np.array(found).mean(axis=0)


def _floor(ready: Sequence[_Ready], floor: float) -> Floor:
    found: list[list[float]] = []
    unanswered: list[bool] = []
    for each, other in zip(ready, [*ready[1:], ready[0]], strict=True):
        for question, query in _queries(each):
            asked = replace(query, floor=floor)
            found.append(score(_ids(each.index, asked), question.relevant))
            unanswered.append(not other.index.search(replace(asked, now=None)).hits)
    return Floor(floor, np.array(found).mean(axis=0), float(np.mean(unanswered)))


def _queries(ready: _Ready) -> Iterator[tuple[Question, Query]]:
    for question, vector in zip(ready.corpus.questions, ready.vectors, strict=True):
        yield question, Query(text=question.text, vector=vector, now=question.asked_at, top_k=10)


def score(ranked: Sequence[str], relevant: frozenset[str]) -> list[float]:
    """R@5, R@10 and nDCG@10 of one ranking; relevance is yes or no.

    Source   Järvelin & Kekäläinen 2002, "Cumulated gain-based evaluation of IR techniques", log base 2.
    """
    hits = [note_id in relevant for note_id in ranked[:10]]
    gain = sum(hit / math.log2(place + 2) for place, hit in enumerate(hits))
    most = sum(1 / math.log2(place + 2) for place in range(min(10, len(relevant))))
    return [sum(hits[:5]) / len(relevant), sum(hits) / len(relevant), gain / most]


def rank_fusion(rankings: Sequence[Sequence[str]]) -> list[str]:
    """Source   Cormack, Clarke & Büttcher 2009, "Reciprocal rank fusion …", k = 60; ties by id."""
    totals: defaultdict[str, float] = defaultdict(float)
    for ranking in rankings:
        for place, note_id in enumerate(ranking, start=1):
            totals[note_id] += 1 / (RRF_K + place)
    return sorted(totals, key=lambda note_id: (-totals[note_id], note_id))


def _rankings(ready: _Ready) -> Iterator[tuple[Question, Mapping[str, Sequence[str]]]]:
    ours = Weights()
    plain = {
        "BM25": replace(NOTHING, keyword=1.0),
        "vectors": replace(NOTHING, vector=1.0),
        "words and vectors": replace(NOTHING, keyword=ours.keyword, vector=ours.vector),
    }
    for question, query in _queries(ready):
        ranked = {"recall": _ids(ready.index, query)}
        for method, weights in plain.items():
            ranked[method] = _ids(ready.index, replace(query, weights=weights, floor=0.0, now=None, top_k=DEPTH))
        ranked["rank fusion"] = rank_fusion([ranked["BM25"], ranked["vectors"]])
        yield question, ranked


def _ids(index: ScopeIndex, query: Query) -> list[str]:
    # A weight of 0 leaves a text unranked, not last: it is found by the other method alone.
    weights = query.weights
    parts = (
        {"keyword", "vector"} if weights.keyword and weights.vector else {"keyword" if weights.keyword else "vector"}
    )
    return [hit.doc_id for hit in index.search(query).hits if parts & hit.parts.keys() or weights.follow]


def index_of(corpus: Corpus, embedder: Embedder) -> ScopeIndex:
    """The corpus as a scope."""
    notes = corpus.notes
    speakers = [note.speaker for note in notes]
    vectors = embed(embedder, [note.text for note in notes], kind="passage", speakers=speakers)
    index = ScopeIndex(dimension=embedder.dimension, unrelated=embedder.unrelated)
    index.add(
        Doc(
            doc_id=note.note_id,
            content=analyse(
                note.text,
                speaker=note.speaker,
                # The day that a fact is filed under is no word of it; that of a conversation is.
                event_at=note.event_at if note.kind == EPISODE else None,
                vector=vector,
            ),
            kind=note.kind,
            speaker=note.speaker,
            session=note.session,
            order=note.order,
            event_at=note.event_at,
            created_at=note.event_at or 0.0,
        )
        for note, vector in zip(notes, vectors, strict=True)
    )
    return index
