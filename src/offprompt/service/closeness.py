"""What lies close to a question, where an index knows it: the cosines of a kept scope, the best of a very large one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, cast

from offprompt.protocols import WordIndex, apply
from offprompt.recall.analysis import search_terms
from offprompt.recall.docs import Query
from offprompt.records import (
    LoadMemories,
    Memory,
    MemoryKind,
    Scope,
    Sought,
    Within,
    WordHits,
)
from offprompt.service import vector_link
from offprompt.service.memory_index import Searchable
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.topics import Topics

CANDIDATES: Final = 200
"""Memories of a very large scope that are looked at for lying close, and as many for their words."""


@dataclass(frozen=True, slots=True)
class Close:
    """A query with what an index knows.

    degraded  why it knows nothing; empty if it does. behind: ids whose last change it may not have.
    """

    query: Query
    degraded: str = ""
    behind: frozenset[str] = frozenset()


def sought_of(query: Query, scope: Scope, within: Within) -> Sought:
    """Which memories the query may find, as an index is asked for them."""
    kinds = None if query.kinds is None else cast("frozenset[MemoryKind]", query.kinds)
    return Sought(scope, within, kinds, query.since, query.until, query.ids)


def with_cosines(kit: MemoryKit, query: Query, scope: Scope, within: Within) -> Close:
    """The query with the cosines of what lies closest, where an index is asked for those of kept scopes; else as it is.

    Raises   UsageError if the index is of another dimension than the embedder.
    """
    link = kit.vectors
    if link is None or link.words is not None or query.vector is None:
        return Close(query)
    behind = frozenset(link.behind(scope.app))
    cosines, why = link.nearest(query.vector, sought_of(query, scope, within))
    if why:
        return Close(replace(query, vector=None), f"searched by words alone: {why}", behind)
    known = {memory_id: cosine for memory_id, cosine in cosines.items() if memory_id not in behind}
    return Close(replace(query, cosines=known), "", behind)


def lacking(close: Close, kept: Searchable) -> str:
    """What of a kept scope the index does not have, in words; empty if it has all, or was not asked for all."""
    query = close.query
    if query.cosines is None:
        return ""
    behind = len(close.behind & kept.memories.keys())
    if behind:
        return f"{behind} memories changed, and the vector index does not have it yet: found by words alone"
    narrowed = (query.kinds, query.since, query.until, query.ids) != (None, None, None, None)
    due = min(len(kept.memories) - len(kept.bare), vector_link.CANDIDATES)
    if narrowed or len(query.cosines) >= due:
        return ""
    missing = f"{due - len(query.cosines)} memories that are not in the vector index"
    return f"{missing} are found by words alone; offprompt reindex"


def words_of(kit: MemoryKit, query: Query, scope: Scope, within: Within) -> WordHits | None:
    """What a very large scope holds of the question's words; None of one that is loaded whole and searched exactly.

    Cost     nothing for a scope that is kept, or with a store that is no WordIndex; else one search of it.
    """
    words = None if kit.vectors is None else kit.vectors.words
    if words is None or kit.index.holds(scope, within):
        return None
    found = words.words(_terms(query), sought_of(query, scope, within), limit=CANDIDATES)
    return found if found.texts > kit.settings.exact_scope else None


def best_of(
    kit: MemoryKit, query: Query, scope: Scope, within: Within, hits: WordHits
) -> tuple[Searchable, Query, str]:
    """The memories of a very large scope that may answer the question, and the query over them.

    Which    those that lie closest, those that hold most of its words, facts that it asks for by what they are about,
             what the index may not know yet, and the turns beside them. Their vectors and the scope's word statistics
             are the true ones; how much of the question a session holds is told from these turns alone.
    Returns  also why none were looked for by closeness; empty if some were.
    Cost     O(candidates), whatever the scope holds, and O(facts with an attribute), loaded when the scope changed.
    """
    link = kit.vectors
    near, why = {}, ""
    if link is not None and query.vector is not None:
        near, why = link.nearest(query.vector, sought_of(query, scope, within), limit=CANDIDATES)
    about = [one for one in kit.index.about(kit.memories, scope, within) if not _is_over(one, kit.clock.now())]
    topics = Topics()
    for memory in about:
        topics.add(memory)
    behind = () if link is None else link.behind(scope.app)[:CANDIDATES]
    ids = dict.fromkeys([*near, *hits.ids, *topics.asked(query.text), *behind])
    pairs = apply(kit.memories, LoadMemories(scope.app, tuple(ids)))
    turns = [memory.memory_id for memory, _ in pairs if memory.kind == "episode"]
    words = None if link is None else link.words
    beside = words.beside(scope.app, turns) if words is not None and turns else ()
    pairs += apply(kit.memories, LoadMemories(scope.app, beside)) if beside else []
    # An index that is behind may name what is another's by now.
    own = [pair for pair in pairs if pair[0].state == "live" and _is_in(pair[0].scope, scope, within)]
    made = kit.index.made(own)
    made.topics = topics
    made.memories = {memory.memory_id: memory for memory in about} | made.memories
    return made, replace(query, of_scope=hits), f"searched by words alone: {why}" if why else ""


def _is_in(place: Scope, scope: Scope, within: Within) -> bool:
    if within == "subtree":
        return scope.holds(place)
    return place in (scope.inherited() if within == "inherit" else (scope,))


def _is_over(memory: Memory, now: float) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now and not memory.pinned


def _terms(query: Query) -> tuple[str, ...]:
    return tuple(sorted(search_terms(query.text)))


def is_large(kit: MemoryKit, kept: Searchable) -> bool:
    """Whether a kept scope has become so large that it is no longer loaded whole."""
    words: WordIndex | None = None if kit.vectors is None else kit.vectors.words
    return words is not None and len(kept.index) > kit.settings.exact_scope
