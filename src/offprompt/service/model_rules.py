"""What models may change, in a session and outside of one: the same names, for the same reasons."""

from __future__ import annotations

from collections.abc import Iterable

from offprompt.errors import ConflictError
from offprompt.records import Memory, Scope, Slot, text_of
from offprompt.records.scope import is_others, lent
from offprompt.service.action_problems import RefusedError


def check_name(named: Iterable[Slot], target: Scope, name: str, *, lock_names: bool, foreign: bool) -> None:
    """Nothing, if a model may write that name into `target`; a slot nearer to the reader hides those behind it.

    named    the slots of that name that the reader's scope inherits. foreign: untrusted text led to the write.
    Raises   RefusedError for a locked name, for a new one where names are locked, and for foreign text that would
             stand in front of what the user said.
    """
    named = list(named)
    if any(slot.locked or is_given_secret(slot) for slot in named):
        raise RefusedError(name, "locked")
    if lock_names and all(slot.scope != target for slot in named):
        raise RefusedError(name, "only_names")
    if foreign and any(slot.trust == "user" for slot in named):
        raise RefusedError(name, "conflict")


def check_forget(slot: Slot, reader: Scope) -> None:
    """Nothing, if a model that reads `reader` may hide that slot.

    Raises   ConflictError for another's, RefusedError for a locked one and for a secret that was given.
    """
    if not is_own(slot, reader):
        raise ConflictError(f"slot {slot.name!r} belongs to {slot.scope}; the application may forget it there")
    if slot.locked or is_given_secret(slot):
        raise RefusedError(slot.name, "locked")


def check_forget_memory(memory: Memory, reader: Scope) -> None:
    """Nothing, if a model that reads `reader` may hide that memory; ConflictError for another's."""
    whose = memory.scope
    is_same = (whose.user, whose.space, whose.shared) == (reader.user, reader.space, reader.shared)
    if not is_same or is_others(reader, whose):
        raise ConflictError(
            f"memory {memory.memory_id!r} belongs to {memory.scope}; the application may forget it there"
        )


def is_own(slot: Slot, reader: Scope) -> bool:
    """Whether the slot is this user's (without a user this session's), and no one else sees a change."""
    if lent(reader, slot.scope):
        return False
    return slot.scope.user == reader.user if reader.user else slot.scope.session == reader.session


def is_given_secret(slot: Slot) -> bool:
    """A secret that the application or the user stored: models may not change, hide or shadow it."""
    return slot.policy == "never" and slot.source != "model"


def twins_of(slot: Slot | None, stored: Iterable[Slot]) -> list[Slot]:
    """The profile slots that say the same: rules read it in the same words, and it would be known on."""
    return [
        each
        for each in stored
        if slot is not None
        and each.name != slot.name
        and text_of(each.value) == text_of(slot.value)
        and (each.source, each.locked, each.scope) == ("user", False, slot.scope)
    ]
