"""What waits for a vector index, over whatever an engine keeps memories in; the index itself lies elsewhere."""

from __future__ import annotations

from collections import defaultdict

from offprompt.records import DoneVectors, PendingVectors, QueueVectors, WaitingVector, WaitingVectors
from offprompt.stores import _memory_rules as rules
from offprompt.stores._memory_table import MemoryTable


def waiting(table: MemoryTable, op: WaitingVectors, now: float) -> tuple[str, ...]:  # noqa: ARG001 - as all ops
    """See WaitingVectors."""
    return tuple(memory_id for _, _, memory_id in table.waiting(op.app, op.limit))


def pending(table: MemoryTable, op: PendingVectors, now: float) -> list[WaitingVector]:
    """See PendingVectors."""
    rows = table.waiting(op.app, op.limit)
    by_app: defaultdict[str, list[str]] = defaultdict(list)
    for _, app, memory_id in rows:
        by_app[app].append(memory_id)
    there = {
        (app, memory.memory_id): (memory, indexed)
        for app, ids in by_app.items()
        for memory, indexed in table.pairs(app, ids)
        if not rules.is_over(memory, now)
    }
    return [
        WaitingVector(seq, app, memory_id, *there.get((app, memory_id), (None, None))) for seq, app, memory_id in rows
    ]


def done(table: MemoryTable, op: DoneVectors, now: float) -> int:
    """See DoneVectors."""
    were_there = table.unqueue([row.seq for row in op.rows])
    count = 0
    for row in op.rows:
        if row.seq in were_there:
            continue
        memory = table.load(row.app, row.memory_id)
        if (None if memory is None or rules.is_over(memory, now) else memory) != row.memory:
            table.queue(row.app, [row.memory_id])
            count += 1
    return count


def queue(table: MemoryTable, op: QueueVectors, now: float) -> None:  # noqa: ARG001 - as all ops
    """See QueueVectors."""
    table.queue(op.app, op.ids)
