"""How often a very large scope, searched by its best candidates, answers as it does when searched whole.

    python -m bench.candidates [--filler 100000] [--vectors FILE] [FOLDER …]

All conversations of a data set lie in one scope, and beside them so many facts: real turns joined in pairs, whose
vectors are those of the two turns together. Candidates are the N memories that lie closest, the N that hold most of a
question's words, and the turns beside them; they are ranked with the statistics of the whole scope.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.recall import SETS, KeptVectors
from offprompt.models.embedders import UseEmbedder
from offprompt.protocols import Embedder
from offprompt.recall.analysis import search_terms
from offprompt.recall.bm25 import idf
from offprompt.recall.chunks import embed
from offprompt.recall.docs import EPISODE, Doc, Query, analyse
from offprompt.recall.rows import products
from offprompt.recall.scope_index import ScopeIndex
from offprompt.records import WordHits
from offprompt.service.recall_bench.datasets import DataSet, Note, read

NUMBERS = (25, 50, 100, 200, 400)
TOP = 5


@dataclass
class Scope:
    """All docs of one scope, as arrays that an index outside and a store would have."""

    docs: Sequence[Doc]
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        self.whole = ScopeIndex(unrelated=UseEmbedder().unrelated)
        self.whole.add(self.docs)
        self.postings: dict[str, list[int]] = {}
        for row, doc in enumerate(self.docs):
            for term in doc.content.terms:
                self.postings.setdefault(term, []).append(row)
        self.terms = sum(int(np.frombuffer(doc.content.times, "<u2").sum()) for doc in self.docs)
        self.beside: dict[int, list[int]] = {}
        logs: dict[str, list[int]] = {}
        for row, doc in enumerate(self.docs):
            if doc.kind == EPISODE and doc.session:
                logs.setdefault(doc.session, []).append(row)
        for log in logs.values():
            log.sort(key=lambda row: (self.docs[row].order, self.docs[row].doc_id))
            for at, row in enumerate(log):
                self.beside[row] = [*log[max(at - 1, 0) : at], *log[at + 1 : at + 2]]

    def search(self, query: Query, number: int) -> list[str]:
        """The hits among the best candidates."""
        assert query.vector is not None  # noqa: S101 - a bench
        cosines = products(self.vectors, query.vector)
        near = [int(row) for row in np.argpartition(-cosines, min(number, len(cosines) - 1))[:number]]
        terms = search_terms(query.text)
        held = {term: self.postings[term] for term in terms if term in self.postings}
        sums = np.zeros(len(self.docs))
        for rows in held.values():
            sums[rows] += idf(len(self.docs), len(rows))
        most = np.argpartition(-sums, min(number, len(sums) - 1))[:number]
        chosen = {*near, *(int(row) for row in most if sums[row] > 0)}
        chosen |= {beside for row in chosen for beside in self.beside.get(row, ())}
        index = ScopeIndex(unrelated=UseEmbedder().unrelated)
        index.add([self.docs[row] for row in sorted(chosen)])
        hits = WordHits((), len(self.docs), self.terms, {term: len(found) for term, found in held.items()})
        return [hit.doc_id for hit in index.search(replace(query, of_scope=hits)).hits]


def scope_of(data: DataSet, filler: int, embedder: Embedder) -> Scope:
    """The notes of all corpora, and the filler."""
    notes = [(f"{corpus.name}/", note) for corpus in data.corpora for note in corpus.notes]
    said, speakers = [note.text for _, note in notes], [note.speaker for _, note in notes]
    vectors = embed(embedder, said, kind="passage", speakers=speakers)
    docs = [_doc(prefix, note, vector) for (prefix, note), vector in zip(notes, vectors, strict=True)]
    rng = random.Random(7)  # noqa: S311 - a repeatable draw
    more = np.zeros((filler, vectors.shape[1]), np.float32)
    for at in range(filler):
        one, other = rng.randrange(len(notes)), rng.randrange(len(notes))
        text = f"{said[one]} {said[other][:40]} {at}"
        mean = vectors[one] + 0.5 * vectors[other]
        more[at] = (mean / np.linalg.norm(mean)).astype(np.float16)
        docs.append(Doc(doc_id=f"filler/{at}", content=analyse(text, vector=more[at])))
    return Scope(docs, np.concatenate([vectors, more]))


def _doc(prefix: str, note: Note, vector: NDArray[np.float32]) -> Doc:
    turn = note.kind == EPISODE
    return Doc(
        doc_id=prefix + note.note_id,
        content=analyse(note.text, speaker=note.speaker, event_at=note.event_at if turn else None, vector=vector),
        kind=note.kind,
        speaker=note.speaker,
        session=prefix + note.session if note.session else "",
        order=note.order,
        event_at=note.event_at,
        created_at=note.event_at or 0.0,
    )


def measure(data: DataSet, filler: int, embedder: Embedder) -> list[str]:
    """The rows of a data set's table."""
    scope = scope_of(data, filler, embedder)
    asked = [(f"{corpus.name}/", question) for corpus in data.corpora for question in corpus.questions]
    vectors = embed(embedder, [question.text for _, question in asked], kind="query")
    queries = [
        Query(text=question.text, vector=vector, now=question.asked_at, top_k=TOP, floor=0.15)
        for (_, question), vector in zip(asked, vectors, strict=True)
    ]
    wanted = [{prefix + name for name in question.relevant} for prefix, question in asked]
    begin = time.process_time()
    right = [[hit.doc_id for hit in scope.whole.search(query).hits] for query in queries]
    spent = (time.process_time() - begin) / len(queries) * 1000
    lines = [
        f"| {data.name} | {len(scope.docs):,} | all | 100 % | 100 % | {_recall(right, wanted):.3f} | {spent:.1f} |"
    ]
    for number in NUMBERS:
        begin = time.process_time()
        found = [scope.search(query, number) for query in queries]
        spent = (time.process_time() - begin) / len(queries) * 1000
        first = np.mean([one[:1] == other[:1] for one, other in zip(found, right, strict=True)])
        same = np.mean([set(one) == set(other) for one, other in zip(found, right, strict=True)])
        lines.append(
            f"| {data.name} | {len(scope.docs):,} | {number} | {first:.1%} | {same:.1%} | "
            f"{_recall(found, wanted):.3f} | {spent:.1f} |"
        )
    return lines


def _recall(found: Sequence[Sequence[str]], wanted: Sequence[set[str]]) -> float:
    return float(np.mean([len(one & set(hits)) / len(one) for hits, one in zip(found, wanted, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare candidates with whole scopes.")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--filler", type=int, default=100_000)
    parser.add_argument("--vectors", type=Path)
    given = parser.parse_args()
    embedder: Embedder = UseEmbedder()
    if given.vectors:
        embedder = KeptVectors(embedder, given.vectors)
    folders = given.folders or [Path(os.environ["OFFPROMPT_DATA"]) / name for name in SETS]
    print("| set | memories in the scope | N | first hit the same | all five the same | R@5 | CPU ms |")
    print("|---|---|---|---|---|---|---|")
    for folder in folders:
        for data in read(folder):
            print("\n".join(measure(data, given.filler, embedder)), flush=True)


if __name__ == "__main__":
    main()
