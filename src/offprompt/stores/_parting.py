"""What is left of an owner in any store once all its records are removed, and what takes its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from offprompt.records import Event, Scope
from offprompt.records.erasure import NOBODY, cell_of, instead_of

FLOOR: Final = " "
"""The user in the row of `memory_scopes` that has an app's floor: no id is a space.

Revisions of a scope without a row begin behind it, so what a process still knows of a scope that was erased never
looks new when somebody of that id comes back.
"""


def masked(event: Event, scope: Scope, pseudonym: str) -> Event:
    """The event without what tells of the owner: its id, the session's, the name, and an actor that names it."""
    actor = NOBODY if cell_of(scope)[1] in event.actor else event.actor
    return replace(event, scope=instead_of(event.scope, pseudonym, of=scope), name="", actor=actor)
