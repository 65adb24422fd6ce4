"""What mem0's callers say of a memory and ours has no field for: it stands in one member of the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.records import Memory, as_dict
from offprompt.service.remembering import MESSAGE

MARKS: Final = "mem0"
"""The member: an object of `app_id`, `immutable`, `feedback`, `feedback_reason`, as far as they were given."""


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


def with_marks(metadata: Mapping[str, Any], marks: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata with what is said; nothing said adds nothing."""
    said = {name: value for name, value in marks.items() if value is not None}
    return {**metadata, MARKS: said} if said else dict(metadata)


def run_of(memory: Memory) -> str | None:
    """The run that it belongs to: the session in which it was said."""
    return memory.session or memory.scope.session


def created_at(memory: Memory) -> float:
    """When it was made: the `timestamp` that its caller gave, else when it was stored.

    A time that a rule found in the words is when something happened, and no timestamp of the memory.
    """
    return memory.created_at if memory.event_at is None or memory.precision else memory.event_at
