"""Ops that change memories, run over whatever an engine keeps them in; the contract is `protocols.MemoryStore`'s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import eq
from typing import Any

from offprompt.errors import ConflictError
from offprompt.records import (
    Added,
    AddMemory,
    EraseMemories,
    ForgetMemories,
    Indexed,
    IndexMemories,
    MarkExtracted,
    Memory,
    MemoryQuery,
    MemoryVersion,
    RestoreMemories,
    Scope,
    SweepMemories,
    UpdateMemory,
    UseMemories,
)
from offprompt.stores import _memory_rules as rules
from offprompt.stores._memory_table import MemoryTable, timer
from offprompt.stores._values import storable


def add(table: MemoryTable, op: AddMemory, now: float) -> Added:
    """See AddMemory."""
    event = timer(now, op.memory.scope, "memory.add", op.memory.actor)
    memory = rules.checked(op)
    scope = memory.scope
    if op.op_key is not None and (first := table.by_op_key(scope, op.op_key)) is not None:
        return Added("merged", first, why="this very write was stored before")
    if table.load(scope.app, memory.memory_id) is not None:
        raise ConflictError(f"there is a memory {memory.memory_id} already; leave the id out to get a new one")
    twin = _twin(table, op, memory, now)
    if twin is not None:
        done, why = _merge(table, twin, memory, now)
    else:
        done, why = _insert(table, op, memory, now)
    if done.memory is not None and done.memory.state == "live":
        done = replace(done, replaced=(*done.replaced, *_replace(table, op, done.memory, now)))
    if op.op_key is not None and done.memory is not None:
        table.name(scope, op.op_key, done.memory.memory_id)
    table.log([event(done.memory, why=why)])
    return done


def _twin(table: MemoryTable, op: AddMemory, memory: Memory, now: float) -> Memory | None:
    """The memory that says the same already."""
    if memory.kind == "episode":
        return None
    near = (table.load(memory.scope.app, memory_id) for memory_id in op.similar)
    rows = [*table.by_digest(memory), *(row for row in near if row is not None and rules.is_alike(row, memory))]
    if memory.attribute and not rows:
        rows = [row for row in table.by_attribute(memory) if rules.is_said_again(row, memory)]
    return next((row for row in rows if not rules.is_over(row, now)), None)


def _merge(table: MemoryTable, twin: Memory, memory: Memory, now: float) -> tuple[Added, str]:
    joined = replace(rules.merged(twin, memory, now), revision=table.bump(twin.scope))
    table.change(joined)
    table.queue(joined.scope.app, [joined.memory_id])
    table.note(joined, version_of(joined, "merged", now, memory.actor))
    replaced = chain(table, joined, now)
    stored, counted = table.load(twin.scope.app, twin.memory_id), f"merged, {joined.repeats + 1} times now"
    if joined.state == "superseded":
        return Added("superseded", stored, replaced, f"{joined.superseded_by} is newer"), counted
    return Added("merged", stored, replaced, f"{twin.memory_id} says the same"), counted


def _insert(table: MemoryTable, op: AddMemory, memory: Memory, now: float) -> tuple[Added, str]:
    memory = replace(memory, revision=table.bump(memory.scope))
    table.add(memory)
    table.note(memory, version_of(memory, "added", now))
    if op.indexed is not None:
        table.index(memory.scope.app, op.indexed)
    table.queue(memory.scope.app, [memory.memory_id])
    replaced = chain(table, memory, now)
    stored = table.load(memory.scope.app, memory.memory_id)
    if stored is not None and stored.state == "superseded":
        return Added("superseded", stored, replaced, f"{stored.superseded_by} is newer"), "superseded at once"
    return Added("added", stored, replaced), f"supersedes {len(replaced)}" if replaced else ""


def chain(table: MemoryTable, memory: Memory, now: float) -> tuple[str, ...]:
    """The facts of the memory's attribute put in order; ids of those that are superseded since."""
    if memory.kind != "fact" or not memory.attribute:
        return ()
    facts = [row for row in table.by_attribute(memory) if not rules.is_over(row, now)]
    replaced: list[str] = []
    for fact in rules.chained(facts):
        was = next(row for row in facts if row.memory_id == fact.memory_id)
        changed = replace(fact, revision=memory.revision)
        table.change(changed)
        table.queue(changed.scope.app, [changed.memory_id])
        if was.state != changed.state:
            table.note(changed, version_of(changed, "superseded" if changed.state == "superseded" else "restored", now))
            if changed.state == "superseded" and changed.memory_id != memory.memory_id:
                replaced.append(changed.memory_id)
    return tuple(replaced)


