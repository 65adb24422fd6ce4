"""Recall: the memories of a scope that answer a question."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from offprompt.errors import BackendError, UnsupportedError, UsageError
from offprompt.protocols import apply
from offprompt.recall.chunks import embed
from offprompt.recall.docs import Query, Weights
from offprompt.recall.filters import Fits, compile_filter
from offprompt.recall.telling import telling_words
from offprompt.records import (
    MEMORY_KINDS,
    WITHIN,
    Hit,
    ListMemories,
    Memory,
    MemoryKind,
    MemoryQuery,
    MemoryState,
    Recalled,
    Scope,
    Within,
    as_list,
)
from offprompt.records.values import checked_choice, checked_count
from offprompt.service.closeness import Close, best_of, is_large, lacking, with_cosines, words_of
from offprompt.service.memory_index import Searchable
from offprompt.service.memory_kit import MemoryKit
from offprompt.wire.asking import asks_identity
from offprompt.wire.payload import parts_of, plain

FEW_WORDS: Final = 4
"""Below so many telling words a user's text is read with the one before it."""

MAX_TOP_K: Final = 1000

NO_EMBEDDER: Final = "searched by words alone: the setting embedder is none"

ASKED: Final = 1.0
"""What being asked for adds to a score: more than all that is found by meaning has."""

NAMED: Final = 0.1
"""The same where only a word of the question is what the fact is about: "how old is my daughter" names a daughter."""

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Asked:
    """A recall as it was asked for; see `Memories.recall`.

    filters    as there, or compiled. today: what "last week" is counted from where that is not `as_of`, or now.
    expired    what has expired and is not swept yet is found too. Cost then: O(memories), their texts analysed.
    """

    query: str | Sequence[Mapping[str, Any]]
    top_k: int | None = None
    within: Within = "inherit"
    filters: Mapping[str, Any] | Fits | None = None
    since: float | None = None
    until: float | None = None
    as_of: float | None = None
    kinds: tuple[MemoryKind, ...] = MEMORY_KINDS
    floor: float | None = None
    weights: Mapping[str, float] | None = None
    today: float | None = None
    expired: bool = False


class Recaller:
    """Answers for one scope."""

    def __init__(self, kit: MemoryKit, scope: Scope) -> None:
        self._kit, self.scope = kit, scope

    def recall(self, asked: Asked, made: tuple[Query, str] | None = None) -> Recalled:
        """The answer, each hit with its parts.

        made     what `query` gave for the same question.
        Raises   UsageError for what cannot be asked.
        """
        checked_choice("within", asked.within, WITHIN)
        query, degraded = self.query(asked) if made is None else made
        fits = asked.filters if callable(asked.filters) else None
        if fits is None and asked.filters is not None:
            fits = compile_filter(asked.filters)
        now = self._kit.clock.now()
        if asked.as_of is not None and asked.as_of < now:
            past = self._past(asked)
            return _answer(past, _filtered(past, query, fits), degraded)
        if asked.expired:
            there = self._index([row for over in (False, True) for row in self._listed(asked.within, expired=over)])
            return _answer(there, _filtered(there, query, fits), degraded)
        hits = None if fits is not None else words_of(self._kit, query, self.scope, asked.within)
        if hits is not None:
            best, query, more = best_of(self._kit, query, self.scope, asked.within, hits)
            return replace(_answer(best, query, degraded or more), searched=hits.texts)
        return self._kept(asked, query, fits, degraded)

    def _kept(self, asked: Asked, query: Query, fits: Fits | None, degraded: str) -> Recalled:
        """The answer from all memories of the scope, which are kept between calls."""
        kit = self._kit
        close = Close(query) if fits is not None else with_cosines(kit, query, self.scope, asked.within)
        with kit.index.open(kit.memories, self.scope, asked.within, kit.clock.now()) as kept:
            if fits is not None:
                close = with_cosines(kit, _filtered(kept, query, fits), self.scope, asked.within)
            if is_large(kit, kept):
                kit.index.let_go(self.scope, asked.within)
            return _answer(kept, close.query, degraded or close.degraded or lacking(close, kept))

    def query(self, asked: Asked) -> tuple[Query, str]:
        """What the index is asked, and why it is asked by words alone; empty: it is not.

        Raises   UsageError for what cannot be asked.
        """
        text = question_of(asked.query)
        settings, embedder = self._kit.settings, self._kit.embedder
        top_k = _given(asked.top_k, settings.recall_top)
        checked_count("top_k", top_k)
        if not 1 <= top_k <= MAX_TOP_K:
            raise UsageError(f"top_k={top_k}: ask for 1 to {MAX_TOP_K} memories")
        floor = _given(asked.floor, settings.recall_floor)
        if not isinstance(floor, (int, float)) or not 0 <= floor <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"floor={floor!r}: give a number from 0 to 1")
        vector, degraded = None, NO_EMBEDDER if embedder is None else ""
        if embedder is not None:
            try:
                vector = embed(embedder, [text], kind="query")[0]
            except (BackendError, UnsupportedError) as exc:
                degraded = f"searched by words alone: {exc}"
        query = Query(
            text=text,
            vector=vector,
            now=_given(asked.as_of, _given(asked.today, self._kit.clock.now())),
            as_of=asked.as_of,
            since=asked.since,
            until=asked.until,
            kinds=None if asked.kinds == MEMORY_KINDS else frozenset(asked.kinds),
            top_k=top_k,
            floor=floor,
            weights=_weights(asked.weights),
        )
        return query, degraded

    def _past(self, asked: Asked) -> Searchable:
        """What was known at a time that is over, in an index of its own. Cost: O(memories), their texts analysed."""
        at = asked.as_of or 0.0
        states: tuple[MemoryState, ...] = ("live", "superseded", "archived")
        rows = self._listed(asked.within, states)
        known = {row.memory_id: row for row in rows}
        there = [row for row in rows if row.created_at <= at and _held(row, at, known)]
        return self._index(there)

    def _listed(
        self, within: Within, states: tuple[MemoryState, ...] = ("live",), *, expired: bool = False
    ) -> list[Memory]:
        query = MemoryQuery(self.scope, within, states=states, expired=expired)
        return apply(self._kit.memories, ListMemories(query))

    def _index(self, rows: Sequence[Memory]) -> Searchable:
        return self._kit.index.of(self._kit.memories, rows)


