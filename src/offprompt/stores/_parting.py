"""What is left of an owner in any store once all its records are removed, and what takes its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from offprompt.errors import UsageError
from offprompt.records import Event, Scope

OwnerKind: TypeAlias = Literal["user", "agent", "session"]

FLOOR: Final = " "
"""The user in the row of `memory_scopes` that has an app's floor: no id is a space.

Revisions of a scope without a row begin behind it, so what a process still knows of a scope that was erased never
looks new when somebody of that id comes back.
"""

NOBODY: Final = "erased"
"""The actor of an event that was done by, or for, somebody who was erased."""


def owner_of(scope: Scope) -> tuple[OwnerKind, str]:
    """The kind and id of what is erased whole.

    Raises   UsageError unless the scope is one user, one agent or one session.
    """
    given: tuple[tuple[OwnerKind, str | None], ...] = (
        ("user", scope.user),
        ("agent", scope.agent),
        ("session", scope.session),
    )
    ids: list[tuple[OwnerKind, str]] = [(kind, value) for kind, value in given if value is not None]
    if len(ids) != 1:
        raise UsageError(
            f"the scope {scope} is not one user, one agent or one session; erase those whole, and remove what lies in "
            "a narrower scope with clear, slots.erase and memories.erase"
        )
    return ids[0]


def masked(event: Event, scope: Scope, pseudonym: str) -> Event:
    """The event without what tells of the owner: its id, the session's, the name, and an actor that names it."""
    kind, value = owner_of(scope)
    without = {"session": None, kind: pseudonym}
    actor = NOBODY if value in event.actor else event.actor
    return replace(event, scope=replace(event.scope, shared=False, **without), name="", actor=actor)