def _replace(table: MemoryTable, op: AddMemory, memory: Memory, now: float) -> tuple[str, ...]:
    """Let the memory supersede the facts that the add names; ids of those that it does."""
    replaced: list[str] = []
    for memory_id in dict.fromkeys(op.replaces):
        row = table.load(op.memory.scope.app, memory_id)
        if row is None or rules.is_over(row, now) or not rules.gives_way(row, memory):
            continue
        changed = replace(
            row,
            state="superseded",
            state_at=memory.happened_at,
            superseded_by=memory.memory_id,
            revision=table.bump(row.scope),
        )
        table.change(changed)
        table.queue(changed.scope.app, [memory_id])
        table.note(changed, version_of(changed, "superseded", now))
        replaced.append(memory_id)
    return tuple(replaced)


def update(table: MemoryTable, op: UpdateMemory, now: float) -> Memory:
    """See UpdateMemory."""
    event = timer(now, op.scope, "memory.update", op.actor)
    row = table.load(op.scope.app, op.memory_id)
    row = row if row is not None and row.scope == op.scope else None
    memory = rules.updated(op, row, now)
    if row is None or memory == row:
        return memory
    memory = replace(memory, revision=table.bump(op.scope))
    table.change(memory)
    table.queue(op.scope.app, [memory.memory_id])
    if memory.version != row.version:
        table.note(memory, version_of(memory, "updated", now))
    if memory.state != row.state:
        outcome = "archived" if memory.state == "archived" else "restored"
        table.note(memory, version_of(memory, outcome, now, op.actor))
    if memory.text != row.text:
        table.unindex(memory)
    elif memory.version != row.version:
        table.keep_index(memory)
    if op.indexed is not None:
        table.index(op.scope.app, replace(op.indexed, version=memory.version))
    chain(table, memory, now)
    table.log([event(memory)])
    return table.load(op.scope.app, op.memory_id) or memory


def forget(table: MemoryTable, op: ForgetMemories, now: float) -> int:
    """See ForgetMemories."""
    event = timer(now, op.scope, "memory.forget", op.actor)
    rows = [table.load(op.scope.app, memory_id) for memory_id in dict.fromkeys(op.ids)]
    hidden = [row for row in (rules.forgotten(op, row, now) for row in rows) if row is not None]
    _store(table, op.scope, hidden, "forgotten", now, op.actor)
    table.log([event(None, name=op.ids[0] if len(op.ids) == 1 else "", why=f"{len(hidden)} memories")])
    return len(hidden)


def restore(table: MemoryTable, op: RestoreMemories, now: float) -> int:
    """See RestoreMemories."""
    event = timer(now, op.scope, "memory.restore", op.actor)
    shown: list[Memory] = []
    for memory_id in dict.fromkeys(op.ids):
        row = table.load(op.scope.app, memory_id)
        undo = None if row is None else rules.Undo(row, _was_archived(table, row))
        if (memory := rules.restored(op, undo, now)) is not None:
            shown.append(memory)
    _store(table, op.scope, shown, "restored", now, op.actor)
    for memory in shown:
        if (row := table.load(op.scope.app, memory.memory_id)) is not None:
            chain(table, row, now)
    table.log([event(None, name=op.ids[0] if len(op.ids) == 1 else "", why=f"{len(shown)} memories")])
    return len(shown)


def _was_archived(table: MemoryTable, memory: Memory) -> bool:
    """Whether it was archived when it was hidden."""
    states = [version.outcome for version in table.versions(memory.scope.app, memory.memory_id)]
    before = [state for state in states if state in ("archived", "restored", "superseded", "added")]
    return before[-1:] == ["archived"]


