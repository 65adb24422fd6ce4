"""BM25 as a share of what was asked, for texts and for the sessions that they are in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from offprompt.recall.bm25 import K1, B, idf
from offprompt.recall.postings import Postings, TermHits
from offprompt.recall.rows import Bools, Floats, Ints
from offprompt.records import WordHits

MAX_TERMS = 128
"""Terms of a query that are looked for, the rarest first: a whole conversation can be the query."""


@dataclass(frozen=True, slots=True)
class Matches:
    """share: by row, the part of the query's weight that the text holds, 0 to 1, terms that no text holds left out;
    strict: the same with those counted as well. session: by row, the share that the row's session holds.
    """

    share: Floats
    strict: Floats
    session: Floats


def match(
    terms: Iterable[str],
    postings: Postings,
    lengths: Floats,
    sessions: Ints,
    allowed: Bools,
    of_scope: WordHits | None = None,
) -> Matches:
    """Hold the terms against all rows.

    lengths    by row, in terms; 0 for removed rows. sessions: by row; -1: in none.
    allowed    rows whose words may count for their session.
    of_scope   the statistics of all texts, where the rows are only some of them.
    Source   Robertson & Zaragoza 2009, "The probabilistic relevance framework", divided by its least upper bound,
             idf · (k1 + 1) over the query's terms, which takes the place of the maximum in Bruch, Gai & Ingber 2023,
             "An analysis of fusion functions for hybrid retrieval".
    Cost     O(rows + postings of the terms).
    """
    found = {term: hits for term in sorted(set(terms)) if (hits := postings.hits(term))}
    holders = {term: hits.holders for term, hits in found.items()}
    if of_scope is None:
        texts, mean = int((lengths > 0).sum()), float(lengths.sum()) / max(int((lengths > 0).sum()), 1)
    else:
        texts, mean = of_scope.texts, of_scope.terms / max(of_scope.texts, 1)
        holders |= {term: of_scope.holders[term] for term in set(terms).intersection(of_scope.holders)}
    unknown = len(set(terms)) - len(holders)
    rarest = sorted(holders, key=lambda term: (holders[term], term))[:MAX_TERMS]
    weights = {term: idf(texts, holders[term]) for term in rarest}
    known = sum(weights.values())
    all_known = known + len(rarest)
    unheld = unknown * (1 + idf(texts, 0))
    norms = (K1 * (1 - B + B * lengths / max(mean, 1e-9))).astype(np.float32)
    scores = np.zeros(len(lengths), np.float32)
    strict = np.zeros(len(lengths), np.float32)
    held_here = [term for term in rarest if term in found]
    for term in held_here:
        hits = found[term]
        held = hits.times / (hits.times + norms[hits.rows])
        scores[hits.rows] += np.float32(weights[term]) * held
        strict[hits.rows] += np.float32(1 + weights[term]) * held
    return Matches(
        scores / np.float32(max(known, 1e-9)),
        strict / np.float32(max(all_known + unheld, 1e-9)),
        _sessions([found[term] for term in held_here], lengths, sessions, allowed),
    )


def _sessions(found: list[TermHits], lengths: Floats, sessions: Ints, allowed: Bools) -> Floats:
    """By row, the share of the query's weight that the row's session holds, as if the session were one text.

    Source   Callan 1994, "Passage-level evidence in document retrieval": passage and document together.
    """
    inside = allowed & (sessions >= 0)
    if not found or not inside.any():
        return np.zeros(len(lengths), np.float32)
    places = np.where(inside, sessions + 1, 0)  # 0: in no session
    number = int(places.max()) + 1
    sizes = np.bincount(places, lengths, number)
    sizes[0] = 0
    live = int((sizes > 0).sum())
    norms = K1 * (1 - B + B * sizes / max(float(sizes.sum()) / max(live, 1), 1e-9))
    scores, known = np.zeros(number), 0.0
    for hits in found:
        times = np.bincount(places[hits.rows], hits.times, number)
        times[0] = 0
        weight = idf(live, int((times > 0).sum()))
        known += weight if times.any() else 0.0
        scores += weight * times / (times + norms)
    return (scores / max(known, 1e-9)).astype(np.float32)[places]
