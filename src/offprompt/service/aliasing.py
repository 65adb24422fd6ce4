"""Aliases: two ids of one person become one."""

from __future__ import annotations

from dataclasses import replace

from offprompt.errors import BackendError
from offprompt.protocols import MemoryStore, SlotStore, apply, run
from offprompt.records import AliasesOf, JoinUsers, MoveSlots, Scope, UserOf
from offprompt.records.alias import Joined
from offprompt.records.scope import bare_of, clean_id


def join_users(
    slots: SlotStore, memories: MemoryStore, app: str, old: str, new: str, *, preview: bool, actor: str = "app"
) -> Joined:
    """Make `old` an alias of `new`, whose memories and slots become its; one transaction for each role.

    Raises   ScopeError, UsageError, ConflictError for ids that cannot be joined; then nothing was changed.
    """
    old, new = clean_id("user", old), clean_id("user", new)
    # What cannot be joined is found before anything moves.
    count = apply(memories, JoinUsers(app, old, new, preview=True))
    user = apply(memories, UserOf(app, new))
    moved = run(slots, MoveSlots(app, old, user, preview, actor))
    if not preview:
        count = apply(memories, JoinUsers(app, old, user, actor=actor))
    return Joined(user, count, moved.moved, moved.kept, preview)


def resolved(memories: MemoryStore, scope: Scope) -> Scope:
    """The scope with the id that stands for its user's.

    A store that fails is not told of here: what is done in the scope tells it, and knows what to do then.
    """
    if scope.user is None:
        return scope
    try:
        user = apply(memories, UserOf(scope.app, scope.user))
    except BackendError:
        return scope
    return scope if user == scope.user else replace(scope, user=user)


def with_aliases(memories: MemoryStore, scope: Scope) -> list[Scope]:
    """The scope, and those of the ids that were joined to its user's: what stayed there is the same person's."""
    scope = bare_of(scope)
    if scope.user is None:
        return [scope]
    return [scope, *(replace(scope, user=old) for old in apply(memories, AliasesOf(scope.app, scope.user)))]