def _store(table: MemoryTable, scope: Scope, rows: Sequence[Memory], outcome: Any, now: float, actor: str) -> None:
    if not rows:
        return
    revision = table.bump(scope)
    for row in rows:
        table.change(replace(row, revision=revision))
        table.note(row, version_of(row, outcome, now, actor))
    table.queue(scope.app, [row.memory_id for row in rows])


def erase(table: MemoryTable, op: EraseMemories, now: float) -> int:
    """See EraseMemories."""
    event = timer(now, op.scope, "memory.erase", op.actor)
    if op.ids is None:
        query = MemoryQuery(op.scope, op.within, states=("live", "superseded", "archived", "forgotten"))
        rows = [*table.rows(query, op.scope, now), *table.rows(replace(query, expired=True), op.scope, now)]
    else:
        found = [table.load(op.scope.app, memory_id) for memory_id in dict.fromkeys(op.ids)]
        inside = op.scope.holds if op.within == "subtree" else partial(eq, op.scope)
        rows = [row for row in found if row is not None and inside(row.scope)]
    _remove(table, rows)
    table.log([event(None, name=op.ids[0] if op.ids and len(op.ids) == 1 else "", why=f"{len(rows)} memories")])
    return sum(not rules.is_over(row, now) for row in rows)


def sweep(table: MemoryTable, op: SweepMemories, now: float) -> int:
    """See SweepMemories."""
    scope = Scope(op.app, shared=True) if op.app is not None else Scope(shared=True)
    event = timer(now, scope, "memory.sweep", op.actor)
    rows = [row for row in table.over(op, now) if not any(one.holds(row.scope) for one in op.spared)]
    _remove(table, rows)
    if rows:
        table.log([event(None, why=f"{len(rows)} memories")])
    return len(rows)


def _remove(table: MemoryTable, rows: Sequence[Memory]) -> None:
    for row in rows:
        table.remove(row)
        table.queue(row.scope.app, [row.memory_id])
    for scope in dict.fromkeys(row.scope for row in rows):
        table.bump(scope, whole=True)


def use(table: MemoryTable, op: UseMemories, now: float) -> None:
    """See UseMemories."""
    rows = [table.load(op.scope.app, memory_id) for memory_id in op.counts]
    live = [row for row in rows if row is not None and row.state == "live" and not rules.is_over(row, now)]
    revisions = {scope: table.bump(scope) for scope in dict.fromkeys(row.scope for row in live)}
    for row in live:
        uses = row.uses + op.counts[row.memory_id]
        table.refresh(replace(row, uses=uses, used_at=now, revision=revisions[row.scope]))


def index(table: MemoryTable, op: IndexMemories, now: float) -> int:
    """See IndexMemories."""
    fitting: list[tuple[Memory, Indexed]] = []
    for indexed in op.indexed:
        row = table.load(op.scope.app, indexed.memory_id)
        if row is not None and row.scope == op.scope and row.version == indexed.version and not rules.is_over(row, now):
            fitting.append((row, indexed))
    if fitting:
        revision = table.bump(op.scope)
        for row, indexed in fitting:
            table.index(op.scope.app, indexed)
            table.refresh(replace(row, revision=revision))
        table.queue(op.scope.app, [row.memory_id for row, _ in fitting])
    return len(fitting)


def mark_extracted(table: MemoryTable, op: MarkExtracted, now: float) -> None:
    """See MarkExtracted."""
    for memory_id, version in dict.fromkeys(op.turns):
        row = table.load(op.scope.app, memory_id)
        if row is None or row.scope != op.scope or rules.is_over(row, now) or not rules.is_unread(row, version):
            raise ConflictError(
                f"memory {memory_id} was read, changed or hidden meanwhile; read what waits anew, nothing was stored"
            )
        table.refresh(replace(row, extracted=storable(op.by)))


def version_of(memory: Memory, outcome: Any, now: float, actor: str = "") -> MemoryVersion:
    return MemoryVersion(memory.version, memory.text, memory.metadata, actor or memory.actor, now, outcome)
