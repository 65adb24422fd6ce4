"""Extraction: a language model reads the turns of a scope for facts, after they were said."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from offprompt.errors import BackendError, BudgetError, ConflictError, NotFoundError, UsageError
from offprompt.protocols import apply
from offprompt.records import PENDING, Cancel, ListMemories, Memory, MemoryQuery, Scope
from offprompt.service.extract_reading import Batch, BatchReader, Read, Reader, Rules, UnusableError
from offprompt.service.extract_storing import ExtractStorer, Stored
from offprompt.service.memory_kit import MemoryKit

Cause: TypeAlias = Literal["", "budget", "trouble", "useless", "busy"]

IN_A_ROW: Final = 8
"""So many batches without an answer of use in a row end a run: the model does not do this work."""

TRIES: Final = 3
"""How often a batch is read anew because something else changed what it was read with."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a run did in one scope.

    read      turns that were read. added, updated, superseded, forgotten: decisions that were applied; merged: of those
              added, facts that were known in the same words. dropped: decisions that were not applied, by reason.
    malformed parts of answers that were no decisions. passed_over: turns that the answers never named, read all the
              same. clipped: turns longer than a call has room for, of which the beginning was read.
    pending   turns set aside: no answer of use came. waiting: turns that are left to read.
    stopped   why it ended before all was read, in words; cause: `budget`, `trouble` of model or endpoint, `useless`
              answers, `busy`: others change the same memories. Both empty: all was read.
    calls, input_tokens, output_tokens  of the model, as the provider counted them.
    """

    scope: Scope
    model: str
    read: int = 0
    added: int = 0
    updated: int = 0
    superseded: int = 0
    forgotten: int = 0
    merged: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    malformed: int = 0
    passed_over: int = 0
    clipped: int = 0
    pending: int = 0
    waiting: int = 0
    stopped: str = ""
    cause: Cause = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(slots=True)
class _Sums:
    """A run's sums."""

    read: int = 0
    pending: int = 0
    passed_over: int = 0
    malformed: int = 0
    stopped: str = ""
    cause: Cause = ""
    bad: int = 0
    stored: list[Stored] = field(default_factory=list[Stored])
    dropped: Counter[str] = field(default_factory=Counter[str])


def waiting_turns(kit: MemoryKit, scope: Scope, *, pending: bool = False) -> tuple[list[Memory], dict[str, str]]:
    """The users' turns of exactly a scope that no model has read, in order of creation, and what each answers.

    pending  also those that were set aside. By the id of a turn what the assistant said right before it.
    Cost     O(episodes of the scope).
    """
    episodes = apply(kit.memories, ListMemories(MemoryQuery(scope, "exact", kinds=("episode",))))
    marks = ("", PENDING) if pending else ("",)
    waiting = [one for one in episodes if one.role == "user" and one.extracted in marks]
    by_session: dict[str, list[Memory]] = {}
    for one in episodes:
        by_session.setdefault(one.session, []).append(one)
    before: dict[str, str] = {}
    for log in by_session.values():
        log.sort(key=lambda one: (one.order, one.memory_id))
        for first, second in pairwise(log):
            if first.session and first.role == "assistant" and second.role == "user":
                before[second.memory_id] = first.text
    return waiting, before


