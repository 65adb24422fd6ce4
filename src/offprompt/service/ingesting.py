"""Ingest: a document becomes passages of a space, and a changed one changes those that changed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from offprompt.errors import ConflictError, NotFoundError, UnsupportedError, UsageError
from offprompt.protocols import apply
from offprompt.recall.convert.apart import converted_apart
from offprompt.recall.convert.choosing import CONVERTER
from offprompt.recall.convert.converted import Converted
from offprompt.recall.convert.walking import checked_document, checked_size
from offprompt.recall.passages import Passage, passages, title_of
from offprompt.records import (
    APPLICATION,
    Actor,
    AddMemory,
    EraseMemories,
    Indexed,
    ListMemories,
    Memory,
    MemoryOp,
    MemoryQuery,
    Scope,
    UpdateMemory,
)
from offprompt.records.document import Document, Ingested
from offprompt.service.indexing import index_texts
from offprompt.service.memory_kit import MemoryKit

MAX_PASSAGES: Final = 20_000
BATCH: Final = 64
"""Passages that are made findable between two words of progress."""

TRIES: Final = 3
HEAD: Final = "converter"
"""The member of its metadata that tells a document's head, which is archived, from its passages."""

PLACE: Final = ("start", "end", "page")
"""Members of a passage's metadata that change while its text does not."""

