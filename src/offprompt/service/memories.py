"""Memories of one scope: what applications call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from offprompt.errors import NotFoundError, UsageError
from offprompt.protocols import Reranker, apply
from offprompt.recall.filters import compile_filter
from offprompt.records import (
    APPLICATION,
    DEFAULT,
    MEMORY_KINDS,
    MEMORY_STATES,
    WITHIN,
    Actor,
    Default,
    EraseMemories,
    ForgetMemories,
    GetMemories,
    ListMemories,
    Memory,
    MemoryHistory,
    MemoryKind,
    MemoryPage,
    MemoryQuery,
    MemoryState,
    MemoryVersion,
    Recalled,
    Remembered,
    RestoreMemories,
    Scope,
    UpdateMemory,
    Within,
)
from offprompt.records.basis import basis
from offprompt.records.imported import Imported, Reindexed
from offprompt.records.scope import clean_spaces
from offprompt.records.values import (
    checked_choice,
    checked_choices,
    checked_count,
    checked_cursor,
    checked_ids,
    checked_name,
    checked_version,
    moment,
)
from offprompt.service.exporting import export_file
from offprompt.service.extract_background import extract_model
from offprompt.service.importing import import_file
from offprompt.service.memory_family import mend_profile, with_derived
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.memory_purposes import usable
from offprompt.service.memory_recall import MAX_TOP_K, Asked, Recaller, question_of
from offprompt.service.memory_updates import update_memory
from offprompt.service.memory_values import checked_marks, checked_said
from offprompt.service.reindexing import reindex
from offprompt.service.remembering import Rememberer
from offprompt.service.reranking import reranked, reranker_of
from offprompt.service.sealing import erase_sealed, mend_sealed
from offprompt.service.space_recall import granted_spaces, recalled_in
from offprompt.wire.options import Derive

PAGE: Final = 100


class Memories:
    """The memories of one scope. New ones go to exactly this scope, without its session; reads find what it inherits,
    and what is found may be changed by its id, but what is everyone's only in the shared scope.

    Thread-safe. A session is an attribute of a memory, so that the next session finds it.
    """

    def __init__(self, kit: MemoryKit, scope: Scope, actor: Actor = APPLICATION) -> None:
        self._kit = kit
        self._actor = actor
        self.scope = scope.without_session()
        self._session = scope.session or ""

    def remember(  # noqa: PLR0913 - options that users type by name
        self,
        what: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        importance: float | None = None,
        event_at: Any = None,
        expires_at: Any = None,
        pinned: bool = False,
        idempotency_key: str | None = None,
        derive: Derive = "rules",
        purpose: str | None = None,
        consent: str | None = None,
    ) -> list[Remembered]:
        """Store texts or turns; what became of each, followed by what rules derived from it.

        what        one text, a message (`{"role": …, "content": …, "name": …}`), or a list of them. A text is a fact; a
                    message of user or assistant an episode. System text is refused; tool results too, unless the
                    setting `capture_tools` is on: then they are episodes of trust `tool`.
        event_at    when it happened; seconds since 1970, a datetime, or ISO 8601. expires_at: the same.
        importance  0 to 1, .5 unless given. pinned: never expires.
        idempotency_key  the call's own name: once more with it changes nothing.
        derive      `rules`: names, places, wishes, likes, plans and so on become facts and profile slots, no model.
                    `model`: besides, the language model that is set for it reads users' messages later.
        purpose     what it may be used for, see `recall`. consent: what it rests on, see `withdraw`. What is derived of
                    it has both, and it is no duplicate of what has others.
        Redacted    before it is stored, metadata, tags and names too: the kinds that are set; `why` says so.
        Raises      UsageError, LimitError, ConflictError; UnsupportedError if no model is set. Nothing is stored then.
        """
        checked_choice("derive", derive, ("rules", "model", "none"))
        if derive == "model":
            extract_model(self._kit.models)
        marks = checked_marks(metadata, tags, importance, event_at, expires_at, pinned=pinned)
        marks = replace(marks, tags=(*marks.tags, *basis(purpose, consent)), actor=self._actor.name)
        said, refused = checked_said(what, self._session, idempotency_key, tools=self._kit.settings.capture_tools)
        said = [replace(one, derives=one.derives and derive != "none") for one in said]
        stored = Rememberer(self._kit, self.scope).store(said, marks) if said else []
        turns = sum((one.kind, one.role) == ("episode", "user") for one in said)
        if turns and derive == "model" and self._kit.background is not None:
            self._kit.background.said(self.scope, turns)
        return [*stored, *refused]

    def upsert_fact(
        self, subject: str, attribute: str, value: str, *, text: str | None = None, event_at: Any = None
    ) -> Remembered:
        """Store that `attribute` of `subject` is `value`, in place of what was known of it: from business systems.

        subject    whom it is about; `user`: the scope's user. attribute: such as `plan` or `home`; those that the
                   profile has (docs/deriving.md) are written into its slots too.
        text       the sentence that is found and shown; "SUBJECT ATTRIBUTE: VALUE" unless given.
        event_at   since when it is so: an older one does not replace a newer one. Now, unless given.
        Raises     UsageError for what is empty; LimitError, ConflictError. Nothing is stored then.
        """
        from offprompt.service.upserting import fact_of  # noqa: PLC0415 - loaded with its first use

        marks = checked_marks(None, (), None, event_at, None, pinned=False)
        fact = fact_of(subject, attribute, value, text)
        return Rememberer(self._kit, self.scope).upsert(fact, replace(marks, actor=self._actor.name))

    def recall(  # noqa: PLR0913 - options that users type by name
        self,
        query: str | Sequence[Mapping[str, Any]],
        *,
        top_k: int | None = None,
        within: Within = "inherit",
        filters: Mapping[str, Any] | None = None,
        since: Any = None,
        until: Any = None,
        as_of: Any = None,
        kinds: Iterable[MemoryKind] = MEMORY_KINDS,
        floor: float | None = None,
        rerank: bool | Reranker | None = None,
        weights: Mapping[str, float] | None = None,
        explain: bool = False,
        spaces: Iterable[str] = (),
        purposes: Iterable[str] | None = None,
    ) -> Recalled:
        """The memories that answer a question, best first; nothing where none lies above the floor.

        query    a text, or the conversation so far: then its newest user text, with the turn before it where that says
                 too little by itself. Times in it ("last week", 去年三月) narrow by when things happened.
        top_k    at most so many; None: the setting `recall_top`.
        within   `inherit` this scope and what it inherits, `exact`, `subtree` every scope with all its ids.
        filters  which may be found, see `offprompt.recall.filters`; decided before ranking, like since, until, kinds.
        as_of    what was known then, as it stood then; also what "last week" is counted from.
        floor    the evidence from which a memory counts, 0 to 1; None: the setting `recall_floor`.
        weights  parts of the score to weigh otherwise, by name; docs/ranking.md lists them with their defaults.
        rerank   by the model of `[models.rerank]` (True), not (False), by a `Reranker`, or None: as the setting says.
                 It reads the best `rerank_top` hits; a score is then its own, from 0 to 1. Its tokens are counted.
        explain  each hit's score by part.
        spaces   names of spaces to look in besides, where they are granted to this scope; `Hit.citation` says where a
                 passage stands. Of others nothing is found, and `degraded` says so.
        purposes what the answer is for: memories found are for one of these, or name no purpose. None: any are found.
        Cost     the query's vector, then O(memories of the scope). Uses are counted, and stored later.
        Raises   UsageError; UnsupportedError for `rerank` where no model is set.
        """
        self._actor.check_within(self.scope, within)
        reranker = reranker_of(self._kit, self.scope, rerank)
        asked = Asked(
            query=query,
            top_k=top_k,
            within=within,
            filters=filters if purposes is None else usable(purposes, filters),
            since=moment("since", since),
            until=moment("until", until),
            as_of=moment("as_of", as_of),
            kinds=checked_choices("kinds", kinds, MEMORY_KINDS),
            floor=floor,
            weights=weights,
        )
        found = self._found(asked, spaces) if reranker is None else self._reranked(asked, reranker, spaces)
        self._kit.uses.add(*(hit.memory for hit in found))
        return found if explain else replace(found, hits=tuple(replace(hit, parts={}) for hit in found))

    def get(self, memory_id: str) -> Memory | None:
        """The memory of that id, if this scope inherits it or it lies below; in any state but forgotten."""
        return next(iter(self.get_many([memory_id])), None)

    def get_many(self, ids: Sequence[str]) -> list[Memory]:
        """Those of the memories that are there, in the order of the ids."""
        found = apply(self._kit.memories, GetMemories(self.scope.app, checked_ids(ids)))
        return [one for one in found if one.state != "forgotten" and self._sees(one.scope)]

    def list(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        kinds: Iterable[MemoryKind] = MEMORY_KINDS,
        states: Iterable[MemoryState] = ("live",),
        session: str | None = None,
        since: Any = None,
        until: Any = None,
        within: Within = "inherit",
        limit: int = PAGE,
        cursor: str = "",
    ) -> MemoryPage:
        """One page of memories in order of creation, and the cursor of the next.

        states   a list of `live`, `superseded`, `archived`, `forgotten`. session: said in it. Rest: see `recall`.
        cursor   what the page before gave; a page stays right while memories come and go.
        """
        checked_choice("within", within, WITHIN)
        self._actor.check_within(self.scope, within)
        checked_count("limit", limit)
        if limit < 1:
            raise UsageError(f"limit={limit}: ask for 1 memory or more")
        fits = compile_filter(filters)
        query = MemoryQuery(
            self.scope,
            within,
            states=checked_choices("states", states, MEMORY_STATES),
            kinds=checked_choices("kinds", kinds, MEMORY_KINDS),
            session=None if session is None else checked_name("session", session),
            since=moment("since", since),
            until=moment("until", until),
            after=checked_cursor(cursor),
            limit=limit + 1,
        )
        found: list[Memory] = []
        while len(found) <= limit:
            rows = apply(self._kit.memories, ListMemories(query))
            found += [row for row in rows if fits(row)]
            if len(rows) <= limit:
                break
            query = replace(query, after=rows[-1].memory_id)
        shown = tuple(_unveiled(one) for one in found[:limit])
        return MemoryPage(shown, shown[-1].memory_id if len(found) > limit and shown else "")

    def update(  # noqa: PLR0913 - options that users type by name
        self,
        memory_id: str,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] | None = None,
        importance: float | None = None,
        event_at: Any = DEFAULT,
        expires_at: Any = DEFAULT,
        pinned: bool | None = None,
        archived: bool | None = None,
        if_version: int | None = None,
        actor: str | None = None,
    ) -> Memory:
        """The memory changed; what is left out stays, and recall finds the new text at once.

        metadata  members to set; None as a member's value takes it out.
        archived  True: out of recall, but kept; False: back. if_version: the version that must be current.
        Raises    NotFoundError, ConflictError, LimitError, UsageError; then nothing is changed.
        """
        checked_version(f"memory {memory_id!r}", if_version)
        memory = self._known(memory_id)
        if not self._may_change(memory.scope):
            raise UsageError(
                f"memory {memory.memory_id} is everyone's; change it in the shared scope: scope(shared=True)"
            )
        self._actor.check_change(self.scope, memory.scope, f"memory {memory.memory_id}")
        marks = checked_marks(metadata, tags or (), importance, None, None, pinned=bool(pinned))
        change = UpdateMemory(
            memory.scope,
            memory.memory_id,
            text=text,
            metadata=None if metadata is None else marks.metadata,
            tags=None if tags is None else marks.tags,
            importance=importance,
            event_at=_kept(event_at, "event_at"),
            expires_at=_kept(expires_at, "expires_at"),
            pinned=pinned,
            archived=archived,
            if_version=if_version,
            actor=actor or self._actor.name,
        )
        return update_memory(self._kit, memory, change)

    def forget(self, *ids: str, actor: str | None = None, trust: Literal["user", "tool"] = "user") -> int:
        """Hide memories and what was derived from them alone, for `undo_s` seconds undoably; how many.

        Profile  what rules put into it from them is hidden too. One that is not there is no error.
        Raises   ConflictError if a tool's output asks to forget what the user said.
        """
        self._kit.slots.make_way()
        count = 0
        for scope, own in self._families(ids).items():
            count += apply(self._kit.memories, ForgetMemories(scope, _ids(own), actor or self._actor.name, trust))
            mend_profile(self._kit, scope, own, "hidden")
            mend_sealed(self._kit.slots, self._kit.memories, scope, own, "hidden")
        return count

    def undo(self, *ids: str, actor: str | None = None) -> int:
        """Bring back what `forget` hid; how many. What is hidden for longer than `undo_s` stays so."""
        count, undo_s, who = 0, self._kit.settings.undo_s, actor or self._actor.name
        for scope, own in self._families(ids).items():
            back = apply(self._kit.memories, RestoreMemories(scope, _ids(own), who, undo_s))
            if back:
                mend_profile(self._kit, scope, own, "shown")
                mend_sealed(self._kit.slots, self._kit.memories, scope, own, "shown")
            count += back
        return count

    def erase(self, *ids: str, within: Literal["exact", "subtree"] = "exact", actor: str | None = None) -> int:
        """Remove memories for good, with all versions and the facts derived from them alone; how many.

        ids      their parts of the profile, and what was sealed out of them alone, go too. None: all of the scope, with
                 all that was sealed in it; its other slots stay; `clear` removes both.
        """
        checked_choice("within", within, ("exact", "subtree"))
        self._actor.check_within(self.scope, within)
        self._kit.slots.check_erasable(self.scope)
        self._kit.slots.make_way()
        who = actor or self._actor.name
        if not ids:
            count = apply(self._kit.memories, EraseMemories(self.scope, None, within, who))
            erase_sealed(self._kit.slots, self.scope, within)
            return count
        families = self._families(ids)
        ops = [EraseMemories(scope, _ids(own), actor=who) for scope, own in families.items()]
        count = sum(self._kit.memories.apply(ops)) if ops else 0
        for scope, own in families.items():
            mend_profile(self._kit, scope, own, "erased")
            mend_sealed(self._kit.slots, self._kit.memories, scope, own, "erased")
        return count

    def history(self, memory_id: str) -> list[MemoryVersion]:
        """The versions of a memory, oldest first: what was added, merged, changed, superseded, hidden.

        Raises   NotFoundError if there is no such memory.
        """
        memory = self._known(memory_id, forgotten=True)
        return apply(self._kit.memories, MemoryHistory(memory.scope, memory.memory_id))

    def export(self, path: str | os.PathLike[str], *, within: Within = "subtree", secrets: bool = False) -> int:
        """Write the memories to a private file, JSON Lines, and return how many; what was forgotten is left out.

        secrets  values of `never` slots that a memory quotes as they are; else their handles stand there.
        Raises   UsageError if the file is there already, or cannot be written; then there is no new file.
        """
        checked_choice("within", within, WITHIN)
        self._actor.check_within(self.scope, within)
        return export_file(self._kit, self.scope, Path(path), within, secrets=secrets)

    def import_file(
        self, path: str | os.PathLike[str], *, rescope: bool = False, derive: Literal["rules", "none"] = "rules"
    ) -> Imported:
        """Store what a file holds: our export, one of mem0, or a chat log; see `importing.import_file`."""
        checked_choice("derive", derive, ("rules", "none"))
        return import_file(self._kit, self.scope, Path(path), rescope=rescope, derive=derive == "rules")

    def reindex(self, *, progress: Callable[[int], object] | None = None) -> Reindexed:
        """Give the memories of this scope and those below it vectors of the embedder in use; see `reindexing`."""
        return reindex(self._kit, self.scope, progress=progress)

    def sessions(self) -> dict[str, int]:
        """The sessions in which something was remembered, with how much of each, in order of their beginnings."""
        counts: dict[str, int] = {}
        for memory in apply(self._kit.memories, ListMemories(MemoryQuery(self.scope, states=("live", "superseded")))):
            if memory.session:
                counts[memory.session] = counts.get(memory.session, 0) + 1
        return counts

    def _found(self, asked: Asked, spaces: Iterable[str]) -> Recalled:
        names = clean_spaces(spaces)
        if not names:
            return Recaller(self._kit, self.scope).recall(asked)
        granted, lacking = granted_spaces(self._kit, self.scope, self._actor, names)
        found = recalled_in(self._kit, self.scope, granted, asked)
        return replace(found, degraded="; ".join(one for one in (found.degraded, lacking) if one))

    def _reranked(self, asked: Asked, reranker: Reranker, spaces: Iterable[str]) -> Recalled:
        settings = self._kit.settings
        top_k = settings.recall_top if asked.top_k is None else asked.top_k
        checked_count("top_k", top_k)
        found = self._found(replace(asked, top_k=max(top_k, min(settings.rerank_top, MAX_TOP_K))), spaces)
        return reranked(self._kit, self.scope, question_of(asked.query), found, reranker, top_k)

    def _sees(self, scope: Scope) -> bool:
        below = self._actor.sees_below(self.scope)
        return scope in self.scope.inherited() or (below and self.scope.holds(scope))

    def _may_change(self, scope: Scope) -> bool:
        """Whether it sees the scope; what is everyone's is changed in the shared scope only."""
        return self._sees(scope) and (self.scope.shared or not scope.shared)

    def _known(self, memory_id: str, *, forgotten: bool = False) -> Memory:
        found = apply(self._kit.memories, GetMemories(self.scope.app, checked_ids([memory_id])))
        there = [one for one in found if self._sees(one.scope) and (forgotten or one.state != "forgotten")]
        if not there:
            raise NotFoundError(
                f"no memory {memory_id[:40]!r} in scope {self.scope}; find it with memories.list() or recall()",
                name=memory_id[:40],
            )
        return there[0]

    def _families(self, ids: Sequence[str]) -> dict[Scope, list[Memory]]:
        """The memories that this scope may change, with what was derived from them, by the scope of each."""
        found = apply(self._kit.memories, GetMemories(self.scope.app, checked_ids(ids)))
        own = [one for one in found if self._may_change(one.scope) and self._actor.may_change(self.scope, one.scope)]
        return with_derived(self._kit.memories, own)


def _unveiled(memory: Memory) -> Memory:
    """The memory as a list shows it: of a hidden one no text."""
    return memory if memory.state != "forgotten" else replace(memory, text="", quote="", metadata={})


def _ids(memories: Sequence[Memory]) -> tuple[str, ...]:
    return tuple(memory.memory_id for memory in memories)


def _kept(value: Any, name: str) -> float | Default | None:
    return value if value is DEFAULT or value is None else moment(name, value)
