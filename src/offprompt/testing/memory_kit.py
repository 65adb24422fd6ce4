"""What the memory suites share: short forms of the ops."""

from __future__ import annotations

import itertools
from typing import Any

from offprompt.protocols import MemoryStore, apply
from offprompt.records import (
    MEMORY_STATES,
    Added,
    AddMemory,
    EraseMemories,
    ForgetMemories,
    GetMemories,
    Indexed,
    IndexPage,
    ListMemories,
    LoadIndex,
    Memory,
    MemoryHistory,
    MemoryQuery,
    RestoreMemories,
    Scope,
    SweepMemories,
    UpdateMemory,
)
from offprompt.testing.kit import ALICE

_numbers = itertools.count(1)


def new_id() -> str:
    """An id greater than all before it."""
    return f"m_{next(_numbers):026d}"


def memory_of(text: str, scope: Scope = ALICE, **fields: Any) -> Memory:
    """A small fact."""
    return Memory(
        fields.pop("memory_id", None) or new_id(),
        scope,
        fields.pop("kind", "fact"),
        text,
        digest=fields.pop("digest", text.casefold()),
        **fields,
    )


def add(store: MemoryStore, text: str, scope: Scope = ALICE, **fields: Any) -> Added:
    """Add a fact; op_key and indexed go to the op."""
    own = {name: fields.pop(name) for name in ("op_key", "similar", "indexed") if name in fields}
    return apply(store, AddMemory(memory_of(text, scope, **fields), **own))


def added(store: MemoryStore, text: str, scope: Scope = ALICE, **fields: Any) -> Memory:
    """The memory that an add leads to."""
    memory = add(store, text, scope, **fields).memory
    assert memory is not None  # noqa: S101 - the suites assert
    return memory


def home(store: MemoryStore, place: str, at: float, **fields: Any) -> Added:
    """A statement about where the user lives."""
    return add(store, f"lives in {place}", subject="user", attribute="home", event_at=at, **fields)


def found(store: MemoryStore, scope: Scope = ALICE, **conditions: Any) -> list[Memory]:
    """What a list finds in exactly the scope."""
    query = MemoryQuery(scope, conditions.pop("within", "exact"), **conditions)
    return apply(store, ListMemories(query))


def texts(store: MemoryStore, scope: Scope = ALICE, **conditions: Any) -> list[str]:
    """The texts of what a list finds."""
    return [memory.text for memory in found(store, scope, **conditions)]


def all_states(store: MemoryStore, scope: Scope = ALICE) -> dict[str, str]:
    """State by text of all that is there."""
    return {memory.text: memory.state for memory in found(store, scope, states=MEMORY_STATES)}


def get(store: MemoryStore, memory_id: str, app: str = "default") -> Memory | None:
    """The memory, or None."""
    return next(iter(apply(store, GetMemories(app, (memory_id,)))), None)


def update(store: MemoryStore, memory_id: str, scope: Scope = ALICE, **changes: Any) -> Memory:
    """Change a memory."""
    return apply(store, UpdateMemory(scope, memory_id, **changes))


def outcomes(store: MemoryStore, memory_id: str, scope: Scope = ALICE) -> list[tuple[int, str, str]]:
    """Number, text and outcome of each version."""
    versions = apply(store, MemoryHistory(scope, memory_id))
    return [(version.version, version.text, version.outcome) for version in versions]


def forget(store: MemoryStore, *ids: str, scope: Scope = ALICE, **options: Any) -> int:
    """Hide memories."""
    return apply(store, ForgetMemories(scope, ids, **options))


def restore(store: MemoryStore, *ids: str, scope: Scope = ALICE, **options: Any) -> int:
    """Undo a forget."""
    return apply(store, RestoreMemories(scope, ids, **options))


def erase(store: MemoryStore, *ids: str, scope: Scope = ALICE, **options: Any) -> int:
    """Remove memories; without ids all of the scope."""
    return apply(store, EraseMemories(scope, ids or None, **options))


def sweep(store: MemoryStore, **options: Any) -> int:
    """Remove what is over."""
    return apply(store, SweepMemories(**options))


def page(store: MemoryStore, scope: Scope = ALICE, after: int = 0) -> IndexPage:
    """What changed since a revision."""
    return apply(store, LoadIndex(scope, after))


def derived(memory_id: str, *, version: int = 1, embedder: str = "e") -> Indexed:
    """What is derived from a memory."""
    return Indexed(memory_id, version, b"terms\x00", embedder)
