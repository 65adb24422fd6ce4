"""Event: one entry per operation on memory; never a value."""

from __future__ import annotations

from dataclasses import dataclass

from offprompt.records.scope import Scope


@dataclass(frozen=True, slots=True)
class Event:
    """One operation on memory.

    at        seconds since 1970 by the store's clock. op: `slot.write`, `slot.read`, `slot.forget`, `slot.restore`,
              `slot.erase`, `slot.sweep`, `memory.…`, `extract.…`, `session.…`, `handle.…`.
    actor     who: `app`, `user`, `model`, a key's name. name: the slot's or body's name.
    outcome   `ok`, or the error's class. why: the reason (of a policy, of a show), never a value.
    seq       its place in the store's log, 0 until stored. duration_s: seconds in the store.
    """

    at: float
    scope: Scope
    op: str
    actor: str = "app"
    name: str = ""
    version: int = 0
    bytes: int = 0
    outcome: str = "ok"
    why: str = ""
    duration_s: float = 0.0
    seq: int = 0
