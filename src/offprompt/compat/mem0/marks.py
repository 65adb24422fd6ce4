"""What mem0's callers said of a memory, read back from where it stands; see `service.peers`."""

from __future__ import annotations

from typing import Any

from offprompt.errors import UsageError
from offprompt.records import Memory, as_dict
from offprompt.service.peers import MARKS
from offprompt.service.remembering import MESSAGE


def marks_of(memory: Memory) -> dict[str, Any]:
    """What was said of it."""
    return as_dict(memory.metadata.get(MARKS)) or {}


def own_metadata(memory: Memory) -> dict[str, Any]:
    """The metadata that the caller gave."""
    return {name: value for name, value in memory.metadata.items() if name not in (MARKS, MESSAGE)}


def checked_metadata(metadata: object) -> dict[str, Any]:
    """The caller's metadata.

    Raises   UsageError for what is no object, and for a member of our name.
    """
    if metadata is None:
        return {}
    members = as_dict(metadata)
    if members is None:
        kind = type(metadata).__name__
        raise UsageError(f"metadata is a {kind}: give an object, such as metadata={{'topic': 'travel'}}")
    if MARKS in members:
        raise UsageError(f"metadata.{MARKS} is kept for app_id, immutable and feedback; name that member otherwise")
    return members


def run_of(memory: Memory) -> str | None:
    """The run that it belongs to: the session in which it was said."""
    return memory.session or memory.scope.session


def created_at(memory: Memory) -> float:
    """When it was made: the `timestamp` that its caller gave, else when it was stored.

    A time that a rule found in the words is when something happened, and no timestamp of the memory.
    """
    return memory.created_at if memory.event_at is None or memory.precision else memory.event_at
