"""The ops of a MemoryStore, run over whatever an engine keeps its memories in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import (
    AddMemory,
    AliasesOf,
    DoneVectors,
    EraseMemories,
    ForgetMemories,
    GetMemories,
    Indexed,
    IndexMemories,
    IndexPage,
    JoinUsers,
    ListMemories,
    LoadIndex,
    LoadMemories,
    LogMemoryEvents,
    MarkExtracted,
    Measured,
    MeasureMemories,
    Memory,
    MemoryHistory,
    MemoryOp,
    MemoryQuery,
    MemoryScopes,
    MemoryVersion,
    PendingVectors,
    QueueVectors,
    RestoreMemories,
    ScopeRevisions,
    SweepMemories,
    Unindexed,
    UpdateMemory,
    UseMemories,
    UserOf,
    WaitingVectors,
)
from offprompt.stores import _memory_joins as joins
from offprompt.stores import _memory_rules as rules
from offprompt.stores import _memory_writes as writes
from offprompt.stores import _vector_queue as vectors
from offprompt.stores._memory_table import MemoryTable

READ_OPS: Final = (
    GetMemories,
    ListMemories,
    MemoryHistory,
    LoadMemories,
    LoadIndex,
    ScopeRevisions,
    Unindexed,
    MemoryScopes,
    MeasureMemories,
    UserOf,
    AliasesOf,
    WaitingVectors,
    PendingVectors,
)
"""Ops that a read transaction can serve."""


def run_memory_ops(table: MemoryTable, ops: Sequence[MemoryOp[Any]], now: float) -> list[Any]:
    """The results of the ops, in order, each seeing what those before it wrote."""
    return [_run(table, op, now) for op in ops]


def is_memory_read(ops: Sequence[MemoryOp[Any]]) -> bool:
    """Whether a read transaction can serve all the ops."""
    return all(isinstance(op, READ_OPS) for op in ops)


def _run(table: MemoryTable, op: MemoryOp[Any], now: float) -> Any:
    own = _BY_TYPE.get(type(op))
    if own is not None:
        return own(table, op, now)
    match op:
        case GetMemories():
            rows = (table.load(op.app, memory_id) for memory_id in op.ids)
            return [row for row in rows if row is not None and not rules.is_over(row, now)]
        case ListMemories():
            return _list(table, op.query, now)
        case MemoryHistory():
            return _history(table, op, now)
        case LoadIndex():
            return _page(table, op, now)
        case ScopeRevisions():
            return tuple(table.revision(scope)[0] for scope in op.scopes)
        case Unindexed():
            return table.unindexed(op, now)
        case MemoryScopes():
            return table.scopes(op.scope, now)
        case UserOf():
            return table.alias(op.app, op.user) or op.user
        case AliasesOf():
            return tuple(table.aliases(op.app, op.user))
        case LogMemoryEvents():
            return table.log(op.events)
        case _:
            raise UsageError(f"{type(op).__name__} is not an op of a MemoryStore; see offprompt.records")


def _pairs(table: MemoryTable, op: LoadMemories, now: float) -> list[tuple[Memory, Indexed | None]]:
    pairs = {pair[0].memory_id: pair for pair in table.pairs(op.app, op.ids)}
    there = (pairs.get(memory_id) for memory_id in dict.fromkeys(op.ids))
    return [pair for pair in there if pair is not None and not rules.is_over(pair[0], now)]


def _list(table: MemoryTable, query: MemoryQuery, now: float) -> list[Memory]:
    scopes = query.scope.inherited() if query.within == "inherit" else (query.scope,)
    found = [row for scope in scopes for row in table.rows(query, scope, now)]
    found.sort(key=lambda row: row.memory_id)
    return found[: query.limit]


def _history(table: MemoryTable, op: MemoryHistory, now: float) -> list[MemoryVersion]:
    row = table.load(op.scope.app, op.memory_id)
    if row is None or row.scope != op.scope or rules.is_over(row, now):
        return []
    versions = table.versions(op.scope.app, op.memory_id)
    if row.state == "forgotten":
        return [replace(version, text="", metadata={}) for version in versions]
    return versions


def _measure(table: MemoryTable, op: MeasureMemories, now: float) -> Measured:
    return table.measure(op.app, now)


def _page(table: MemoryTable, op: LoadIndex, now: float) -> IndexPage:
    revision, whole_before = table.revision(op.scope)
    whole = op.after < whole_before or op.after > revision or op.after == 0
    rows = table.page(op.scope, 0 if whole else op.after)
    live = tuple(pair for pair in rows if pair[0].state == "live" and not rules.is_over(pair[0], now))
    there = {memory.memory_id for memory, _ in live}
    gone = () if whole else tuple(row.memory_id for row, _ in rows if row.memory_id not in there)
    return IndexPage(revision, whole, live, gone)


_BY_TYPE: Final[Mapping[type, Callable[[MemoryTable, Any, float], Any]]] = {
    LoadMemories: _pairs,
    MeasureMemories: _measure,
    AddMemory: writes.add,
    UpdateMemory: writes.update,
    ForgetMemories: writes.forget,
    RestoreMemories: writes.restore,
    EraseMemories: writes.erase,
    SweepMemories: writes.sweep,
    UseMemories: writes.use,
    IndexMemories: writes.index,
    MarkExtracted: writes.mark_extracted,
    JoinUsers: joins.join,
    WaitingVectors: vectors.waiting,
    PendingVectors: vectors.pending,
    DoneVectors: vectors.done,
    QueueVectors: vectors.queue,
}
