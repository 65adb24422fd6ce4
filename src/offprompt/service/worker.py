"""The work that nobody waits for: what is over, what other engines have yet to be told, what is long unused."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Protocol, runtime_checkable

from offprompt.errors import BackendError, NotFoundError, OffpromptError
from offprompt.protocols import Notes, apply
from offprompt.records import Finding, ListMemories, Memory, MemoryQuery, MemoryScopes, Scope, UpdateMemory
from offprompt.service.maintenance import DAY_S, sweep
from offprompt.service.parts import Parts

LEASE_S: Final = 60.0
"""Seconds for which a job is a worker's: renewed before each slice, over that long after the worker was killed."""

PAGE: Final = 500
ACTOR: Final = "worker"
_ARCHIVED: Final = ("fact", "episode")


@runtime_checkable
class MovesEvents(Protocol):
    """Slots in an engine of their own, whose events wait to be moved to the log of the memories' engine."""

    def move_events(self) -> int:
        """Move them; how many."""
        ...


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of one job.

    at       when it ended. done: how much, in the job's own unit. error: what stopped it, else empty; what is left is
             done by the next run. skipped: another worker is at it.
    """

    job: str
    at: float
    done: int = 0
    error: str = ""
    skipped: bool = False


class Worker:
    """Runs the jobs of one opened memory. Several may run at once, in any number of processes.

    Lease    a job is one worker's at a time, by the coordinator. When a worker is killed the next takes the job over
             after LEASE_S. Two that are at one job, after a pause longer than that, do no harm: a slice is whole, and
             once more changes nothing.
    Stop     ends the run behind the slice that is being done.
    """

    def __init__(self, parts: Parts, *, stop: threading.Event | None = None) -> None:
        self._parts = parts
        self._stop = stop or threading.Event()
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    def run(self) -> Iterator[Ran]:
        """Each job once, slice by slice until nothing is left to do; an error ends its job only."""
        for name, slices in JOBS.items():
            if self._stop.is_set():
                return
            yield self._run(name, slices)

    def _run(self, name: str, slices: Callable[[Parts], Iterator[int]]) -> Ran:
        done, error, clock = 0, "", self._parts.clock
        try:
            if not self._take(name):
                return Ran(name, clock.now(), skipped=True)
            try:
                for count in slices(self._parts):
                    done += count
                    if self._stop.is_set() or not self._take(name):
                        break
            except OffpromptError as exc:
                error = str(exc)
            ran = Ran(name, clock.now(), done, error)
            _note(self._parts.main, ran)
            self._parts.coordinator.release(f"job {name}", self.holder)
        except OffpromptError as exc:
            # The store itself fails: there is nowhere to note it.
            return Ran(name, clock.now(), done, error or str(exc))
        return ran

    def _take(self, name: str) -> bool:
        """Take the job's lease, or renew it."""
        return self._parts.coordinator.lease(f"job {name}", self.holder, seconds=LEASE_S) is not None


def _note(notes: Notes, ran: Ran) -> None:
    """Note the job's last run; of two that end at once either stands."""
    name = f"ran:{ran.job}"
    notes.set_note(name, json.dumps(asdict(ran)), was=notes.note(name))


def last_runs(notes: Notes) -> list[Ran]:
    """The last run of each job that ever ran."""
    texts = [notes.note(f"ran:{name}") for name in JOBS]
    return [Ran(**json.loads(text)) for text in texts if text is not None]


def worker_findings(notes: Notes, now: float) -> list[Finding]:
    """What `doctor` says of the worker: when each job ran last, and what stopped it."""
    found = last_runs(notes)
    if not found:
        way = "nothing is lost without one; `offprompt worker` sweeps, and tells other engines what waits"
        return [Finding("worker", "ok", f"no worker has run on this store yet: {way}")]
    return [
        Finding(
            f"worker {ran.job}",
            "warn" if ran.error else "ok",
            f"ran {max(0.0, now - ran.at):,.0f} s ago, {ran.done:,} done"
            + (f", stopped by: {ran.error}" * bool(ran.error)),
            "mend the cause; the next run goes on" if ran.error else "",
        )
        for ran in found
    ]


