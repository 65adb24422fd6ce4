"""Typed operations of a SlotStore: its batch is the primitive, each op names its result type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from offprompt.records.event import Event
from offprompt.records.json import Json
from offprompt.records.scope import Scope
from offprompt.records.slot import (
    DEFAULT,
    Default,
    Place,
    Policy,
    Slot,
    SlotLimits,
    SlotQuery,
    SlotVersion,
    Source,
    Trust,
    masked_repr,
)

R_co = TypeVar("R_co", covariant=True)


class SlotOp(Generic[R_co]):
    """One operation; `R_co` is what it returns. See `protocols.SlotStore` for the contract of each."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PutSlot(SlotOp[Slot]):
    """Write a new version. `None` for tags, importance, policy, schema keeps what the slot has (or its default).

    ttl_s       seconds from this write; None: for ever; DEFAULT: keeps what the slot has, else none.
    sliding     with ttl_s: a read extends the life.
    if_version  the version that must be current; 0: the slot must not exist.
    op_key      the write's own name: a second put with the key of a kept version changes nothing and returns the slot.
    parts       > 0: the value is stored in that many slots NAME.1 …; this one holds none of it.
    why         the reason of the policy, for the event.
    basis       tags of purpose and consent (`records.basis`); None keeps those of the slot. With another consent than
                before the versions before go: they rest on what need not hold any more.
    """

    scope: Scope
    name: str
    value: Json
    policy: Policy
    source: Source = "app"
    trust: Trust = "user"
    actor: str = "app"
    ttl_s: float | Default | None = DEFAULT
    sliding: bool = False
    tags: tuple[str, ...] | None = None
    importance: float | None = None
    schema: Mapping[str, Any] | None = None
    if_version: int | None = None
    op_key: str | None = None
    parts: int = 0
    why: str = ""
    basis: tuple[str, ...] | None = None
    limits: SlotLimits = field(default_factory=SlotLimits)

    def __repr__(self) -> str:
        return masked_repr(self)


@dataclass(frozen=True, slots=True)
class GetSlot(SlotOp[Slot | None]):
    """The live slot of that name in exactly that scope, or None. `touch`: count the use and slide the life.

    within      `inherit`: in the scopes that the scope inherits, the most specific first.
    forgotten   True: the hidden slot that an undo could bring back, with no value, instead of the live one.
                None: whichever of the two is there.
    """

    scope: Scope
    name: str
    touch: bool = False
    actor: str = "app"
    within: Literal["exact", "inherit"] = "exact"
    forgotten: bool | None = False

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Where it looks, in that order."""
        return self.scope.inherited() if self.within == "inherit" else (self.scope,)


@dataclass(frozen=True, slots=True)
class ListSlots(SlotOp[list[Slot]]):
    """The live slots that a query finds, by folded name (within `subtree` by scope key first)."""

    query: SlotQuery


@dataclass(frozen=True, slots=True)
class SlotHistory(SlotOp[list[SlotVersion]]):
    """The kept versions of a slot, oldest first; empty if there is none. Values are None while forgotten."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class ListSecrets(SlotOp[list[tuple[str, Json]]]):
    """Name and value of every kept version of the `never` slots in exactly these scopes, by folded name, newest first.

    Hidden and expired ones too, until they are erased or swept: what was once a secret is looked for as long as it is
    stored. For the search of what must not get out, never for showing. forgotten: those of all hidden slots instead.
    """

    scopes: tuple[Scope, ...]
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class ForgetSlot(SlotOp[bool]):
    """Hide a slot. True if it was there; False, and no change, if not."""

    scope: Scope
    name: str
    actor: str = "app"
    if_version: int | None = None
    trust: Trust = "user"
    source: Source = "app"


@dataclass(frozen=True, slots=True)
class RestoreSlot(SlotOp[Slot]):
    """Undo a forget. NotFoundError if nothing is hidden under the name, or its undo time is over."""

    scope: Scope
    name: str
    actor: str = "app"
    limits: SlotLimits = field(default_factory=SlotLimits)


@dataclass(frozen=True, slots=True)
class GuardSlot(SlotOp[Slot]):
    """Change what models may do with a slot; value and version stay. NotFoundError if there is none.

    allow, disallow  places to add, then to take away; what is there, or not there, already changes nothing.
    locked           None keeps it.
    """

    scope: Scope
    name: str
    allow: tuple[Place, ...] = ()
    disallow: tuple[Place, ...] = ()
    locked: bool | None = None
    actor: str = "app"


@dataclass(frozen=True, slots=True)
class EraseSlots(SlotOp[int]):
    """Remove slots with all their versions, hidden ones too; returns how many. names=None: all of the scope."""

    scope: Scope
    names: tuple[str, ...] | None = None
    within: Literal["exact", "subtree"] = "exact"
    actor: str = "app"


@dataclass(frozen=True, slots=True)
class Measured:
    """How much an app has of something: how many, and their bytes."""

    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MeasureSlots(SlotOp[Measured]):
    """The live slots of an app, and the bytes of their current values."""

    app: str


@dataclass(frozen=True, slots=True)
class SweepSlots(SlotOp[int]):
    """Remove what expired, and what was hidden longer than the undo time; returns how many. All scopes, or one app.

    spared   scopes whose subtrees keep all that they have.
    """

    app: str | None = None
    undo_s: float = 7 * 86400
    actor: str = "sweep"
    spared: tuple[Scope, ...] = ()


@dataclass(frozen=True, slots=True)
class LogEvents(SlotOp[None]):
    """Append events that no other op of the batch makes (a refused write, a bad handle)."""

    events: tuple[Event, ...]
