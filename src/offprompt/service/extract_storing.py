"""What a language model read becomes memories, in one transaction with the mark of the turns that it was read in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from offprompt.protocols import apply
from offprompt.recall.extract import Accepted
from offprompt.records import (
    PENDING,
    Added,
    AddMemory,
    Event,
    ForgetMemories,
    GetMemories,
    LogMemoryEvents,
    MarkExtracted,
    Memory,
    MemoryOp,
    Scope,
    UpdateMemory,
)
from offprompt.records.basis import basis_of
from offprompt.service.extract_reading import ABOUT, Read, reasons
from offprompt.service.indexing import index_texts
from offprompt.service.memory_family import mend_profile
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.near_duplicates import near_duplicates
from offprompt.service.remembering import MESSAGE, digest_of

ACTOR: Final = "extract"
QUOTE_CHARS: Final = 200
CHANGES: Final = ("ADD", "UPDATE", "SUPERSEDE", "FORGET")


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a batch: decisions by action; `merged`: of the ADDs, those that were known in the same words."""

    added: int = 0
    updated: int = 0
    superseded: int = 0
    forgotten: int = 0
    merged: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    """A decision that is applied: its ops, and the memory that it makes or changes."""

    accepted: Accepted
    target: Memory | None
    memory: Memory | None
    op: MemoryOp[Any]


