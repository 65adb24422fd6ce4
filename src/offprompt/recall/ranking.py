"""How the docs of a scope are ranked for a question: filters, scores, priors, floor, copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.recall import priors
from offprompt.recall.analysis import search_terms
from offprompt.recall.docs import Found, Part, Query, Ranked
from offprompt.recall.keywords import Matches, match
from offprompt.recall.postings import Postings
from offprompt.recall.rows import NOWHERE, Bools, Columns, Floats, Ints, Names, products
from offprompt.recall.when import NamedTime, time_named

LOOKED_OVER: Final = 4
"""Times top_k hits that are looked over for copies."""

_DECIMALS: Final = 6
"""Scores are compared to so many: the last bits of a product depend on where a row stands."""


@dataclass(slots=True)
class Data:
    """What a scope's index holds. ids: by row, removed ones too; rows: of those that are there, by id.

    unrelated   the cosine that counts as 0. zeros: the same by kind, where kinds have embedders of their own; spread:
                what cosines are multiplied by before.
    """

    unrelated: float = 0.0
    zeros: Mapping[str, float] = field(default_factory=dict[str, float])
    spread: float = 1.0
    columns: Columns = field(default_factory=Columns)
    postings: Postings = field(default_factory=Postings)
    vectors: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    ids: list[str] = field(default_factory=list[str])
    rows: dict[str, int] = field(default_factory=dict[str, int])
    kinds: Names = field(default_factory=Names)
    speakers: Names = field(default_factory=Names)
    sessions: Names = field(default_factory=Names)


@dataclass(frozen=True, slots=True)
class Scores:
    """By row: what each part adds, and the evidence, 0 to 1; whether the named time is held."""

    parts: dict[Part, Floats]
    evidence: Floats
    held: bool = False


def rank(data: Data, query: Query) -> Found:
    """The hits; see Query, Found and docs/ranking.md. Cost O(rows)."""
    allowed = _allowed(data, query)
    searched = int(allowed.sum())
    named = None if query.now is None else time_named(query.text, query.now, query.zone)
    window = None if named is None else named.window
    if not searched:
        return Found((), 0, window=window)
    scores = _scores(data, query, allowed, named)
    total = np.zeros(len(allowed), np.float32)
    for part in scores.parts.values():
        total += part
    total = np.round(total, _DECIMALS)
    some = allowed & (scores.evidence > 0)
    enough = some & (scores.evidence >= query.floor)
    rows, repeated = _without_copies(data, _best(data, total, enough, query.top_k * LOOKED_OVER), query.top_k)
    hits = tuple(
        Ranked(
            data.ids[row],
            float(total[row]),
            float(scores.evidence[row]),
            {name: float(part[row]) for name, part in scores.parts.items() if part[row]},
        )
        for row in rows
    )
    below = int((some & ~enough).sum())
    return Found(hits, searched, below, repeated, _by_vector(data, query), window, scores.held)


def _allowed(data: Data, query: Query) -> Bools:
    """The rows that the filters leave."""
    rows, columns = len(data.ids), data.columns
    allowed = columns.alive[:rows].copy()
    if query.kinds is not None:
        numbers = [number for kind, number in data.kinds.numbers.items() if kind in query.kinds]
        allowed &= np.isin(columns.kind[:rows], numbers)
    if query.ids is not None:
        chosen = np.zeros(rows, np.bool_)
        chosen[[data.rows[doc_id] for doc_id in query.ids if doc_id in data.rows]] = True
        allowed &= chosen
    if query.as_of is not None:
        allowed &= columns.created[:rows] <= query.as_of
    if query.since is not None:
        allowed &= columns.happened[:rows] >= query.since
    if query.until is not None:
        allowed &= columns.happened[:rows] < query.until
    return allowed


def _by_vector(data: Data, query: Query) -> bool:
    return query.vector is not None and (query.cosines is not None or len(data.vectors) > 0)


def _scores(data: Data, query: Query, allowed: Bools, named: NamedTime | None) -> Scores:
    rows, columns, weights = len(data.ids), data.columns, query.weights
    found = _matched(data, query, query.text, allowed)
    close = _closeness(data, query)
    by_words = weights.keyword if _by_vector(data, query) else weights.keyword + weights.vector
    keyword = _only(allowed, by_words * found.share)
    vector = _only(allowed, weights.vector * close)
    evidence, inside = _only(allowed, 1 - (1 - found.strict) * (1 - close)), np.zeros(rows, np.bool_)
    if named is not None:
        evidence, inside = _timed(data, query, allowed, named, close)
    parts: dict[Part, Floats] = {"keyword": keyword, "vector": vector}
    episode = columns.episode[:rows] & allowed
    if episode.any():
        about = priors.named(query.text, data.speakers.numbers, asking=query.speaker)
        beside = priors.Beside(columns, rows, follow=weights.follow, answer=weights.answer)
        parts["neighbour"] = _only(episode, beside.take(keyword + vector))
        parts["speaker"] = _only(episode & (about != NOWHERE), weights.speaker * (columns.speaker[:rows] == about))
        parts["question"] = _only(episode, weights.question * columns.asks[:rows])
        parts["session"] = _only(episode, weights.session * found.session)
        evidence = np.maximum(evidence, _only(episode, beside.take(evidence)))
    held = bool(inside.any())
    if held:
        parts["time"] = _only(inside, np.full(rows, weights.time, np.float32))
        if named is not None and named.alone:
            evidence = inside.astype(np.float32)
    if query.now is not None:
        parts["recency"] = _only(
            allowed, weights.recency * priors.recency(columns, rows, query.now, weights.half_life_s)
        )
    parts["uses"] = _only(allowed, weights.uses * priors.use(columns, rows))
    parts["importance"] = _only(allowed, weights.importance * columns.importance[:rows])
    parts["pinned"] = _only(allowed, weights.pinned * columns.pinned[:rows])
    return Scores(parts, evidence, held)


def _timed(data: Data, query: Query, allowed: Bools, named: NamedTime, close: Floats) -> tuple[Floats, Bools]:
    """By row, the evidence by its own words and meaning where a question names a time; and the rows of that time, none
    where it is let go, because none of them has evidence enough.

    The day on which something happened is among its words, and says nothing of what happened: no word of the time is
    evidence, but where the time is let go those that say the same in any text are, for what happened at other times.
    """
    inside = priors.within(data.columns, len(data.ids), named.window) & allowed
    own = _own(data, query, named.rest, allowed, close)
    if (inside if named.alone else inside & (own > 0) & (own >= query.floor)).any():
        return own, inside
    beyond = own if named.words == named.rest else _own(data, query, named.words, allowed, close)
    return np.where(inside, own, beyond), np.zeros_like(inside)


def _own(data: Data, query: Query, text: str, allowed: Bools, close: Floats) -> Floats:
    return _only(allowed, 1 - (1 - _matched(data, query, text, allowed).strict) * (1 - close))


def _matched(data: Data, query: Query, text: str, allowed: Bools) -> Matches:
    rows, columns = len(data.ids), data.columns
    return match(
        search_terms(text),
        data.postings,
        columns.length[:rows],
        np.where(columns.episode[:rows] & columns.alive[:rows], columns.session[:rows], NOWHERE),
        allowed,
        query.of_scope,
    )


def _only(rows: Bools, part: NDArray[np.floating]) -> Floats:
    """The part in these rows, 0 in all others."""
    return np.multiply(part, rows, dtype=np.float32)


def _closeness(data: Data, query: Query) -> Floats:
    """By row, the cosine to the query on a scale where unrelated texts have 0."""
    rows = len(data.ids)
    if query.vector is None or not _by_vector(data, query):
        return np.zeros(rows, np.float32)
    zeros = np.full(rows, data.unrelated, np.float32)
    if data.zeros:
        by_kind = np.array([data.zeros.get(kind, data.unrelated) for kind in data.kinds.numbers], np.float32)
        zeros = by_kind[data.columns.kind[:rows]]
    if query.cosines is None:
        cosines = products(data.vectors[:rows], query.vector) * np.float32(data.spread)
    else:
        cosines = zeros.copy()
        there = [(data.rows[doc_id], cosine) for doc_id, cosine in query.cosines.items() if doc_id in data.rows]
        cosines[[row for row, _ in there]] = [cosine * data.spread for _, cosine in there]
    return np.clip((cosines - zeros) / (1 - zeros), 0, 1).astype(np.float32)


def _best(data: Data, total: Floats, enough: Bools, number: int) -> Ints:
    """The rows with the highest totals, best first, ties by id."""
    rows = np.flatnonzero(enough)
    if len(rows) > number:
        least = np.partition(total[rows], len(rows) - number)[len(rows) - number]
        rows = rows[total[rows] >= least]
    order = sorted(rows.tolist(), key=lambda row: (-total[row], data.ids[row]))
    return np.array(order[:number], np.int64)


def _without_copies(data: Data, rows: Ints, top_k: int) -> tuple[list[int], int]:
    """The first top_k rows that do not say in the same words what a better one says, and how many were passed over.

    Source   Carbonell & Goldstein 1998, "The use of MMR", of which only the limit case is kept: the same again is no
             second hit, and nothing else loses its place ("3 cats" and "4 cats" lie closer than any measure tells).
    """
    kept: list[int] = []
    said: set[tuple[int, int]] = set()
    repeated = 0
    for row in rows.tolist():
        if len(kept) == top_k:
            break
        words = (int(data.columns.words[row]), int(data.columns.speaker[row]))
        if words in said:
            repeated += 1
        else:
            kept.append(row)
            said.add(words)
    return kept, repeated


def explain(hit: Ranked) -> Iterator[str]:
    """The parts of a hit's score, the largest first, one line each."""
    for name, part in sorted(hit.parts.items(), key=lambda item: (-abs(item[1]), item[0])):
        yield f"{part:+.3f} {name}"