class Extractor:
    """Reads the turns of exactly one scope with a language model; nothing else of Offprompt calls one for memory.

    Once      a turn is marked in the transaction that stores what was read in it: a killed run goes on where it was, a
              second one that read the same turns at the same time stores nothing.
    Lost      no turn: until an answer of use came it waits, or is set aside as `pending`, findable all the while.
    Answers   that are no use: repaired where that is safe, asked for once more with the error; then the batch is halved
              down to the turn that spoils it, which is set aside. Trouble of the endpoint or a spent budget ends the
              run, and the turns wait.
    """

    def __init__(self, kit: MemoryKit, scope: Scope, reader: Reader, rules: Rules | None = None) -> None:
        self._kit, self.scope, self._reader = kit, scope.without_session(), reader
        self._rules = rules or Rules()

    def run(self, *, limit: int | None = None, pending: bool = False, cancel: Cancel | None = None) -> Extracted:
        """Read what waits.

        limit    at most so many turns; None: all. pending: also what was set aside before.
        Cost     O(episodes of the scope), and for `extract_turns` turns one call of the model.
        Raises   nothing of the model's: `stopped` says it; BackendError of the store.
        """
        turns, before = waiting_turns(self._kit, self.scope, pending=pending)
        chosen = turns[:limit]
        sums = _Sums()
        reader = BatchReader(self._kit, self.scope, self._reader, self._rules, before)
        todo = deque(self._batches(chosen, reader.room()))
        while todo and not sums.stopped:
            todo.extendleft(reversed(self._step(todo.popleft(), reader, sums, cancel)))
            if sums.bad >= IN_A_ROW:
                why = f"{sums.bad} answers in a row were of no use; choose another model for extraction"
                sums.stopped, sums.cause = why, "useless"
        done, tally = sums.stored, reader.tally
        return Extracted(
            self.scope,
            self._reader.name,
            sums.read,
            *(sum(getattr(one, name) for one in done) for name in Stored.__dataclass_fields__),
            dropped=dict(sums.dropped),
            malformed=sums.malformed,
            passed_over=sums.passed_over,
            clipped=reader.clipped,
            pending=sums.pending,
            waiting=len(turns) - sums.read - sums.pending,
            stopped=sums.stopped,
            cause=sums.cause,
            calls=tally.calls,
            input_tokens=tally.input,
            output_tokens=tally.output,
        )

    def _batches(self, turns: Sequence[Memory], room: int) -> Iterator[Batch]:
        """Turns in batches of at most `extract_turns`, that have room in a call."""
        count, most = self._kit.slots.tokenizer.count, max(self._kit.settings.extract_turns, 1)
        batch: list[Memory] = []
        tokens = 0
        for turn in turns:
            own = count(turn.text)
            if batch and (len(batch) >= most or tokens + own > room):
                yield Batch(tuple(batch))
                batch, tokens = [], 0
            batch.append(turn)
            tokens += own
        if batch:
            yield Batch(tuple(batch))

    def _step(self, batch: Batch, reader: BatchReader, sums: _Sums, cancel: Cancel | None) -> list[Batch]:
        """Read and store a batch; the batches that come of it and are still to be read."""
        storer = ExtractStorer(self._kit, self.scope, self._reader.name)
        try:
            for _ in range(TRIES):
                read = reader.read(batch, cancel)
                marked = batch.turns if batch.again else read.named
                try:
                    self._count(read, storer.store(read, marked), sums)
                except (ConflictError, NotFoundError):
                    # What it was read with has changed meanwhile: what still waits of it is read anew.
                    batch = Batch(self._still_waiting(batch.turns), again=batch.again)
                    if not batch.turns:
                        return []
                    continue
                sums.bad = 0
                return [] if batch.again or not read.unnamed else [Batch(read.unnamed, again=True)]
            sums.stopped, sums.cause = "others change these memories all the time; run it again later", "busy"
        except UnusableError as exc:
            sums.bad += 1
            return self._unusable(batch, exc, storer, sums)
        except (UsageError, BackendError) as exc:
            sums.stopped, sums.cause = str(exc), "budget" if isinstance(exc, BudgetError) else "trouble"
            if cancel is None or not cancel.cancelled:
                storer.note(batch.turns, sums.stopped, sums.cause)
        return []

    def _unusable(self, batch: Batch, exc: UnusableError, storer: ExtractStorer, sums: _Sums) -> list[Batch]:
        if len(batch.turns) > 1 and not exc.unfounded:
            half = len(batch.turns) // 2
            return [Batch(batch.turns[:half], batch.again), Batch(batch.turns[half:], batch.again)]
        turns = self._still_waiting(batch.turns)
        storer.set_aside(turns, exc.why)
        sums.pending += len(turns)
        return []

    def _still_waiting(self, turns: Sequence[Memory]) -> tuple[Memory, ...]:
        """Those of the turns that wait still, as they are now."""
        there = {one.memory_id: one for one in waiting_turns(self._kit, self.scope, pending=True)[0]}
        return tuple(there[turn.memory_id] for turn in turns if turn.memory_id in there)

    def _count(self, read: Read, stored: Stored, sums: _Sums) -> None:
        sums.stored.append(stored)
        sums.read += len(read.batch.turns if read.batch.again else read.named)
        sums.passed_over += len(read.unnamed) if read.batch.again else 0
        sums.malformed += read.malformed
        sums.dropped.update(why for _, why in read.checked.dropped)
