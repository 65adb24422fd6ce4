"""Two ids of one person: the operations that join them, in the stores of memories and of slots."""

from __future__ import annotations

from dataclasses import dataclass

from offprompt.records.memory_ops import MemoryOp
from offprompt.records.ops import SlotOp


@dataclass(frozen=True, slots=True)
class JoinUsers(MemoryOp[int]):
    """From now on `user` is an alias of `to`, whose its memories become, in any agent's scope; how many.

    to       an alias itself: what it stands for. preview: nothing is changed.
    """

    app: str
    user: str
    to: str
    preview: bool = False
    actor: str = "app"


@dataclass(frozen=True, slots=True)
class UserOf(MemoryOp[str]):
    """The id that stands for a user's: what it was joined to, else itself."""

    app: str
    user: str


@dataclass(frozen=True, slots=True)
class AliasesOf(MemoryOp[tuple[str, ...]]):
    """The ids that were joined to a user's, in order."""

    app: str
    user: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Names of the slots that moved, and of those that stayed, because the other user has one of that name."""

    moved: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MoveSlots(SlotOp[Moved]):
    """Give a user's slots, with versions, hidden ones too, to another user, in the same agent's and session's scope.

    Stays    a slot whose name is taken there, with all parts of a value that was split. max_slots does not count.
    preview  nothing is changed.
    """

    app: str
    user: str
    to: str
    preview: bool = False
    actor: str = "app"


@dataclass(frozen=True, slots=True)
class Joined:
    """What joining two ids moves: how many memories, which slots.

    user     the id that stands for both. conflicts: slots that stay, because the other has one of that name.
    preview  nothing was changed.
    """

    user: str
    memories: int
    slots: tuple[str, ...]
    conflicts: tuple[str, ...]
    preview: bool