Tell = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class _There:
    """A document as it is stored: its head, None where there is none; its passages by what they say.

    others   ids of older heads, which an import may have brought.
    """

    head: Memory | None
    passages: dict[str, Memory]
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What makes a document new: passages to add and to erase, and those that only moved."""

    new: tuple[Memory, ...]
    gone: tuple[str, ...]
    moved: tuple[UpdateMemory, ...]


class Ingester:
    """Documents of one space. What is stored of one document is changed in one transaction, so it is seen whole.

    Thread-safe; any number of processes: of two that store the same document at once the later one's stays.
    """

    def __init__(self, kit: MemoryKit, scope: Scope, actor: Actor = APPLICATION) -> None:
        if scope.space is None:
            raise UsageError(f"documents belong to a space, and this scope is {scope}; use space('legal')")
        self._kit, self.scope, self._actor = kit, scope, actor

    def put(self, name: str, data: bytes, *, tell: Tell | None = None) -> Ingested:
        """Store a document under a name; the same bytes once more change nothing and make no vector.

        Refused  is what cannot be read, with the reason; then what was there of the document stays.
        Raises   BackendError if the store fails, QuotaError, HeldError; then nothing was changed.
        """
        try:
            name = checked_document(name)
            checked_size(len(data), self._kit.settings.document_bytes)
            digest = hashlib.sha256(data).hexdigest()
            there = self._there(name)
            if there.head is not None and _is_of(there.head, digest):
                return Ingested("unchanged", name, len(there.passages))
            text = converted_apart(name, data)
            found = _parted(text)
        except (UsageError, UnsupportedError) as exc:
            return Ingested("refused", str(name), why=str(exc))
        about = _about(text, digest, len(data), len(found))
        drafts = self._drafts(name, about["title"], found)
        known: dict[str, Indexed] = {}
        for attempt in range(TRIES):
            try:
                return self._store(name, there, about, drafts, known, tell or _quiet)
            except (ConflictError, NotFoundError):
                if attempt == TRIES - 1:
                    raise
                there = self._there(name)  # another process stored the same document meanwhile
        raise AssertionError

    def documents(self) -> list[Document]:
        """The documents of the space, by name. Cost: O(documents)."""
        query = MemoryQuery(self.scope, "exact", states=("archived",), kinds=("passage",))
        heads = [row for row in apply(self._kit.memories, ListMemories(query)) if HEAD in row.metadata]
        newest = {one.name: one for one in sorted(map(_document, heads), key=lambda one: one.at)}
        return sorted(newest.values(), key=lambda one: one.name)

    def forget(self, *names: str) -> list[Ingested]:
        """Remove documents for good, with all their passages.

        Raises   NotFoundError for one that is not there, HeldError; then nothing was changed.
        """
        self._kit.slots.check_erasable(self.scope)
        gone, told = list[str](), list[Ingested]()
        for name in names:
            there = self._there(checked_document(name))
            ids = [memory.memory_id for memory in there.passages.values()]
            if there.head is None and not ids:
                raise NotFoundError(f"there is no document {name[:80]!r} in {self.scope}; list them first", name=name)
            gone += [*ids, *there.others, *([there.head.memory_id] if there.head is not None else [])]
            told.append(Ingested("removed", name, removed=len(ids)))
        if gone:
            apply(self._kit.memories, EraseMemories(self.scope, tuple(gone), actor=self._actor.name))
        return told

    def _there(self, name: str) -> _There:
        query = MemoryQuery(self.scope, "exact", states=("live", "archived"), kinds=("passage",), session=name)
        rows = apply(self._kit.memories, ListMemories(query))
        heads = sorted((row for row in rows if HEAD in row.metadata), key=lambda row: row.updated_at)
        parts = {row.digest: row for row in rows if HEAD not in row.metadata}
        return _There(heads[-1] if heads else None, parts, tuple(head.memory_id for head in heads[:-1]))

    def _drafts(self, name: str, title: str, found: Sequence[Passage]) -> dict[str, Memory]:
        """The passages as they are to be stored, by what they say."""
        now, kit = self._kit.clock.now(), self._kit
        seen, drafts = Counter[str](), dict[str, Memory]()
        for one in found:
            gist = " › ".join(dict.fromkeys((title or name, *one.headings)))
            text = kit.redacted(one.text)[0]
            said = f"{name}\n{gist}\n{text}"
            seen[said] += 1
            metadata: dict[str, Any] = {"title": title, "headings": list(one.headings)}
            metadata |= {"start": one.start, "end": one.end} | ({} if one.page is None else {"page": one.page})
            draft = Memory(
                kit.ids.new(now),
                self.scope,
                "passage",
                text,
                session=name,
                gist=kit.clean(gist),
                source="document",
                trust="tool",
                actor=self._actor.name,
                created_at=now,
                updated_at=now,
                metadata=kit.clean(metadata),
                digest=_digest("passage", said, str(seen[said])),
            )
            drafts[draft.digest] = draft
        return drafts

    def _store(
        self,
        name: str,
        there: _There,
        about: dict[str, Any],
        drafts: dict[str, Memory],
        known: dict[str, Indexed],
        tell: Tell,
    ) -> Ingested:
        plan = _planned(there, drafts, self._actor.name)
        why = self._index([memory for memory in plan.new if memory.memory_id not in known], known, tell)
        if plan.gone:
            self._kit.slots.check_erasable(self.scope)
        if plan.new and self._kit.slots.quotas is not None:
            size = sum(len(memory.text.encode()) for memory in plan.new)
            self._kit.slots.quotas.make_room(self.scope.app, memories=len(plan.new), size=size)
        ops: list[MemoryOp[Any]] = [*self._head(name, there.head, about), *plan.moved]
        if gone := (*plan.gone, *there.others):
            ops.append(EraseMemories(self.scope, gone, actor=self._actor.name))
        self._kit.uses.apply([*ops, *(AddMemory(memory, known.get(memory.memory_id)) for memory in plan.new)])
        outcome = "added" if there.head is None else "changed"
        return Ingested(outcome, name, len(drafts), len(plan.new), len(plan.gone), why)

    def _head(self, name: str, head: Memory | None, about: dict[str, Any]) -> Iterable[MemoryOp[Any]]:
        """What stores all that is known of the document itself; it fails where another process was quicker."""
        who = self._actor.name
        if head is not None:
            told = {**dict.fromkeys(head.metadata), **about}
            return [
                UpdateMemory(
                    self.scope, head.memory_id, metadata=told, if_version=head.version, actor=who, trust="tool"
                )
            ]
        now = self._kit.clock.now()
        made = Memory(
            self._kit.ids.new(now),
            self.scope,
            "passage",
            name,
            session=name,
            source="document",
            trust="tool",
            actor=who,
            created_at=now,
            updated_at=now,
            metadata=about,
            digest=_digest("document", name),
        )
        return [
            AddMemory(made, op_key=f"document/{made.digest}"),
            UpdateMemory(self.scope, made.memory_id, archived=True, actor=who, trust="tool"),
        ]

    def _index(self, new: Sequence[Memory], known: dict[str, Indexed], tell: Tell) -> str:
        """Make passages findable; why they are found by their words alone, empty: they are not."""
        trouble = ""
        tell(0, len(new))
        for at in range(0, len(new), BATCH):
            indexed, why = index_texts(self._kit.embedder, new[at : at + BATCH])
            known.update((one.memory_id, one) for one in indexed)
            trouble = trouble or why
            tell(min(at + BATCH, len(new)), len(new))
        return f"no vectors yet, found by words: {trouble}" if trouble else ""


def _parted(text: Converted) -> list[Passage]:
    found = passages(text.text, pages=text.pages, markdown=text.markdown)
    if len(found) > MAX_PASSAGES:
        raise UsageError(f"it has {len(found):,} passages, the limit is {MAX_PASSAGES:,}; split it")
    return found


def _planned(there: _There, drafts: dict[str, Memory], actor: str) -> _Plan:
    """What is to be done so that what is there is what the document says now."""
    new = tuple(memory for digest, memory in drafts.items() if digest not in there.passages)
    gone = tuple(memory.memory_id for digest, memory in there.passages.items() if digest not in drafts)
    moved: list[UpdateMemory] = []
    for digest, old in there.passages.items():
        if (draft := drafts.get(digest)) is None:
            continue
        places = {name: draft.metadata.get(name) for name in PLACE}
        if any(old.metadata.get(name) != place for name, place in places.items()):
            moved.append(UpdateMemory(old.scope, old.memory_id, metadata=places, actor=actor, trust="tool"))
    return _Plan(new, gone, tuple(moved))


def _about(text: Converted, digest: str, size: int, number: int) -> dict[str, Any]:
    title = text.title or (title_of(text.text) if text.markdown else "")
    about = {"title": title, "media": text.media, "bytes": size, "digest": digest, "passages": number}
    return {**about, HEAD: CONVERTER} | ({"pages": len(text.pages)} if text.pages else {})


def _is_of(head: Memory, digest: str) -> bool:
    return head.metadata.get("digest") == digest and head.metadata.get(HEAD) == CONVERTER


def _document(head: Memory) -> Document:
    told, space = head.metadata, head.scope.space or ""
    return Document(
        space,
        head.session,
        str(told.get("title", "")),
        str(told.get("media", "")),
        int(told.get("bytes", 0)),
        str(told.get("digest", "")),
        int(told.get("passages", 0)),
        told.get("pages"),
        head.updated_at,
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _quiet(_done: int, _of: int) -> None:
    return None
