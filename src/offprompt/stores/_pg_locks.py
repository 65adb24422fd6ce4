"""What a write of PostgreSQL locks before it looks: advisory locks of the store, its apps, and owners of records.

An owner is an app's user, else agent, else session, else what all share. Each write shares the store's lock and its
apps', and holds those of its owners alone; what goes over owners holds an app's, or the store's, alone. All are taken
at once and in one order, so that nobody waits in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from offprompt.records import (
    DoneVectors,
    EraseMemories,
    EraseSlots,
    Event,
    GetSlot,
    JoinUsers,
    MemoryOp,
    MoveSlots,
    Scope,
    SlotOp,
    SweepMemories,
    SweepSlots,
)
from offprompt.records.scope import key_owner

Owner: TypeAlias = tuple[str, str, str]
"""App, kind of id, id; see `scope.key_owner`."""

TAKE: Final = (
    "SELECT CASE WHEN is_shared THEN pg_advisory_xact_lock_shared(key) ELSE pg_advisory_xact_lock(key) END "
    "FROM unnest(%s::bigint[], %s::boolean[]) AS wanted (key, is_shared)"
)


@dataclass(frozen=True, slots=True)
class Locks:
    """What is held alone: owners, whole apps, or the whole store."""

    owners: frozenset[Owner] = frozenset()
    apps: frozenset[str] = frozenset()
    store: bool = False

    def __or__(self, other: Locks) -> Locks:
        return Locks(self.owners | other.owners, self.apps | other.apps, self.store or other.store)

    def holds(self, scope: Scope) -> bool:
        """Whether nobody else can change what is in exactly that scope."""
        return self.store or scope.app in self.apps or key_owner(scope) in self.owners

    def touched(self) -> list[str] | None:
        """The apps that are locked, alone or shared; None: all."""
        return None if self.store else sorted(self.apps | {owner[0] for owner in self.owners})

    def wanted(self, schema: str) -> tuple[list[int], list[bool]]:
        """Keys of the locks, in the order in which they are taken, and whether each is shared."""
        found: list[tuple[int, bool]] = [(_number(schema), not self.store)]
        if not self.store:
            apps = self.touched() or []
            found += sorted((_number(schema, app), app not in self.apps) for app in apps)
            alone = [owner for owner in self.owners if owner[0] not in self.apps]
            found += sorted((_number(schema, *owner), False) for owner in alone)
        return [key for key, _ in found], [is_shared for _, is_shared in found]


WHOLE_STORE: Final = Locks(store=True)


def locks_of_scope(scope: Scope | None, *, subtree: bool = False) -> Locks:
    """What is locked for changes in exactly that scope, or in its subtree; None: everything."""
    if scope is None:
        return WHOLE_STORE
    if subtree and scope.user is None:
        return Locks(apps=frozenset({scope.app}))
    return Locks(frozenset({key_owner(scope)}))


def locks_of_events(events: Iterable[Event]) -> Locks:
    """What is locked to append them."""
    return Locks(frozenset(key_owner(event.scope) for event in events))


def locks_of(ops: Sequence[SlotOp[Any] | MemoryOp[Any]]) -> Locks:
    """What is locked for the ops of a batch."""
    found = Locks()
    for op in ops:
        found |= _locks_of(op)
    return found


def _locks_of(op: Any) -> Locks:
    match op:
        case SweepSlots() | SweepMemories():
            return WHOLE_STORE if op.app is None else Locks(apps=frozenset({op.app}))
        case EraseSlots() | EraseMemories():
            return locks_of_scope(op.scope, subtree=op.within == "subtree")
        case MoveSlots():
            return Locks(frozenset({(op.app, "user", op.user), (op.app, "user", op.to)}))
        case JoinUsers():
            return Locks(apps=frozenset({op.app}))
        case _:
            return _of_fields(op)


def _of_fields(op: Any) -> Locks:
    """By the fields that ops have in common; an op without a scope has its app's own owner, which no record has."""
    scopes = scopes_of(op)
    if scopes is not None:
        return Locks(frozenset(key_owner(scope) for scope in scopes))
    apps = [row.app for row in op.rows] if isinstance(op, DoneVectors) else [getattr(op, "app", None) or ""]
    return Locks(frozenset((app, "", "") for app in apps))


def apps_of(ops: Sequence[SlotOp[Any] | MemoryOp[Any]]) -> list[str] | None:
    """The apps that ops look into; None: all."""
    found: set[str] = set()
    for op in ops:
        scopes = scopes_of(op)
        app: str | None = getattr(op, "app", None)
        if scopes is not None:
            found |= {scope.app for scope in scopes}
        elif app is not None:
            found.add(app)
        else:
            return None
    return sorted(found)


def scopes_of(op: Any) -> list[Scope] | None:
    """The scopes that an op names; None if it names none."""
    if isinstance(op, GetSlot):
        return list(op.scopes)
    if (scope := getattr(op, "scope", None)) is not None:
        return [scope]
    for name in ("memory", "query"):
        if (record := getattr(op, name, None)) is not None:
            return [record.scope]
    if (scopes := getattr(op, "scopes", None)) is not None:
        return list(scopes)
    events: Sequence[Event] | None = getattr(op, "events", None)
    return None if events is None else [event.scope for event in events]


def _number(*names: str) -> int:
    """The number of a lock: 64 bits, signed, as PostgreSQL has them."""
    return int.from_bytes(blake2b("\0".join(names).encode(), digest_size=8).digest(), "big", signed=True)
