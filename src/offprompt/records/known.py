"""Known: one line of what is known of a user, as the user may see and correct it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offprompt.records.slot import Source, Trust


@dataclass(frozen=True, slots=True)
class Known:
    """One thing that is known.

    name     the slot's name, or the memory's id: what `correct`, `pin` and `forget` take.
    text     in words; empty for a secret, of which only the name is told.
    agent    which one keeps it; empty: none. One of its slots is corrected, and forgotten, in the scope of the user and
             that agent.
    purpose, consent  what it may be used for, and what it rests on; empty: none is named.
    at       when it was last said or written, seconds since 1970. pinned: it never expires, and comes first.
    """

    name: str
    kind: Literal["slot", "fact"]
    text: str
    source: Source
    trust: Trust
    at: float
    pinned: bool = False
    purpose: str = ""
    consent: str = ""
    agent: str = ""
