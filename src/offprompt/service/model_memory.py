"""A scope's memory as a model outside of any session may use it: what a tool server offers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, Literal

from offprompt.errors import NotFoundError, UsageError
from offprompt.protocols import apply
from offprompt.recall.text import TextIndex, snippet
from offprompt.records import (
    GetSlot,
    Json,
    ListMemories,
    Memory,
    MemoryQuery,
    Remembered,
    Scope,
    Slot,
    Trust,
    clean_name,
    fold_name,
    text_of,
)
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.action_problems import RefusedError
from offprompt.service.exporting import secret_hider
from offprompt.service.memories import Memories
from offprompt.service.memory_search import passages
from offprompt.service.model_rules import check_forget, check_forget_memory, check_name, is_own, twins_of
from offprompt.service.offprompt import BoundScope, Parts
from offprompt.service.policies import may_be_shown
from offprompt.service.remembering import Marks, Rememberer, Said
from offprompt.service.session_kit import date_of
from offprompt.service.slot_writer import Writer
from offprompt.wire.asking import asked_for

SNIPPET_TOKENS: Final = 40
MAX_HITS: Final = 100
"""Slots and memories that a search finds at most, each."""


@dataclass(frozen=True, slots=True)
class Known:
    """A slot or a memory as a model sees it.

    name     the slot's name, or the memory's id. text: the value, or of a hit the part that fits the query best.
    tokens   of the whole value. source, day: whose words they are, and of which day (UTC).
    version  of the slot, or of the memory. foreign: a tool's or a document's text led to it.
    """

    name: str
    kind: Literal["text", "json", "memory"]
    text: str
    tokens: int
    source: str
    day: str
    version: int
    foreign: bool


class ModelMemory:
    """What a model may do with one scope. Writes go to exactly this scope; reads find what it inherits.

    trust    of what it writes: `user`, or `tool` where untrusted text may have led to it; see docs/mcp.md.
    via      what events call it, beside whoever it acts for.
    Secrets  values of the policy `never` are in no answer, however they are spelled; handles stand in their place.
    Names    that the application locked or holds a secret under are neither written nor forgotten.
    Raises   OffpromptError as `Slots` and `Memories` do; RefusedError where a model may not. Thread-safe.
    """

    def __init__(self, parts: Parts, bound: BoundScope, *, trust: Trust = "user", via: str = "model") -> None:
        self._parts, self._bound, self.scope = parts, bound, bound.scope
        self._slots = bound.slots
        self._writer = Writer("model", trust, bound.actor.via(via))

    @property
    def _memories(self) -> Memories:
        return self._bound.memories

    def write(self, name: str, value: Json, *, if_version: int | None = None) -> Slot:
        """Write a value as a slot's next version; a long one is spread over parts.

        if_version  the version that must be current, 0 for "not there yet".
        Raises      as `Slots.write`; RefusedError.
        """
        name = clean_name(name)
        found: list[Slot | None] = self._parts.slots.batch([GetSlot(each, name) for each in self.scope.inherited()])
        named = [slot for slot in found if slot is not None]
        settings = self._parts.settings
        check_name(named, self.scope, name, lock_names=settings.lock_names, foreign=self._writer.trust == "tool")
        there = next((slot.name for slot in named if slot.scope == self.scope), name)
        if self._parts.spool is not None:
            self._parts.spool.make_way()
        return self._slots.write_as(self._writer, there, value, split=True, if_version=if_version)

    def remember(self, text: str) -> list[Remembered]:
        """Store a text that is found by meaning; what became of it, followed by what rules derived from it."""
        marks = Marks(source="model", trust=self._writer.trust, actor=self._writer.actor)
        return Rememberer(self._parts.memories.kit, self._memories.scope).store([Said(text)], marks)

    def read(self, name: str) -> Known:
        """The slot of that name, or the memory of that id, whole.

        Raises   NotFoundError naming what is spelled alike; RefusedError for a secret.
        """
        if fold_name(name).startswith(RESERVED_PREFIX):
            return self._of_memory(self._memory(name), self._hide)
        slot = self._slots.get(name, actor=self._writer.actor)
        if slot is None:
            raise self._nothing(name)
        if slot.policy == "never":
            raise RefusedError(slot.name, "never")
        return self._of_slot(slot, self._hide)

    def forget(self, name: str, *, if_version: int | None = None) -> str:
        """Hide a slot, or a memory with what was derived from it alone; its name. The application may undo it."""
        if fold_name(name).startswith(RESERVED_PREFIX):
            memory = self._memory(name)
            check_forget_memory(memory, self.scope)
            self._memories.forget(memory.memory_id, actor=self._writer.actor, trust=self._writer.trust)
            return memory.memory_id
        slot = self._slots.get(clean_name(name), touch=False)
        if slot is None:
            raise self._nothing(name)
        check_forget(slot, self.scope)
        done = self._slots.forget(slot.name, if_version=if_version, writer=self._writer)
        for twin in twins_of(slot, [each for each in self._slots.list() if is_own(each, self.scope)]):
            self._slots.forget(twin.name, writer=self._writer)
        return done

    def search(self, query: str) -> list[Known]:
        """Slots and memories that fit a question, best first; of each the part that fits it best.

        Order    what it asks for by name or as identity, then slots found by words and memories by meaning, in turn.
        Raises   UsageError for an empty question.
        """
        if not query.strip():
            raise UsageError("the query is empty; give some words")
        slots = {slot.name: slot for slot in self.slots()}
        hide, index = self._hide, TextIndex[tuple[str, int]]()
        for slot in slots.values():
            for at, piece in enumerate(passages(text_of(slot.value))):
                index.add((slot.name, at), " ".join([slot.name, slot.name.replace("_", " "), *slot.tags, piece]))
        asked = asked_for(query, {name: slot.tags for name, slot in slots.items() if may_be_shown(slot)})
        ranked = dict.fromkeys(name for (name, _), _ in index.search(query, len(index)))
        memories = self._memories.recall(query, top_k=MAX_HITS) if self._has_memories() else ()
        found = [self._of_slot(slots[name], hide) for name in dict.fromkeys([*asked, *ranked])]
        told = [self._of_memory(hit.memory, hide) for hit in memories]
        in_turn = [each for pair in zip_longest(found[len(asked) :], told) for each in pair if each is not None]
        best = [*found[: len(asked)], *in_turn][: 2 * MAX_HITS]
        return [
            replace(each, text=" ".join(snippet(each.text, query, max_tokens=SNIPPET_TOKENS).split())) for each in best
        ]

    def slots(self) -> list[Slot]:
        """The slots that it may see, by folded name; values as stored: what may be shown of them is for `known`."""
        seen = [slot for slot in self._slots.list() if slot.policy != "never"]
        return sorted(seen, key=lambda slot: fold_name(slot.name))

    def known(self, after: str = "") -> Iterator[Known]:
        """Everything it may see: slots by name, then memories in order of creation.

        after    a slot's name or a memory's id, which need not be there any more: what comes behind it.
        """
        hide, folded = self._hide, fold_name(after)
        if not folded.startswith(RESERVED_PREFIX):
            for slot in self.slots():
                if fold_name(slot.name) > folded:
                    yield self._of_slot(slot, hide)
            folded = ""
        yield from self._listed(folded, hide)

    def profile(self) -> list[Known]:
        """What is known of whom this scope is about: slots that are shown when asked for, most used first."""
        hide = self._hide
        ranked = [
            slot for slot, _ in self._slots.rank() if slot.policy in ("card", "when_asked") and may_be_shown(slot)
        ]
        return [self._of_slot(slot, hide) for slot in ranked]

    def recent(self) -> list[Known]:
        """The facts that were remembered, newest first; at most as many as a search finds."""
        hide = self._hide
        rows = apply(self._parts.memories.store, ListMemories(MemoryQuery(self._own, "inherit", kinds=("fact",))))
        return [self._of_memory(memory, hide) for memory in rows[: -MAX_HITS - 1 : -1]]

    @property
    def _own(self) -> Scope:
        return self.scope.without_session()

    def _has_memories(self) -> bool:
        """Whether there is one: a short read, so that no embedder is loaded for none."""
        return bool(apply(self._parts.memories.store, ListMemories(MemoryQuery(self._own, "inherit", limit=1))))

    def _listed(self, after: str, hide: Callable[[str], str]) -> Iterator[Known]:
        query = MemoryQuery(self._own, "inherit", after=after, limit=MAX_HITS)
        while rows := apply(self._parts.memories.store, ListMemories(query)):
            for memory in rows:
                yield self._of_memory(memory, hide)
            query = replace(query, after=rows[-1].memory_id)

    def _memory(self, name: str) -> Memory:
        memory = self._memories.get(fold_name(name))
        if memory is None:
            raise NotFoundError(f"no memory {name[:40]!r}; find it by its words", name=name[:40])
        return memory

    def _nothing(self, name: str) -> NotFoundError:
        names = {fold_name(slot.name): slot.name for slot in self.slots()}
        alike = tuple(names[each] for each in difflib.get_close_matches(fold_name(name), names, n=3))
        hint = f"spelled alike: {', '.join(alike)}" if alike else "list the names"
        return NotFoundError(f"no slot {name[:64]!r}; {hint}", name=name[:64], alike=alike)

    @property
    def _hide(self) -> Callable[[str], str]:
        """Puts handles in place of secrets; they are looked up once an answer."""
        return secret_hider(self._parts.memories.kit, self.scope)

    def _of_slot(self, slot: Slot, hide: Callable[[str], str]) -> Known:
        text = hide(text_of(slot.value))
        source = "tool" if slot.trust == "tool" and slot.source != "document" else slot.source
        tokens, day = self._parts.tokenizer.count(text), date_of(slot.updated_at)
        return Known(slot.name, slot.kind, text, tokens, source, day, slot.version, foreign=slot.trust == "tool")

    def _of_memory(self, memory: Memory, hide: Callable[[str], str]) -> Known:
        text = hide(memory.text)
        source = "tool" if memory.trust == "tool" else memory.role or memory.source
        tokens, day = self._parts.tokenizer.count(text), date_of(memory.happened_at)
        foreign = memory.trust == "tool"
        return Known(memory.memory_id, "memory", text, tokens, source, day, memory.version, foreign=foreign)
