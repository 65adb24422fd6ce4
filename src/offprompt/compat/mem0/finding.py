"""Search in mem0's words: which memories may answer is decided before anything is ranked."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from offprompt.compat.mem0.asked import Search
from offprompt.compat.mem0.filters import Wanted
from offprompt.compat.mem0.reach import Reach
from offprompt.errors import UnsupportedError, UsageError
from offprompt.recall.filters import Fits, compile_filter
from offprompt.records import Hit, Memory, Recalled, Scope
from offprompt.records.slot import fold_name
from offprompt.records.values import moment
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.memory_recall import MAX_TOP_K, Asked, Recaller
from offprompt.service.reranking import reranked, reranker_of

TOP_K = 10


def found_by(reach: Reach, given: Search) -> tuple[list[Hit], list[str]]:
    """The hits, best first, and what is to be said of how they were found.

    threshold  no hit has a lower score; where it lies below the setting `recall_floor`, so does the evidence asked for.
    Several    branches that name different users or agents are asked one by one, and their hits joined by score.
    No words   a question of marks alone, such as `*`, finds nothing.
    Raises     UsageError, ForbiddenError.
    """
    if not given.query.strip():
        raise UsageError(f"query={given.query!r} asks nothing; give some words")
    kit = reach.memory.parts.memories.kit
    wanted = narrowed(reach.wanted(given.filters), categories_of(given.categories), given.metadata)
    top_k = given.top_k or given.limit or TOP_K
    floor = kit.settings.recall_floor
    asked = Asked(
        query=given.query.strip(),
        top_k=top_k,
        within="subtree",
        filters=None if wanted.only else wanted.fits,
        floor=floor if given.threshold is None else min(floor, given.threshold),
        today=moment("reference_date", given.reference_date),
        expired=bool(given.show_expired),
    )
    hits: list[Hit] = []
    warnings: list[str] = []
    roots = reach.roots(wanted.bounds)
    if all(unicodedata.category(mark)[0] in "PZC" for mark in given.query):
        return [], ["the question has no words; get_all lists"]
    for root in roots:
        found = _asked_in(kit, root, asked, rerank=bool(given.rerank), warnings=warnings)
        hits += found
        if found.degraded and found.degraded not in warnings:
            warnings.append(found.degraded)
    if given.latest_only is False:
        warnings.append("latest_only=false: what a newer statement took the place of is listed, but not searched")
    best = sorted(hits, key=lambda hit: (-hit.score, hit.memory_id))
    kept = [hit for hit in best if given.threshold is None or hit.score >= given.threshold][:top_k]
    kit.uses.add(*(hit.memory for hit in kept))
    return kept, warnings


def _asked_in(kit: MemoryKit, root: Scope, asked: Asked, *, rerank: bool, warnings: list[str]) -> Recalled:
    top_k = asked.top_k or TOP_K
    try:
        reranker = reranker_of(kit, root, rerank=True) if rerank else None
    except UnsupportedError as exc:
        reranker = None
        warnings += [] if str(exc) in warnings else [str(exc)]
    if reranker is None:
        return Recaller(kit, root).recall(asked)
    more = replace(asked, top_k=max(top_k, min(kit.settings.rerank_top, MAX_TOP_K)))
    return reranked(kit, root, str(asked.query), Recaller(kit, root).recall(more), reranker, top_k)


def categories_of(given: Sequence[str] | None) -> list[str]:
    """Categories as they are stored: tags, which are folded."""
    return [fold_name(one).strip() for one in given or ()]


def narrowed(
    wanted: Wanted, categories: Sequence[str], metadata: Mapping[str, Any] | None = None, keywords: Sequence[str] = ()
) -> Wanted:
    """The tree, and besides: any of the categories, these members of the metadata, any of the words."""
    more: list[Fits] = []
    if categories:
        more.append(compile_filter({"tags": {"in": list(categories)}}))
    if metadata:
        more.append(compile_filter({f"metadata.{name}": value for name, value in metadata.items()}))
    if keywords:
        more.append(compile_filter({"OR": [{"text": {"icontains": word}} for word in keywords]}))
    if not more:
        return wanted
    parts = [wanted.fits, *more]

    def fits(memory: Memory) -> bool:
        return all(part(memory) for part in parts)

    return Wanted(fits, wanted.bounds, only=False)
