"""What the tests of faults do to a store, deed after deed, and how they look whether each was done exactly once.

A deed is a slot written, a memory added and a session's commit, in this order, each with its own key: done again, it
changes nothing. A deed without keys must not be done again: there it is the engine that sees to it that what it tried
twice is stored once.
"""

from __future__ import annotations

from dataclasses import dataclass

from offprompt.bootstrap.engines import Engines, open_engines
from offprompt.bootstrap.urls import parse_urls
from offprompt.config import Settings
from offprompt.errors import BackendError, ConflictError
from offprompt.models.clocks import SystemClock
from offprompt.protocols import Clock, apply, run
from offprompt.records import (
    AddMemory,
    Body,
    Event,
    GetSlot,
    Indexed,
    JournalEntry,
    Json,
    LedgerEntry,
    ListMemories,
    LoadIndex,
    Memory,
    MemoryHistory,
    MemoryQuery,
    PutSlot,
    Scope,
    SessionChange,
    SessionRecord,
    SlotHistory,
)
from offprompt.service.maintenance import doctor

NAMES = 7
TRIES = 200


def opened(url: str, *, clock: Clock | None = None, busy_timeout_s: float = 10.0) -> Engines:
    """The engines of a URL, or of one for each role."""
    return open_engines(parse_urls(url), clock or SystemClock(), Settings(busy_timeout_s=busy_timeout_s), create=True)


def close(engines: Engines) -> None:
    """Both of them."""
    if engines.slots is not engines.main:
        engines.slots.close()
    engines.main.close()


def value_of(number: int) -> dict[str, Json]:
    """What a deed writes into its slot."""
    return {"number": number, "text": "值" * (number % 90)}


def text_of(user: str, number: int) -> str:
    """The memory that a deed adds."""
    return f"{user} 说 number {number}: " + "茶 tea " * (number % 30)


def session_of(user: str) -> Scope:
    """The session that deeds go on with."""
    return Scope(user=user, session="s")


def memory_of(user: str, number: int) -> Memory:
    """The memory of a deed."""
    text = text_of(user, number)
    return Memory(f"m_{user}_{number:06d}", Scope(user=user), "fact", text, digest=text)


def indexed_of(memory: Memory) -> Indexed:
    """What is derived from it."""
    return Indexed(memory.memory_id, 1, memory.text.encode())


def change_of(user: str, number: int) -> SessionChange:
    """The commit of a deed."""
    scope, message = session_of(user), {"role": "user", "content": f"第 {number}"}
    return SessionChange(
        SessionRecord(scope, revision=number + 1, turn=number, used_at=float(number)),
        (JournalEntry(f"k{number}", "", number, "user", float(number), message),),
        (Body(f"b{number}", "长" * (number % 500), "tool", "search", 1.0, 3 * (number % 500)),),
        (LedgerEntry(number + 1, float(number), number, "m"),),
        (Event(float(number), scope, "session.commit", name=str(number)),),
    )


def do(engines: Engines, user: str, number: int, *, keyed: bool = True) -> None:
    """One deed, from what is not done of it."""
    scope, key = Scope(user=user), f"{user} {number}" if keyed else None
    run(engines.slots, PutSlot(scope, f"slot{number % NAMES}", value_of(number), "by_handle", op_key=key))
    memory = memory_of(user, number)
    apply(engines.main, AddMemory(memory, indexed_of(memory), op_key=key))
    try:
        engines.main.commit(change_of(user, number))
    except ConflictError:
        record = engines.main.load(session_of(user))
        if not keyed or record is None or record.revision != number + 1:
            raise


def touch(engines: Engines, user: str) -> None:
    """Use the first slot, which is counted sooner or later."""
    assert run(engines.slots, GetSlot(Scope(user=user), "slot0", touch=True)) is not None


def uses(engines: Engines, user: str) -> tuple[int, int]:
    """How often the first slot was used, by its count and by the events."""
    told = engines.slots.events(scope=Scope(user=user), op="slot.read", limit=10**6)
    slot = run(engines.slots, GetSlot(Scope(user=user), "slot0"))
    return (0 if slot is None else slot.uses), len(told)


