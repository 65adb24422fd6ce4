"""The memories of scopes as recall searches them, kept between calls and brought up to date from the store."""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from msgspec.structs import replace as replaced

from offprompt.models.by_kind import zeros_of
from offprompt.protocols import Embedder, MemoryStore, apply
from offprompt.recall.docs import Doc, without_vector
from offprompt.recall.scope_index import ScopeIndex
from offprompt.records import (
    Indexed,
    ListMemories,
    LoadIndex,
    Memory,
    MemoryQuery,
    MemoryScopes,
    Scope,
    ScopeRevisions,
    Within,
)
from offprompt.service.indexing import doc_of, has_vector, uses_of
from offprompt.service.topics import Topics

Place: TypeAlias = tuple[tuple[Scope, ...], Within]
"""The scopes in which a query looks, or of a subtree the one above; scopes that are equal may inherit differently."""

MAX_SCOPES: Final = 64
"""Scopes kept; the one that was not used for the longest time goes first."""


@dataclass(slots=True)
class Searchable:
    """The live memories that a query of one scope may find.

    memories  by id. topics: what facts are about. bare: those without a vector of the embedder.
    vectors   whether their vectors are kept here; no where an index elsewhere has them.
    Use      inside `IndexCache.open` only.
    """

    index: ScopeIndex
    vectors: bool = True
    memories: dict[str, Memory] = field(default_factory=dict[str, Memory])
    bare: set[str] = field(default_factory=set[str])
    topics: Topics = field(default_factory=Topics)
    _revisions: dict[Scope, int] = field(default_factory=dict[Scope, int])
    _expiring: dict[str, float] = field(default_factory=dict[str, float])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self, store: MemoryStore, scopes: Sequence[Scope], embedder: Embedder | None, now: float) -> None:
        """As the store has it, without what is over."""
        revisions = apply(store, ScopeRevisions(tuple(scopes)))
        changed = [
            (scope, self._revisions.get(scope, 0))
            for scope, revision in zip(scopes, revisions, strict=True)
            if revision != self._revisions.get(scope, 0)
        ]
        for scope in self._revisions.keys() - set(scopes):
            self._drop(scope)
        if changed:
            with _uncollected():
                self._load(store, changed, embedder)
        for memory_id in [memory_id for memory_id, end in self._expiring.items() if end <= now]:
            self._remove(memory_id)

    def _load(self, store: MemoryStore, changed: Sequence[tuple[Scope, int]], embedder: Embedder | None) -> None:
        """What changed in scopes since a revision of each."""
        pages = store.apply([LoadIndex(scope, after) for scope, after in changed])
        docs: list[Doc] = []
        for (scope, _), page in zip(changed, pages, strict=True):
            if page.whole:
                self._drop(scope)
            for memory_id in page.gone:
                self._remove(memory_id)
            docs += [
                self.taken(memory, indexed, embedder)
                for memory, indexed in page.rows
                if not self._is_counted(memory, indexed, embedder)
            ]
            self._revisions[scope] = page.revision
        if docs:
            self.index.add(docs)

    def _is_counted(self, memory: Memory, indexed: Indexed | None, embedder: Embedder | None) -> bool:
        """Whether the memory was recalled and is otherwise as it was; then its uses are set, and that is all."""
        before = self.memories.get(memory.memory_id)
        if before is None or (memory.memory_id in self.bare) is has_vector(memory, indexed, embedder):
            return False
        if replace(before, uses=memory.uses, used_at=memory.used_at, revision=memory.revision) != memory:
            return False
        self.memories[memory.memory_id] = memory
        self.index.set_uses(memory.memory_id, uses_of(memory))
        return True

    def taken(self, memory: Memory, indexed: Indexed | None, embedder: Embedder | None) -> Doc:
        """The memory noted; what is returned is still to be added to the index."""
        doc, has_vector = doc_of(memory, indexed, embedder)
        if not self.vectors:
            doc = replaced(doc, content=without_vector(doc.content))
        if (before := self.memories.get(memory.memory_id)) is not None:
            self.topics.remove(before)
        self.memories[memory.memory_id] = memory
        self.topics.add(memory)
        (self.bare.discard if has_vector else self.bare.add)(memory.memory_id)
        self._expiring.pop(memory.memory_id, None)
        if memory.expires_at is not None and not memory.pinned:
            self._expiring[memory.memory_id] = memory.expires_at
        return doc

    def _drop(self, scope: Scope) -> None:
        for memory_id in [each.memory_id for each in self.memories.values() if each.scope == scope]:
            self._remove(memory_id)
        self._revisions.pop(scope, None)

    def _remove(self, memory_id: str) -> None:
        self.index.remove(memory_id)
        if (memory := self.memories.pop(memory_id, None)) is not None:
            self.topics.remove(memory)
        self._expiring.pop(memory_id, None)
        self.bare.discard(memory_id)

    @contextmanager
    def held(self) -> Generator[None]:
        """Nobody else uses it meanwhile."""
        with self._lock:
            yield


