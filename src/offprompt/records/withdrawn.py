"""Withdrawn: what went with a consent."""

from __future__ import annotations

from dataclasses import dataclass

from offprompt.records.scope import Scope


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What rested on a consent and was removed for good.

    slots, memories, sessions  names of the slots, ids of the memories and of the conversations that went.
    kept     names and ids of what rests on another consent too: it stays, and does not name this one any more.
    """

    consent: str
    scope: Scope
    at: float
    slots: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
