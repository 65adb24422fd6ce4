"""A consent is withdrawn: what rests on it goes for good, and nothing is stored under it any more."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from offprompt.protocols import apply, run
from offprompt.records import (
    MEMORY_STATES,
    Actor,
    EraseSlots,
    Event,
    ListMemories,
    ListSlots,
    LogEvents,
    Memory,
    MemoryQuery,
    PutSlot,
    Scope,
    Slot,
    SlotQuery,
    SweepSlots,
    UpdateMemory,
)
from offprompt.records.basis import CONSENT, basis_name, basis_of, consents_of
from offprompt.records.withdrawn import Withdrawn
from offprompt.service.slot_writer import SlotWriter, Writer
from offprompt.service.tombstones import Tombstones

if TYPE_CHECKING:
    from offprompt.service.parts import Parts


def withdraw(parts: Parts, scope: Scope, consent: str, actor: Actor) -> Withdrawn:
    """Remove what rests on a consent in a scope and all below it: see `BoundScope.withdraw`.

    Order    first nothing more is taken under it; then conversations, memories with what was derived of them, slots.
    Killed   in the middle: the same call once more does the rest.
    """
    name = basis_name("consent", consent)
    actor.check_within(scope, "subtree")
    parts.holds.check(scope)
    if parts.spool is not None:
        parts.spool.make_way()
    now = parts.clock.now()
    Tombstones(parts.main).withdraw(scope, name, now)
    done = _Withdrawal(parts, scope, name, actor)
    sessions = done.sessions()
    memories, kept = done.memories()
    slots, more = done.slots()
    why = f"{len(slots)} slots, {len(memories)} memories, {len(sessions)} sessions"
    run(parts.main, LogEvents((Event(now, scope, "consent.withdraw", actor.name, name, why=why),)))
    return Withdrawn(name, scope, now, slots, memories, sessions, (*kept, *more))


class _Withdrawal:
    """One withdrawal, in parts."""

    def __init__(self, parts: Parts, scope: Scope, name: str, actor: Actor) -> None:
        self._parts, self._scope, self._name, self._actor = parts, scope, name, actor

    def sessions(self) -> tuple[str, ...]:
        """Conversations that rest on it, with journal, bodies and ledger."""
        found = [record.scope for record in self._parts.sessions.sessions(self._scope) if self._name in record.consents]
        for scope in found:
            self._parts.sessions.drop_sessions(scope=scope)
        return tuple(scope.session or "" for scope in found)

    def memories(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ids of the memories that went, with their parts of the profile, and of those that stay."""
        query = MemoryQuery(self._scope, "subtree", states=MEMORY_STATES)
        listed = [*self._listed(query), *self._listed(replace(query, expired=True))]
        found = {one.memory_id: one for one in listed if self._name in consents_of(one.tags)}.values()
        gone, kept = defaultdict[Scope, list[str]](list), list[str]()
        for one in found:
            if len(consents_of(one.tags)) == 1:
                gone[one.scope].append(one.memory_id)
            else:
                tags = tuple(tag for tag in one.tags if tag != CONSENT + self._name)
                change = UpdateMemory(one.scope, one.memory_id, tags=tags, actor=self._actor.name)
                apply(self._parts.memories.store, change)
                kept.append(one.memory_id)
        for scope, ids in gone.items():
            self._parts.memories.of(scope).erase(*ids, actor=self._actor.name)
        return tuple(name for ids in gone.values() for name in ids), tuple(kept)

    def slots(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the slots that went with all their versions, and of those that stay."""
        parts, tag = self._parts, CONSENT + self._name
        spared = tuple(hold.scope for hold in parts.holds.list(self._scope.app))
        # What has expired is not listed.
        run(parts.slots, SweepSlots(self._scope.app, parts.settings.undo_s, spared=spared))
        found: list[Slot] = []
        for hidden in (False, True):
            found += run(parts.slots, ListSlots(SlotQuery(self._scope, "subtree", tags=(tag,), forgotten=hidden)))
        gone, kept = defaultdict[Scope, list[str]](list), list[str]()
        for slot in found:
            if len(consents_of(slot.tags)) == 1 or slot.forgotten_at is not None:
                gone[slot.scope].append(slot.name)
            else:
                self._without(slot, tag)
                kept.append(slot.name)
        for scope, names in gone.items():
            run(parts.slots, EraseSlots(scope, tuple(names), actor=self._actor.name))
        return tuple(name for names in gone.values() for name in names), tuple(kept)

    def _listed(self, query: MemoryQuery) -> list[Memory]:
        return apply(self._parts.main, ListMemories(query))

    def _without(self, slot: Slot, tag: str) -> None:
        """The slot's value under the consents that are left; its versions from before go."""
        rests = tuple(one for one in basis_of(slot.tags) if one != tag)
        writer = Writer(slot.source, slot.trust, slot.actor, basis=rests)
        parts = self._parts
        put = SlotWriter(parts.memories.kit.slots, slot.scope).draft(
            slot.name, slot.value, writer, importance=slot.importance
        )
        run(parts.slots, _kept(put, slot))


def _kept(put: PutSlot, slot: Slot) -> PutSlot:
    return replace(put, policy=slot.policy, parts=slot.parts)
