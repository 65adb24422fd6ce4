"""Remember: texts and turns become memories, and what rules read in them becomes facts and profile."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from offprompt.recall.derive.deriving import derive
from offprompt.recall.derive.records import Derived, Turn
from offprompt.recall.duplicates import normalised
from offprompt.records import RULES, Added, AddMemory, Memory, MemoryKind, Remembered, Scope, Source, Trust
from offprompt.records.basis import basis_of
from offprompt.records.scope import bare_of
from offprompt.service.indexing import index_texts
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.near_duplicates import near_duplicates
from offprompt.service.profile import ProfileWriter
from offprompt.service.sealing import Seal
from offprompt.service.spooling import Spooled

MESSAGE: Final = "message"
"""The member of a memory's metadata that names the session's message it was made of: its handle is `@` and that."""

COVERING: Final = 0.6
"""A derived fact whose quote is this part of a given text says what the text says: it is not stored beside it."""


@dataclass(frozen=True, slots=True)
class Said:
    """One text that is to be remembered.

    role, speaker, session, order  of the turn, where it is one. at: when it was said, in seconds since 1970.
    op_key   the write's own name. derives: whether rules may read it. source, trust: None: those of the call's marks.
    message  journal key of the session's message that it is.
    asked    what the assistant said right before it: "Lin." means nothing without its question. It is not stored.
    """

    text: str
    kind: MemoryKind = "fact"
    role: str = ""
    speaker: str = ""
    session: str = ""
    order: int = -1
    at: float | None = None
    op_key: str | None = None
    derives: bool = True
    source: Source | None = None
    trust: Trust | None = None
    message: str = ""
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """What all memories of one call get."""

    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tags: tuple[str, ...] = ()
    importance: float | None = None
    event_at: float | None = None
    expires_at: float | None = None
    pinned: bool = False
    source: Source = "app"
    trust: Trust = "user"
    actor: str = "app"


@dataclass(frozen=True, slots=True)
class _Draft:
    """A memory to add, and where it came from; taken: kinds of what was redacted."""

    memory: Memory
    op_key: str | None
    derived: Derived | None = None
    taken: tuple[str, ...] = ()


def digest_of(text: str, tags: Sequence[str] = ()) -> str:
    """The key of duplicates: what rests on another consent, or is for another purpose, is none."""
    rests = basis_of(tags)
    said = "\n".join([normalised(text), *sorted(rests)]) if rests else normalised(text)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:32]


class Rememberer:
    """Stores in exactly one scope. Cost of a call: one transaction, the texts' vectors, and the profile's writes."""

    def __init__(self, kit: MemoryKit, scope: Scope) -> None:
        self._kit, self.scope = kit, bare_of(scope)

    def store(self, said: Sequence[Said], marks: Marks) -> list[Remembered]:
        """What became of each text, in order, each followed by what rules derived from it.

        Spooled  with the setting `write_deadline_s`, what the store does not take in time waits on this machine.
        Raises   LimitError, UsageError, ConflictError; then nothing is stored.
        """
        spool = self._kit.slots.spool
        if spool is None or not spool.is_on:
            return self.store_now(said, marks)
        at = self._kit.clock.now()

        def named(key: str) -> list[Said]:
            return [replace(one, op_key=one.op_key or f"{key}/{number}") for number, one in enumerate(said)]

        def kept(key: str) -> Spooled:
            clean = [self._clean(replace(one, at=one.at or at)) for one in named(key)]
            wait = self._kit.for_later
            waiting = replace(marks, metadata=wait(marks.metadata), tags=tuple(map(wait, marks.tags)))
            what = {"said": msgspec.to_builtins(clean), "marks": msgspec.to_builtins(waiting)}
            return Spooled(key, at, "remember", self.scope, what)

        done = spool.attempt(lambda key: self.store_now(named(key), marks), kept)
        if not isinstance(done, Spooled):
            return done
        why = "the store did not take it in time; it waits on this machine"
        return [Remembered("spooled", one.kind, "", self._kit.redacted(one.text)[0], why=why) for one in said]

    def _clean(self, one: Said) -> Said:
        """A text as it waits: what is to be sealed is so when it is stored."""
        wait = self._kit.for_later
        return replace(one, text=wait(one.text), asked=self._kit.redacted(one.asked)[0], speaker=wait(one.speaker))

    def upsert(self, fact: Derived, marks: Marks) -> Remembered:
        """Store one fact of a subject and attribute, in place of the one before; its profile slot too, if it has one.

        Raises   LimitError, UsageError, ConflictError; then nothing is stored.
        """
        self._kit.slots.check_consents(self.scope, marks.tags)
        kept = self._kit.sealed(fact.text, self.scope)
        memory = self._memory(kept.text, Said(kept.text), marks, self._kit.clock.now())
        draft = _Draft(replace(memory, **_topic(fact, memory)), None, fact, kept.taken)
        if self._kit.slots.quotas is not None:
            size = len(kept.text.encode("utf-8", "replace"))
            self._kit.slots.quotas.make_room(self.scope.app, memories=1, size=size)
        with self._kit.sealing(self.scope, kept.seals, marks.trust):
            return self._stored([draft], marks)[0]

    def store_now(self, said: Sequence[Said], marks: Marks) -> list[Remembered]:
        """`store`, or a BackendError if the store does not take it."""
        self._kit.slots.check_consents(self.scope, marks.tags)
        now = self._kit.clock.now()
        kept = [self._kit.sealed(one.text, self.scope) for one in said]
        speakers = [self._kit.sealed(one.speaker, self.scope) for one in said]
        marks, marked = self._marked(marks)
        clean = [
            (replace(one, text=done.text, speaker=by.text), done.taken)
            for one, done, by in zip(said, kept, speakers, strict=True)
        ]
        turns = [
            turn
            for at, (one, _) in enumerate(clean)
            if one.derives
            for turn in (
                Turn(f"{at}?", one.asked, "assistant"),
                Turn(str(at), one.text, one.role or "user", one.speaker, marks.event_at or one.at),
            )
        ]
        found = derive(turns, now)
        drafts: list[_Draft] = []
        for at, (one, taken) in enumerate(clean):
            own = _last_words([fact for fact in found if fact.quotes and fact.quotes[0].turn_id == str(at)])
            drafts += self._drafts(one, taken, own, marks, now)
        if self._kit.slots.quotas is not None:
            size = sum(len(draft.memory.text.encode("utf-8", "replace")) for draft in drafts)
            self._kit.slots.quotas.make_room(self.scope.app, memories=len(drafts), size=size)
        seals = [*marked, *(seal for done in (*kept, *speakers) for seal in done.seals)]
        with self._kit.sealing(self.scope, seals, marks.trust):
            return self._stored(drafts, marks)

    def _marked(self, marks: Marks) -> tuple[Marks, list[Seal]]:
        """The marks as they may be stored, and what is to be sealed before."""
        metadata, seals = self._kit.sealed_value(marks.metadata, self.scope)
        tags, more = self._kit.sealed_value(list(marks.tags), self.scope)
        return replace(marks, metadata=metadata, tags=tuple(tags)), [*seals, *more]

    def _drafts(
        self, one: Said, taken: tuple[str, ...], facts: Sequence[Derived], marks: Marks, now: float
    ) -> list[_Draft]:
        """The memory of a text, and those of what was derived from it."""
        memory = self._memory(one.text, one, marks, now)
        if one.kind == "fact" and len(facts) == 1 and _covers(facts[0], one.text):
            # The text is the fact: one memory, in the user's own words, that knows what it is about.
            memory = replace(memory, **_topic(facts[0], memory), gist=facts[0].text)
            return [_Draft(memory, one.op_key, facts[0], taken)]
        drafts = [_Draft(memory, one.op_key, None, taken)]
        for number, fact in enumerate(facts):
            own = replace(one, kind="fact", text=fact.text)
            derived = self._memory(fact.text, own, marks, now)
            topic = {**_topic(fact, derived), "rule": fact.rule, "source_id": memory.memory_id}
            quote = fact.quotes[0]
            topic["quote"] = one.text[quote.start : quote.end][:200]
            key = None if one.op_key is None else f"{one.op_key}/{fact.rule}/{number}"
            drafts.append(_Draft(replace(derived, **topic, source="user", actor=RULES), key, fact))
        return drafts

    def _memory(self, text: str, one: Said, marks: Marks, now: float) -> Memory:
        return Memory(
            self._kit.ids.new(now),
            self.scope,
            one.kind,
            text,
            role=one.role,
            speaker=one.speaker,
            session=one.session,
            order=one.order,
            source=one.source or marks.source,
            trust=one.trust or marks.trust,
            actor=marks.actor,
            created_at=now,
            updated_at=now,
            event_at=marks.event_at if marks.event_at is not None else one.at,
            expires_at=marks.expires_at,
            pinned=marks.pinned,
            importance=0.5 if marks.importance is None else marks.importance,
            tags=marks.tags,
            metadata={**marks.metadata, MESSAGE: one.message} if one.message else marks.metadata,
            digest=digest_of(text, marks.tags),
        )

    def _stored(self, drafts: Sequence[_Draft], marks: Marks) -> list[Remembered]:
        indexed, trouble = index_texts(self._kit.embedder, [draft.memory for draft in drafts])
        ops = [
            AddMemory(draft.memory, one, draft.op_key, near_duplicates(self._kit, draft.memory, one))
            for draft, one in zip(drafts, indexed, strict=True)
        ]
        results = self._kit.uses.apply(ops)
        profile = ProfileWriter(self._kit.slots, self.scope, marks.trust, basis_of(marks.tags))
        told: list[Remembered] = []
        for draft, done in zip(drafts, results, strict=True):
            told.append(_told(draft, done, trouble))
            if draft.derived is not None and draft.derived.slot:
                told.append(profile.write(draft.derived, done, draft.op_key))
        return told


def _last_words(facts: Sequence[Derived]) -> list[Derived]:
    """The facts of one text; of statements that replace each other the last one, as all have one time."""
    last = {(fact.subject, fact.key): fact for fact in facts if fact.effect == "replaces"}
    return [fact for fact in facts if fact.effect != "replaces" or last[fact.subject, fact.key] is fact]


def _topic(fact: Derived, memory: Memory) -> dict[str, Any]:
    """What a derived fact says of a memory: whose, what, when."""
    topic: dict[str, Any] = {"subject": fact.subject.casefold(), "attribute": fact.key}
    if fact.effect == "ends":
        topic["ends"] = fact.value
    if fact.event_at is not None:
        topic |= {"event_at": fact.event_at, "precision": fact.precision}
    return topic | {"importance": max(memory.importance, 0.8)} if fact.policy == "card" else topic


def _covers(fact: Derived, text: str) -> bool:
    quote = fact.quotes[0]
    return quote.end - quote.start >= COVERING * len(text.strip())


def _told(draft: _Draft, done: Added, trouble: str) -> Remembered:
    memory = done.memory or draft.memory
    why = [done.why] if done.why else []
    if draft.taken:
        why.append(f"taken out before it was stored: {', '.join(draft.taken)}")
    outcome = done.outcome
    if trouble and outcome == "added":
        outcome = "pending"
        why.append(f"no vector yet, found by its words: {trouble}")
    rule = draft.derived.rule if draft.derived is not None else ""
    return Remembered(outcome, memory.kind, memory.memory_id, memory.text, done.replaced, "; ".join(why), rule)
