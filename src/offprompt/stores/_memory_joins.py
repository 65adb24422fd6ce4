"""Joining two ids of one person, over whatever an engine keeps memories in; see `protocols.MemoryStore`."""

from __future__ import annotations

from dataclasses import replace

from offprompt.errors import ConflictError, UsageError
from offprompt.records import MEMORY_STATES, JoinUsers, Memory, MemoryQuery, Scope
from offprompt.stores import _memory_rules as rules
from offprompt.stores._memory_table import MemoryTable, timer
from offprompt.stores._memory_writes import chain, version_of


def join(table: MemoryTable, op: JoinUsers, now: float) -> int:
    """See JoinUsers."""
    to = _target(table, op)
    event = timer(now, Scope(op.app, user=to), "memory.alias", op.actor)
    own = Scope(op.app, user=op.user)
    rows = table.rows(MemoryQuery(own, "subtree", states=MEMORY_STATES), own, now)
    if op.preview:
        return len(rows)
    # Those of the joined id are its own and those that were joined to it before.
    for old in [*table.aliases(op.app, op.user), op.user]:
        table.join(op.app, old, to)
    for scope in dict.fromkeys(row.scope for row in rows):
        table.bump(scope, whole=True)
        _move(table, [row for row in rows if row.scope == scope], replace(scope, user=to), now)
    table.log([event(None, name=op.user, why=f"{len(rows)} memories")])
    return len(rows)


def _target(table: MemoryTable, op: JoinUsers) -> str:
    """Whose the memories become.

    Raises   UsageError, ConflictError as the contract says.
    """
    to = table.alias(op.app, op.to) or op.to
    if to == op.user:
        what = "the same id" if op.to == op.user else f"{op.to!r} is an alias of {op.user!r} already"
        raise UsageError(f"alias {op.user!r} of {op.to!r}: {what}; name two users")
    joined = table.alias(op.app, op.user)
    if joined not in (None, to):
        raise ConflictError(f"{op.user!r} is an alias of {joined!r} already; join that one to {to!r}, if it is meant")
    return to


def _move(table: MemoryTable, rows: list[Memory], scope: Scope, now: float) -> None:
    """Rows of one scope into another, where what they say may be known."""
    revision = table.bump(scope)
    for row in rows:
        moved = replace(row, scope=scope, revision=revision)
        twins = table.by_digest(moved) if moved.kind != "episode" and moved.state == "live" else []
        twin = next((one for one in twins if not rules.is_over(one, now)), None)
        if twin is not None and not moved.attribute:
            moved = replace(moved, state="superseded", state_at=now, superseded_by=twin.memory_id)
            table.note(moved, version_of(moved, "superseded", now))
        table.move(moved)
    table.queue(scope.app, [row.memory_id for row in rows])
    for row in rows:
        chain(table, replace(row, scope=scope, revision=revision), now)