class ExtractStorer:
    """Stores in exactly one scope. model: the name of what read it."""

    def __init__(self, kit: MemoryKit, scope: Scope, model: str) -> None:
        self._kit, self._scope, self._model = kit, scope, model

    def store(self, read: Read, marked: Sequence[Memory]) -> Stored:
        """Apply what holds of an answer, mark turns as read, and log each decision: all of it, or nothing.

        marked   the turns that count as read by it.
        Raises   ConflictError if a turn or a fact that it changes is not as it was read: then nothing is stored.
        """
        now = self._kit.clock.now()
        steps = self._steps(read, now)
        turns = tuple((turn.memory_id, turn.version) for turn in marked)
        ops: list[MemoryOp[Any]] = [MarkExtracted(self._scope, turns, read.prompt.name)] if turns else []
        ops += [self._unchanged(step.target) for step in steps if step.target is not None]
        ops += [step.op for step in steps]
        ops.append(LogMemoryEvents(tuple(self._events(read, marked, steps, now))))
        results = self._kit.uses.apply(ops)[-1 - len(steps) : -1]
        self._mend(steps)
        actions = [step.accepted.decision.action for step in steps]
        merged = sum(isinstance(one, Added) and one.outcome == "merged" for one in results)
        added, updated, superseded, forgotten = (actions.count(one) for one in CHANGES)
        return Stored(added, updated, superseded, forgotten, merged)

    def set_aside(self, turns: Sequence[Memory], why: str) -> None:
        """Mark turns of which no answer of use came, and say why in the log."""
        now = self._kit.clock.now()
        marks = MarkExtracted(self._scope, tuple((turn.memory_id, turn.version) for turn in turns), PENDING)
        events = [self._event(now, turn, "extract.pending", turn.memory_id, "pending", why) for turn in turns]
        self._kit.uses.apply([marks, LogMemoryEvents(tuple(events))])

    def note(self, turns: Sequence[Memory], why: str, outcome: str) -> None:
        """Say in the log of each session why its turns wait on."""
        now = self._kit.clock.now()
        first = {turn.session: turn for turn in reversed(turns)}
        events = [self._event(now, turn, "extract.wait", "", outcome, why) for turn in first.values()]
        apply(self._kit.memories, LogMemoryEvents(tuple(events)))

    def _steps(self, read: Read, now: float) -> list[_Step]:
        steps = [self._step(read, accepted, now) for accepted in read.checked.accepted]
        made = [step.memory for step in steps if step.memory is not None]
        indexed = {one.memory_id: one for one in index_texts(self._kit.embedder, made)[0]}
        done: list[_Step] = []
        for step in steps:
            op = step.op
            if isinstance(op, AddMemory):
                own = indexed[op.memory.memory_id]
                op = replace(op, indexed=own, similar=near_duplicates(self._kit, op.memory, own))
            elif isinstance(op, UpdateMemory):
                op = replace(op, indexed=indexed[op.memory_id])
            done.append(replace(step, op=op))
        return done

    def _step(self, read: Read, accepted: Accepted, now: float) -> _Step:
        decision = accepted.decision
        target = read.known[decision.memory - 1] if decision.action != "ADD" else None
        if target is not None and decision.action == "FORGET":
            return _Step(
                accepted, target, None, ForgetMemories(self._scope, (target.memory_id,), ACTOR, accepted.trust)
            )
        text = self._kit.redacted(decision.text)[0]
        if target is not None and decision.action == "UPDATE":
            op = UpdateMemory(
                self._scope,
                target.memory_id,
                text,
                digest_of(text, target.tags),
                actor=ACTOR,
                trust=accepted.trust,
            )
            return _Step(accepted, target, replace(target, text=text, gist=""), op)
        memory = self._memory(read, accepted, text, now)
        if target is None:
            return _Step(accepted, None, memory, AddMemory(memory))
        if target.attribute:
            # The rule of supersession among the facts of one attribute does the rest.
            memory = replace(memory, subject=target.subject, attribute=target.attribute)
            return _Step(accepted, target, memory, AddMemory(memory))
        return _Step(accepted, target, memory, AddMemory(memory, replaces=(target.memory_id,)))

    def _unchanged(self, target: Memory) -> UpdateMemory:
        """Changes nothing, and refuses the transaction if the fact is not as the model was shown it."""
        return UpdateMemory(self._scope, target.memory_id, if_version=target.version, actor=ACTOR)

    def _memory(self, read: Read, accepted: Accepted, text: str, now: float) -> Memory:
        turn = read.batch.turns[accepted.line.number - 1]
        category = accepted.decision.category.strip()[:40]
        tags = (*((self._kit.clean(category),) if category else ()), *basis_of(turn.tags))
        message = {MESSAGE: turn.metadata[MESSAGE]} if MESSAGE in turn.metadata else {}
        return Memory(
            self._kit.ids.new(now),
            self._scope,
            "fact",
            text,
            role=turn.role,
            speaker=turn.speaker,
            session=turn.session,
            order=turn.order,
            rule=read.prompt.name,
            quote=accepted.quote[:QUOTE_CHARS],
            source_id=turn.memory_id,
            source="model",
            trust=accepted.trust,
            actor=ACTOR,
            created_at=now,
            updated_at=now,
            event_at=turn.happened_at if accepted.event_at is None else accepted.event_at,
            precision="" if accepted.event_at is None else "day",
            tags=tags,
            metadata={"model": self._model, ABOUT: self._kit.clean(accepted.about), **message},
            digest=digest_of(text, tags),
        )

    def _events(self, read: Read, marked: Sequence[Memory], steps: Sequence[_Step], now: float) -> Iterator[Event]:
        """One for each decision, and for each session one that sums them up; ids and reasons, no texts."""
        by = f"{read.prompt.name}, {self._model}"
        for step in steps:
            accepted, turn = step.accepted, read.batch.turns[step.accepted.line.number - 1]
            made = step.op.memory.memory_id if isinstance(step.op, AddMemory) else ""
            name = made or (step.target.memory_id if step.target else "")
            instead = f", instead of {step.target.memory_id}" if made and step.target else ""
            why = f"{accepted.decision.action} from {turn.memory_id}{instead}; {by}"
            yield self._event(now, turn, f"extract.{accepted.decision.action.lower()}", name, "ok", why)
        for decision, why in read.checked.dropped:
            there = [number for number in decision.turns if 0 < number <= len(read.batch.turns)]
            turn = read.batch.turns[there[0] - 1] if there else read.batch.turns[0]
            yield self._event(now, turn, "extract.drop", turn.memory_id, why, f"{decision.action}; {by}")
        dropped = reasons(read.checked)
        sums = f"{len(steps)} decisions applied" + (f", dropped: {dropped}" if dropped else "") + f"; {by}"
        for session in dict.fromkeys(turn.session for turn in marked):
            own = [turn for turn in marked if turn.session == session]
            yield self._event(now, own[0], "extract.read", "", "ok", f"{len(own)} turns read; {sums}")

    def _event(self, now: float, turn: Memory, op: str, name: str, outcome: str, why: str) -> Event:
        scope = self._scope.narrow(session=turn.session) if turn.session else self._scope
        return Event(now, scope, op, ACTOR, name, outcome=outcome, why=why)

    def _mend(self, steps: Sequence[_Step]) -> None:
        """Take out of the profile what rules put there from facts that hold no more."""
        changed = [step.target for step in steps if step.target is not None and step.target.attribute]
        sources = tuple(dict.fromkeys(fact.source_id for fact in changed if fact.source_id))
        if changed:
            said = apply(self._kit.memories, GetMemories(self._scope.app, sources)) if sources else []
            mend_profile(self._kit, self._scope, [*said, *changed], "hidden")