def question_of(query: object) -> str:
    """The text that is asked.

    query    a text, or the conversation so far: its newest user text, with the user's one before it where that has
             fewer than four telling words ("还是不行", "and the other one?").
    Raises   UsageError if there is none.
    """
    if isinstance(query, str):
        if not query.strip():
            raise UsageError(f"query={query!r} asks nothing; give some words")
        return query
    messages = as_list(query)
    if messages is None:
        raise UsageError(f"query is a {type(query).__name__}; give a text, or the messages so far")
    said: list[str] = []
    for at, item in enumerate(messages):
        message = plain(item, f"query[{at}]")
        if message.get("role") == "user":
            texts = [str(part["text"]) for part in parts_of(message) if isinstance(part.get("text"), str)]
            said += ["\n".join(texts)] if any(text.strip() for text in texts) else []
    if not said:
        raise UsageError("query holds no message of a user with text; give the conversation, or a text")
    return "\n".join(said[-2:]) if telling_words(said[-1]) < FEW_WORDS else said[-1]


def _held(memory: Memory, at: float, known: Mapping[str, Memory]) -> bool:
    """Whether a memory held at a time, as far as the records tell.

    known    by id. A statement holds until a newer one is stored, whenever what that one tells of happened.
    """
    if memory.state == "live":
        return memory.expires_at is None or memory.pinned or memory.expires_at > at
    newer = known.get(memory.superseded_by)
    if newer is not None:
        while newer is not None and newer.created_at > at:
            newer = known.get(newer.superseded_by)
        return newer is None
    return memory.state_at is not None and memory.state_at > at


def _weights(given: Mapping[str, float] | None) -> Weights:
    """The weights with those that are given.

    Raises   UsageError for an unknown part, or what is no finite number.
    """
    known = [item.name for item in fields(Weights)]
    for name, value in (given or {}).items():
        if name not in known:
            raise UsageError(f"weights: {name!r} is no part of a score; the parts are {', '.join(known)}")
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"weights: {name}={value!r}; give a number")
        if name == "half_life_s" and value <= 0:
            raise UsageError(f"weights: half_life_s={value!r}; give a number of seconds above 0")
    return replace(Weights(), **(given or {}))


def _given(value: V | None, default: V) -> V:
    return default if value is None else value


def _filtered(kept: Searchable, query: Query, fits: Fits | None) -> Query:
    """The query over what passes the filter."""
    if fits is None:
        return query
    return replace(query, ids=frozenset(name for name, memory in kept.memories.items() if fits(memory)))


def _answer(kept: Searchable, query: Query, degraded: str) -> Recalled:
    """The hits: first the facts that the question asks for by what they are about, then what is found by meaning."""
    found = kept.index.search(query)
    hits = [Hit(kept.memories[one.doc_id], one.score, {**one.parts, "evidence": one.evidence}) for one in found.hits]
    first = _asked(kept, query, hits)
    if asks_identity(query.text):
        hits = _of_nobody_else(kept, hits)
    rest = [hit for hit in hits if hit.memory_id not in {one.memory_id for one in first}]
    hits = sorted([*first, *rest], key=lambda hit: -hit.score)[: query.top_k]
    if not degraded and kept.bare:
        degraded = f"{len(kept.bare)} memories have no vector of this embedder and are found by words alone; reindex"
    why = ""
    if not hits:
        why = "there is nothing to be found" if not found.searched else "nothing lies above the floor"
    return Recalled(tuple(hits), found.searched, found.below_floor, why, degraded)


def _of_nobody_else(kept: Searchable, hits: Sequence[Hit]) -> list[Hit]:
    """The hits of which no rule knows what they are about: "my name" is not what the daughter or the dog is called."""
    told = {memory.source_id for memory in kept.memories.values() if memory.source_id}
    return [hit for hit in hits if not hit.memory.attribute and hit.memory_id not in told]


def _asked(kept: Searchable, query: Query, hits: Sequence[Hit]) -> list[Hit]:
    """The facts that the question asks for by what they are about, the best first, then the newest."""
    scores = {hit.memory_id: hit for hit in hits}
    found: list[Hit] = []
    for memory_id, why in kept.topics.asked(query.text).items():
        memory = kept.memories[memory_id]
        fits = (
            (query.ids is None or memory_id in query.ids)
            and (query.kinds is None or memory.kind in query.kinds)
            and (query.as_of is None or memory.created_at <= query.as_of)
            and (query.since is None or memory.happened_at >= query.since)
            and (query.until is None or memory.happened_at < query.until)
        )
        if fits:
            hit = scores.get(memory_id) or Hit(memory, 0.0)
            adds = NAMED if why == "name" else ASKED
            found.append(Hit(memory, hit.score + adds, {**hit.parts, "evidence": 1.0, "asked": adds}))
    return sorted(found, key=lambda hit: (-hit.score, -hit.memory.happened_at, hit.memory_id))
