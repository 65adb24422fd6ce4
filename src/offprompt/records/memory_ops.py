"""Typed operations of a MemoryStore: its batch is the primitive, each op names its result type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from offprompt.records.event import Event
from offprompt.records.memory import Added, Indexed, IndexPage, Memory, MemoryQuery, MemoryVersion
from offprompt.records.ops import Measured
from offprompt.records.scope import Scope
from offprompt.records.slot import DEFAULT, Default, Trust
from offprompt.records.vectors import WaitingVector

R_co = TypeVar("R_co", covariant=True)


class MemoryOp(Generic[R_co]):
    """One operation; `R_co` is what it returns. See `protocols.MemoryStore` for the contract of each."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AddMemory(MemoryOp[Added]):
    """Store a memory; its id, digest and times are the caller's.

    op_key   the write's own name: a second add with it changes nothing and returns the first one's memory.
    indexed  what is derived from it, stored with it.
    similar  ids of facts that say nearly the same: it is merged into the first that is live and of its scope.
    replaces ids of facts of its scope without an attribute that it supersedes; those that are not live, or greater by
             the rule of supersession, stay as they are.
    """

    memory: Memory
    indexed: Indexed | None = None
    op_key: str | None = None
    similar: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GetMemories(MemoryOp[list[Memory]]):
    """The memories of these ids in one app, in whatever scope and state, not expired; in the order of the ids."""

    app: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadMemories(MemoryOp[list[tuple[Memory, Indexed | None]]]):
    """The memories of these ids in one app, as GetMemories gives them, each once, with what is derived from them."""

    app: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListMemories(MemoryOp[list[Memory]]):
    """The memories that a query finds."""

    query: MemoryQuery


@dataclass(frozen=True, slots=True)
class MemoryHistory(MemoryOp[list[MemoryVersion]]):
    """The versions of a memory, oldest first; empty if there is none. Forgotten: texts are empty."""

    scope: Scope
    memory_id: str


@dataclass(frozen=True, slots=True)
class UpdateMemory(MemoryOp[Memory]):
    """Change a live or archived memory; None and DEFAULT keep what is there. metadata: members to set, None takes out.

    digest, indexed  of the new text; both belong to `text`.
    """

    scope: Scope
    memory_id: str
    text: str | None = None
    digest: str = ""
    indexed: Indexed | None = None
    metadata: Mapping[str, Any] | None = None
    tags: tuple[str, ...] | None = None
    importance: float | None = None
    event_at: float | Default | None = DEFAULT
    expires_at: float | Default | None = DEFAULT
    pinned: bool | None = None
    archived: bool | None = None
    if_version: int | None = None
    actor: str = "app"
    trust: Trust = "user"


@dataclass(frozen=True, slots=True)
class ForgetMemories(MemoryOp[int]):
    """Hide memories; how many were live, superseded or archived."""

    scope: Scope
    ids: tuple[str, ...]
    actor: str = "app"
    trust: Trust = "user"


@dataclass(frozen=True, slots=True)
class RestoreMemories(MemoryOp[int]):
    """Undo a forget within the undo time; how many came back."""

    scope: Scope
    ids: tuple[str, ...]
    actor: str = "app"
    undo_s: float = 7 * 86400


@dataclass(frozen=True, slots=True)
class EraseMemories(MemoryOp[int]):
    """Remove memories with versions and what is derived from them; how many. ids=None: all of the scope."""

    scope: Scope
    ids: tuple[str, ...] | None = None
    within: Literal["exact", "subtree"] = "exact"
    actor: str = "app"


@dataclass(frozen=True, slots=True)
class SweepMemories(MemoryOp[int]):
    """Remove what expired, and what was hidden longer than the undo time; how many.

    idle_before  users none of whose memories was added, changed or recalled since then lose what is not pinned.
    spared       scopes whose subtrees keep all that they have.
    """

    app: str | None = None
    undo_s: float = 7 * 86400
    idle_before: float | None = None
    actor: str = "sweep"
    spared: tuple[Scope, ...] = ()


@dataclass(frozen=True, slots=True)
class UseMemories(MemoryOp[None]):
    """Count recalls, for each id how many; ids that are gone are passed over. No event: recalls are the session's."""

    scope: Scope
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class IndexMemories(MemoryOp[int]):
    """Store what is derived; passed over where the memory is gone or has another version. How many were stored."""

    scope: Scope
    indexed: tuple[Indexed, ...]


@dataclass(frozen=True, slots=True)
class MarkExtracted(MemoryOp[None]):
    """Note of episodes, by id with the version that was read, that a language model has read them; see `Memory`.

    Once     ConflictError if one is marked already (but as `pending`), has another version, or is not live: then the
             transaction stores nothing, neither this time nor what was made of them.
    Recall   reads nothing of a mark, so the scope's revision stays: each would have every process load these turns
             anew. A hit may have the mark before; a list has the one that is stored.
    """

    scope: Scope
    turns: tuple[tuple[str, int], ...]
    by: str


@dataclass(frozen=True, slots=True)
class LoadIndex(MemoryOp[IndexPage]):
    """What changed in exactly that scope since a revision (0: all), by creation and id."""

    scope: Scope
    after: int = 0


@dataclass(frozen=True, slots=True)
class ScopeRevisions(MemoryOp[tuple[int, ...]]):
    """The revisions of exactly these scopes, in order; 0: nothing was ever stored there."""

    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class Unindexed(MemoryOp[list[Memory]]):
    """Live memories without a vector of that embedder, by creation and id, of a scope's subtree (None: all)."""

    embedder: str
    scope: Scope | None = None
    after: str = ""
    limit: int = 256


@dataclass(frozen=True, slots=True)
class MemoryScopes(MemoryOp[list[tuple[Scope, int]]]):
    """The exact scopes of a subtree (None: all) that hold memories, not expired or hidden, and how many, by key."""

    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class MeasureMemories(MemoryOp[Measured]):
    """The memories of an app, not expired or hidden, and the bytes of their records as they are stored."""

    app: str


@dataclass(frozen=True, slots=True)
class LogMemoryEvents(MemoryOp[None]):
    """Append events that no other op of the batch makes."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class WaitingVectors(MemoryOp[tuple[str, ...]]):
    """Ids of an app's memories (None: of all) whose last change the vector index may not have, the oldest first."""

    app: str | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class PendingVectors(MemoryOp[list[WaitingVector]]):
    """The same with what they are now: what is to be done in the index."""

    app: str | None = None
    limit: int = 256


@dataclass(frozen=True, slots=True)
class DoneVectors(MemoryOp[int]):
    """The index has these as they were read: their rows are removed; how many wait anew.

    A memory whose row is gone or another one by now, and which is no longer as it was read, waits anew: somebody else
    was at it meanwhile, and the order in which the index was told is not known.
    """

    rows: tuple[WaitingVector, ...]


@dataclass(frozen=True, slots=True)
class QueueVectors(MemoryOp[None]):
    """These memories of an app wait for the vector index, as if they had changed."""

    app: str
    ids: tuple[str, ...]
