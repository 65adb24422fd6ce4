"""A scope's memory as a model outside of any session may use it: what a tool server offers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, Literal

from offprompt.errors import NotFoundError, UsageError
from offprompt.recall.text import TextIndex, snippet
from offprompt.records import (
    MEMORY_KINDS,
    Body,
    Json,
    Memory,
    MemoryKind,
    MemoryPage,
    Remembered,
    Slot,
    clean_name,
    fold_name,
    text_of,
)
from offprompt.records.basis import plain_tags
from offprompt.records.known import Known as KnownLine
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.records.values import check_unversioned, checked_version
from offprompt.service.action_problems import RefusedError
from offprompt.service.memory_search import passages
from offprompt.service.model_doors import Door
from offprompt.service.model_rules import check_forget, check_forget_memory, check_name, is_own, twins_of
from offprompt.service.session_kit import date_of
from offprompt.wire.asking import asked_for
from offprompt.wire.referring import asks_what_is_known

SNIPPET_TOKENS: Final = 40
MAX_HITS: Final = 100
"""Slots and memories that a search finds at most, each."""


@dataclass(frozen=True, slots=True)
class Known:
    """A slot or a memory as a model sees it.

    name     the slot's name, or the memory's id. text: the value, or of a hit the part that fits the query best.
    tokens   of the whole value. source, day: whose words they are, and of which day (UTC).
    version  of the slot, or of the memory. foreign: a tool's or a document's text led to it. pinned: it never expires.
    """

    name: str
    kind: Literal["text", "json", "memory"]
    text: str
    tokens: int
    source: str
    day: str
    version: int
    foreign: bool
    pinned: bool = False


class ModelMemory:
    """What a model may do with one scope. Writes go to exactly this scope; reads find what it inherits.

    Secrets  values of the policy `never` are in no answer, however they are spelled; handles stand in their place.
    Names    that the application locked or holds a secret under are neither written nor forgotten.
    bodies   what holds the bodies of a conversation, by id: read as `@ID`.
    Raises   OffpromptError as `Slots` and `Memories` do; RefusedError where a model may not. Thread-safe.
    """

    def __init__(self, door: Door, *, bodies: Callable[[str], Body | None] | None = None) -> None:
        self._door, self.scope, self._bodies = door, door.scope, bodies

    def write(self, name: str, value: Json, *, if_version: int | None = None) -> Slot:
        """Write a value as a slot's next version; a long one is spread over parts.

        if_version  the version that must be current, 0 for "not there yet".
        Raises      as `Slots.write`; RefusedError.
        """
        name, door = clean_name(name), self._door
        checked_version(f"slot {name!r}", if_version)
        named = door.named(name)
        check_name(named, self.scope, name, lock_names=door.lock_names, foreign=door.trust == "tool")
        there = next((slot.name for slot in named if slot.scope == self.scope), name)
        return door.write(there, value, if_version)

    def correct(self, memory_id: str, text: str | None = None, *, pinned: bool | None = None) -> str:
        """Put another text in place of a memory's, or pin it, or no longer; its id. Its versions are kept.

        Raises   NotFoundError; ConflictError for another's; RefusedError where untrusted text led to it.
        """
        memory = self._memory(memory_id)
        check_forget_memory(memory, self.scope)
        if self._door.trust == "tool" and (memory.trust == "user" or pinned is not None):
            raise RefusedError(memory.memory_id, "conflict")
        self._door.correct_memory(memory.memory_id, text, pinned=pinned)
        return memory.memory_id

    def remember(self, text: str) -> list[Remembered]:
        """Store a text that is found by meaning; what became of it, followed by what rules derived from it."""
        return self._door.remember(text)

    def read(self, name: str) -> Known:
        """The slot of that name, the memory of that id, or the body of `@ID`, whole.

        Raises   NotFoundError naming what is spelled alike; RefusedError for a secret.
        """
        if is_id(name):
            return self._of_memory(self._memory(name), self._door.hider())
        if self._bodies is not None and name.startswith("@") and (body := self._bodies(name[1:])) is not None:
            text = self._door.hider()(body.text)
            tokens = self._door.tokenizer.count(text)
            return Known(f"@{body.body_id}", "text", text, tokens, "tool", date_of(body.at), 1, foreign=True)
        slot = self._door.get(name)
        if slot is None:
            raise self._nothing(name)
        if slot.policy == "never":
            raise RefusedError(slot.name, "never")
        return self._of_slot(slot, self._door.hider())

    def forget(self, name: str, *, if_version: int | None = None) -> str:
        """Hide a slot, or a memory with what was derived from it alone; its name. The application may undo it."""
        if is_id(name):
            check_unversioned(name, if_version)
            memory = self._memory(name)
            check_forget_memory(memory, self.scope)
            self._door.forget_memory(memory.memory_id)
            return memory.memory_id
        name = clean_name(name)
        checked_version(f"slot {name!r}", if_version)
        slot = self._door.slots.get(name, touch=False)
        if slot is None:
            raise self._nothing(name)
        check_forget(slot, self.scope)
        done = self._door.forget(slot.name, if_version)
        for twin in twins_of(slot, [each for each in self._door.slots.list() if is_own(each, self.scope)]):
            self._door.forget(twin.name, None)
        return done

    def search(self, query: str) -> list[Known]:
        """Slots and memories that fit a question, best first; of each the part that fits it best.

        Order    what it asks for by name or as identity, then slots found by words and memories by meaning, in turn.
        All      `what do you know about me?`, `你记得我什么` and the like ask for `about`.
        Raises   UsageError for an empty question.
        """
        if not query.strip():
            raise UsageError("the query is empty; give some words")
        if asks_what_is_known(query):
            return self.about()
        slots = {slot.name: slot for slot in self.slots()}
        hide, index = self._door.hider(), TextIndex[tuple[str, int]]()
        for slot in slots.values():
            tags = plain_tags(slot.tags)
            for at, piece in enumerate(passages(text_of(slot.value))):
                index.add((slot.name, at), " ".join([slot.name, slot.name.replace("_", " "), *tags, piece]))
        asked = asked_for(query, {name: slot.tags for name, slot in slots.items()})
        ranked = dict.fromkeys(name for (name, _), _ in index.search(query, len(index)))
        memories = self._door.memories.recall(query, top_k=MAX_HITS) if self._has_memories() else ()
        found = [self._of_slot(slots[name], hide) for name in dict.fromkeys([*asked, *ranked])]
        told = [self._of_memory(hit.memory, hide) for hit in memories]
        in_turn = [each for pair in zip_longest(found[len(asked) :], told) for each in pair if each is not None]
        best = [*found[: len(asked)], *in_turn][: 2 * MAX_HITS]
        return [
            replace(each, text=" ".join(snippet(each.text, query, max_tokens=SNIPPET_TOKENS).split())) for each in best
        ]

    def slots(self) -> list[Slot]:
        """The slots that it may see, by folded name; values as stored: what may be shown of them is for `known`."""
        seen = [slot for slot in self._door.slots.list() if slot.policy != "never"]
        return sorted(seen, key=lambda slot: fold_name(slot.name))

    def known(self, after: str = "") -> Iterator[Known]:
        """Everything it may see: slots by name, then memories in order of creation.

        after    a slot's name or a memory's id, which need not be there any more: what comes behind it.
        """
        hide, cursor = self._door.hider(), fold_name(after)
        if not is_id(after):
            for slot in self.slots():
                if fold_name(slot.name) > cursor:
                    yield self._of_slot(slot, hide)
            cursor = ""
        for page in self._pages(cursor):
            for memory in page:
                yield self._of_memory(memory, hide)

    def about(self) -> list[Known]:
        """What is known of whom this scope is about, each thing once: pinned ones first, then the newest.

        Texts    their beginnings; secrets are left out. Cost: O(slots and facts).
        """
        hide = self._door.hider()
        return [self._of_known(one, hide(one.text)) for one in self._door.known() if one.text]

    def _has_memories(self) -> bool:
        """Whether there is one: a short read, so that no embedder is loaded for none."""
        return len(self._door.memories.list(limit=1)) > 0

    def _pages(self, cursor: str, kinds: tuple[MemoryKind, ...] = MEMORY_KINDS) -> Iterator[MemoryPage]:
        """Memories in order of creation, page by page, behind a cursor."""
        while True:
            page = self._door.memories.list(kinds=kinds, limit=MAX_HITS, cursor=cursor)
            yield page
            cursor = page.cursor
            if not cursor:
                return

    def _memory(self, name: str) -> Memory:
        memory = self._door.memories.get(fold_name(name))
        if memory is None:
            raise NotFoundError(f"no memory {name[:40]!r}; find it by its words", name=name[:40])
        return memory

    def _nothing(self, name: str) -> NotFoundError:
        names = {fold_name(slot.name): slot.name for slot in self.slots()}
        alike = tuple(names[each] for each in difflib.get_close_matches(fold_name(name), names, n=3))
        hint = f"spelled alike: {', '.join(alike)}" if alike else "list the names"
        return NotFoundError(f"no slot {name[:64]!r}; {hint}", name=name[:64], alike=alike)

    def _of_slot(self, slot: Slot, hide: Callable[[str], str]) -> Known:
        text = hide(text_of(slot.value))
        source = "tool" if slot.trust == "tool" and slot.source != "document" else slot.source
        tokens, day = self._door.tokenizer.count(text), date_of(slot.updated_at)
        return Known(slot.name, slot.kind, text, tokens, source, day, slot.version, foreign=slot.trust == "tool")

    def _of_known(self, one: KnownLine, text: str) -> Known:
        kind = "memory" if one.kind == "fact" else "text"
        said = ("tool" if one.trust == "tool" else one.source, date_of(one.at), 0)
        short = snippet(text, "", max_tokens=SNIPPET_TOKENS)
        tokens, foreign = self._door.tokenizer.count(text), one.trust == "tool"
        return Known(one.name, kind, short, tokens, *said, foreign=foreign, pinned=one.pinned)

    def _of_memory(self, memory: Memory, hide: Callable[[str], str]) -> Known:
        text = hide(memory.text)
        source = "tool" if memory.trust == "tool" else memory.role or memory.source
        tokens, day = self._door.tokenizer.count(text), date_of(memory.happened_at)
        foreign = memory.trust == "tool"
        return Known(memory.memory_id, "memory", text, tokens, source, day, memory.version, foreign=foreign)


def is_id(name: str) -> bool:
    """Whether a name is kept for the ids of memories."""
    return fold_name(name).startswith(RESERVED_PREFIX)