@contextmanager
def _uncollected() -> Generator[None]:
    """Nothing that is made meanwhile is garbage, so the collector need not look through it: a fifth of a cold load."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class IndexCache:
    """Searchables by scope, made when first asked for. Thread-safe.

    vectors  whether they are kept; no where an index elsewhere has them.
    Memory   some 3 KB for each memory of a kept scope: its record, terms and vector.
    """

    def __init__(self, embedder: Embedder | None, *, vectors: bool = True) -> None:
        self._embedder, self._vectors = embedder, vectors
        self._lock = threading.Lock()
        self._kept: OrderedDict[Place, Searchable] = OrderedDict()
        self._about: OrderedDict[Place, tuple[tuple[int, ...], tuple[Memory, ...]]] = OrderedDict()

    @contextmanager
    def open(self, store: MemoryStore, scope: Scope, within: Within, now: float) -> Generator[Searchable]:
        """The memories that a query of the scope finds, as the store has them now; nobody else uses them meanwhile."""
        place = _place(scope, within)
        scopes: Sequence[Scope] = place[0]
        if within == "subtree":
            scopes = [found for found, _ in apply(store, MemoryScopes(scope))]
        kept = self._get(place)
        with kept.held():
            kept.update(store, scopes, self._embedder, now)
            yield kept

    def drop(self, scope: Scope) -> None:
        """Let go of all that was kept for queries which find memories of a scope, or of one below it."""
        with self._lock:
            for place in [*self._kept, *self._about]:
                if any(scope.holds(one) or (place[1] == "subtree" and one.holds(scope)) for one in place[0]):
                    self._kept.pop(place, None)
                    self._about.pop(place, None)

    def holds(self, scope: Scope, within: Within) -> bool:
        """Whether the memories that a query of the scope finds are kept."""
        with self._lock:
            return _place(scope, within) in self._kept

    def let_go(self, scope: Scope, within: Within) -> None:
        """Keep them no longer."""
        with self._lock:
            self._kept.pop(_place(scope, within), None)

    def about(self, store: MemoryStore, scope: Scope, within: Within) -> tuple[Memory, ...]:
        """The facts that say what they are about, of a scope that is not loaded; kept until the scope changes."""
        query = ListMemories(MemoryQuery(scope, within, about=True))
        if within == "subtree":
            return tuple(apply(store, query))
        place = _place(scope, within)
        scopes = place[0]
        revisions = apply(store, ScopeRevisions(scopes))
        with self._lock:
            known = self._about.get(place)
        if known is not None and known[0] == revisions:
            return known[1]
        revisions, found = store.apply([ScopeRevisions(scopes), query])
        with self._lock:
            self._about[place] = revisions, tuple(found)
            while len(self._about) > MAX_SCOPES:
                self._about.popitem(last=False)
        return tuple(found)

    def of(self, store: MemoryStore, memories: Sequence[Memory]) -> Searchable:
        """These memories by themselves, whatever their state. Cost: O(memories), with the texts that are not live."""
        pages = store.apply([LoadIndex(scope) for scope in dict.fromkeys(memory.scope for memory in memories)])
        derived = {one.memory_id: one for page in pages for _, one in page.rows if one is not None}
        return self.made([(memory, derived.get(memory.memory_id)) for memory in memories])

    def made(self, pairs: Sequence[tuple[Memory, Indexed | None]]) -> Searchable:
        """Memories with what is derived from them, by themselves, with their vectors."""
        made = Searchable(self._new())
        made.index.add([made.taken(memory, indexed, self._embedder) for memory, indexed in pairs])
        return made

    def _new(self) -> ScopeIndex:
        zeros, spread = zeros_of(self._embedder)
        unrelated = 0.0 if self._embedder is None else self._embedder.unrelated
        return ScopeIndex(unrelated=unrelated, zeros=zeros, spread=spread)

    def _get(self, place: Place) -> Searchable:
        with self._lock:
            if place not in self._kept:
                self._kept[place] = Searchable(self._new(), self._vectors)
            self._kept.move_to_end(place)
            while len(self._kept) > MAX_SCOPES:
                self._kept.popitem(last=False)
            return self._kept[place]


def _place(scope: Scope, within: Within) -> Place:
    return (scope.inherited() if within == "inherit" else (scope,)), within