def do_surely(engines: Engines, user: str, number: int) -> list[BackendError]:
    """One deed, begun anew after each error of the engine; these errors."""
    failed: list[BackendError] = []
    while len(failed) < TRIES:
        try:
            do(engines, user, number)
        except BackendError as exc:
            failed.append(exc)
        else:
            return failed
    raise AssertionError(f"deed {number} of {user} could not be done in {TRIES} tries") from failed[-1]


@dataclass(frozen=True)
class Done:
    """How many deeds have left their slot, their memory and their commit."""

    slots: int
    memories: int
    commits: int

    def holds(self, acknowledged: int) -> bool:
        """Whether all acknowledged deeds are there, and at most a part of the next one."""
        counts = (self.slots, self.memories, self.commits)
        return all(count in (acknowledged, acknowledged + 1) for count in counts) and sorted(counts)[::-1] == [*counts]


def look(engines: Engines, user: str) -> Done:
    """Count what is stored, once the store was found sound, and each deed in it whole, in order, and done once."""
    # Whatever of a killed writer is still under way on this owner is over once this is written.
    run(engines.slots, PutSlot(Scope(user=user, agent="look"), "barrier", 1, "by_handle"))
    for store in (engines.main, engines.slots):
        report = doctor(store)
        assert report.is_sound, report
    return Done(_slots(engines, user), _memories(engines, user), _commits(engines, user))


def _slots(engines: Engines, user: str) -> int:
    scope, written = Scope(user=user), 0
    for name in range(NAMES):
        slot = run(engines.slots, GetSlot(scope, f"slot{name}"))
        if slot is None:
            continue
        written += slot.version
        kept = run(engines.slots, SlotHistory(scope, slot.name))
        assert [version.version for version in kept] == list(range(max(1, slot.version - 9), slot.version + 1))
        assert [version.value for version in kept] == [
            value_of(name + NAMES * (version.version - 1)) for version in kept
        ]
        assert slot.value == kept[-1].value
    told = engines.slots.events(scope=scope, op="slot.write", limit=10**6)
    names = [event.name for event in told if event.name != "barrier"]
    assert names == [f"slot{number % NAMES}" for number in range(written)]
    return written


def _memories(engines: Engines, user: str) -> int:
    scope = Scope(user=user)
    rows = apply(engines.main, ListMemories(MemoryQuery(scope, "exact")))
    wanted = [memory_of(user, number) for number in range(len(rows))]
    assert [(row.memory_id, row.text, row.repeats) for row in rows] == [(one.memory_id, one.text, 0) for one in wanted]
    page = apply(engines.main, LoadIndex(scope))
    assert [memory for memory, _ in page.rows] == rows
    assert [indexed for _, indexed in page.rows] == [indexed_of(row) for row in rows]
    for row in rows[-3:]:
        assert [one.text for one in apply(engines.main, MemoryHistory(scope, row.memory_id))] == [row.text]
    told = engines.main.events(scope=scope, op="memory.add", limit=10**6)
    assert [event.name for event in told if not event.why.startswith("merged")] == [row.memory_id for row in rows]
    return len(rows)


def _commits(engines: Engines, user: str) -> int:
    store, scope = engines.main, session_of(user)
    record = store.load(scope)
    commits = 0 if record is None else record.revision
    wanted = [change_of(user, number) for number in range(commits)]
    assert [(one.seq, one.key, one.message) for one in store.journal(scope)] == [
        (number + 1, f"k{number}", change.journal[0].message) for number, change in enumerate(wanted)
    ]
    assert store.bodies(scope) == [change.bodies[0] for change in wanted]
    assert [entry.seq for entry in store.ledger(scope)] == list(range(1, commits + 1))
    told = store.events(scope=scope, op="session.commit", limit=10**6)
    assert [event.name for event in told] == [str(number) for number in range(commits)]
    return commits
