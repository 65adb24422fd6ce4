"""Holders: the users and agents of an app that something is stored for."""

from __future__ import annotations

from dataclasses import replace

from offprompt.protocols import MemoryStore, SessionStore, SlotStore, apply, run
from offprompt.records import ListSlots, MemoryScopes, Scope, SlotQuery
from offprompt.records.holder import Holder


def holders(slots: SlotStore, memories: MemoryStore, sessions: SessionStore, app: str) -> list[Holder]:
    """Who holds live slots, memories or sessions in an app, by key; the shared scope first.

    Cost     O(all slots and sessions of the app, and its scopes with memories).
    """
    everything = Scope(app, shared=True)
    found: dict[Scope, Holder] = {}

    def count(scope: Scope, *, slots: int = 0, memories: int = 0, sessions: int = 0) -> None:
        owner = scope.without_session()
        one = found.get(owner, Holder(owner))
        found[owner] = replace(
            one, slots=one.slots + slots, memories=one.memories + memories, sessions=one.sessions + sessions
        )

    for slot in run(slots, ListSlots(SlotQuery(everything, "subtree"))):
        count(slot.scope, slots=1)
    for scope, number in apply(memories, MemoryScopes(everything)):
        count(scope, memories=number)
    for record in sessions.sessions(everything):
        count(record.scope, sessions=1)
    return sorted(found.values(), key=lambda one: one.scope.key)