def _sweep(parts: Parts) -> Iterator[int]:
    settings = parts.settings
    swept = sweep(
        parts.slots,
        parts.memories.store,
        parts.sessions,
        parts.clock,
        undo_s=settings.undo_s,
        session_idle_s=settings.session_idle_s,
        user_idle_days=settings.user_idle_days,
        holds=parts.holds.list(),
    )
    yield swept.slots + swept.memories + swept.sessions
    if settings.retention:
        from offprompt.service.retaining import Retaining  # noqa: PLC0415 - rare

        yield sum(Retaining(parts).remove().values())


def _spool(parts: Parts) -> Iterator[int]:
    """Do the writes of this machine that wait."""
    if parts.spool is None:
        return
    replayed = parts.spool.replay()
    yield replayed.done
    if replayed.left:
        raise BackendError(
            f"{replayed.left:,} spooled writes wait on: the store does not take them; see offprompt doctor"
        )


def _events(parts: Parts) -> Iterator[int]:
    if isinstance(parts.slots, MovesEvents):
        yield parts.slots.move_events()


def _vectors(parts: Parts) -> Iterator[int]:
    link = parts.memories.kit.vectors if parts.memories.has_index else None
    while link is not None:
        told = link.tell()
        yield told.put + told.removed
        if not told.left:
            return


def _embeddings(parts: Parts) -> Iterator[int]:
    from offprompt.service.reindexing import batches  # noqa: PLC0415 - loads NumPy

    yield from batches(parts.memories.kit)


def _extract(parts: Parts) -> Iterator[int]:
    """Let a language model read turns of which enough wait, or for long enough, and sum up long values."""
    settings = parts.settings
    if settings.derive != "model" and not settings.summary_tokens:
        return
    from offprompt.service.consolidating import consolidate  # noqa: PLC0415 - loads NumPy
    from offprompt.service.summarizing import summarize  # noqa: PLC0415

    kit = parts.memories.kit
    for found in consolidate(kit, due=True) if settings.derive == "model" else ():
        yield found.read
        if found.cause in ("trouble", "useless"):
            raise BackendError(found.stopped)
    for one in summarize(kit, Scope(settings.app, shared=True)):
        yield int(one.outcome == "made")
        if one.outcome == "trouble":
            raise BackendError(one.why)


def _archive(parts: Parts) -> Iterator[int]:
    """Take out of recall what was not added, changed, said again or recalled for `archive_after_days`."""
    days = parts.settings.archive_after_days
    if not days:
        return
    store, before = parts.memories.store, parts.clock.now() - days * DAY_S
    for scope, _ in apply(store, MemoryScopes()):
        for page in _pages(parts, scope):
            old = [memory for memory in page if not memory.pinned and _active_at(memory) < before]
            try:
                store.apply([UpdateMemory(scope, one.memory_id, archived=True, actor=ACTOR) for one in old])
            except NotFoundError:
                # One was hidden or superseded just now: the next run looks again.
                continue
            yield len(old)


def _pages(parts: Parts, scope: Scope) -> Iterator[list[Memory]]:
    after = ""
    while page := apply(
        parts.memories.store,
        ListMemories(MemoryQuery(scope, "exact", kinds=_ARCHIVED, after=after, limit=PAGE)),
    ):
        yield page
        after = page[-1].memory_id


def _active_at(memory: Memory) -> float:
    return max(memory.updated_at, memory.used_at or 0.0)


JOBS: Final[Mapping[str, Callable[[Parts], Iterator[int]]]] = {
    "spool": _spool,
    "sweep": _sweep,
    "archive": _archive,
    "events": _events,
    "embeddings": _embeddings,
    "vectors": _vectors,
    "extract": _extract,
}
"""The jobs in the order in which they run; each yields how much a slice did, and may be left between two."""
