"""The profile: slots that rules fill from what the user says."""

from __future__ import annotations

from typing import Final

from offprompt.errors import ConflictError, LimitError, NotFoundError
from offprompt.recall.derive.records import Derived
from offprompt.records import RULES, Added, Policy, Remembered, Scope, Slot, Trust, text_of
from offprompt.records.basis import basis_of
from offprompt.service.slot_writer import Kit, SlotWriter, Writer
from offprompt.service.slots import Slots

JOINT: Final = "; "


class ProfileWriter:
    """Writes profile slots of one scope as the user's; they do not count among `max_slots`.

    Left alone  a slot of that name that the application or the model wrote with another meaning: one that the
                application wrote, or locked.
    """

    def __init__(self, kit: Kit, scope: Scope, trust: Trust, basis: tuple[str, ...] = ()) -> None:
        self._kit, self._slots, self._basis = kit, Slots(kit, scope), basis
        self._trust: Trust = trust

    def write(self, fact: Derived, done: Added, op_key: str | None) -> Remembered:
        """The slot's part of a derived fact whose memory is stored."""
        name = fact.slot
        if done.outcome == "superseded":
            return Remembered("superseded", "slot", name, fact.value, why=done.why, rule=fact.rule)
        if done.outcome == "merged" and done.memory is not None and done.memory.state != "live":
            return Remembered("refused", "slot", name, fact.value, why="its memory is hidden", rule=fact.rule)
        current = self._slots.get(name, touch=False)
        if current is not None and (current.source == "app" or current.locked):
            why = "locked" if current.locked else "the application's own"
            return Remembered("refused", "slot", name, fact.value, why=f"the slot is {why}", rule=fact.rule)
        value = _value(fact, current)
        there = () if current is None or fact.effect == "replaces" else basis_of(current.tags)
        key = None if op_key is None else f"{op_key}/{fact.rule}"
        writer = Writer("user", self._trust, RULES, key, (*there, *self._basis))
        try:
            if value == "":
                return self._forgotten(fact, writer)
            slot = self._put(name, value, writer, fact.policy)
        except (ConflictError, LimitError) as exc:
            return Remembered("refused", "slot", name, fact.value, why=str(exc), rule=fact.rule)
        same = current is not None and current.version == slot.version
        return Remembered("merged" if same else "added", "slot", slot.name, text_of(slot.value), rule=fact.rule)

    def take_back(self, fact: Derived, *, for_good: bool) -> None:
        """Take what a fact put into its slot out of it; for_good: out of its versions too.

        Left alone  a slot that is not the rules' own now, or is locked.
        """
        current = self._slots.get(fact.slot, touch=False)
        if current is None or current.actor != RULES or current.locked:
            return
        there = text_of(current.value).split(JOINT)
        left = [item for item in there if item.casefold() != fact.value.casefold()]
        writer = Writer("user", self._trust, RULES)
        if for_good:
            self._slots.erase(fact.slot)
        elif not left:
            self._slots.forget(fact.slot, writer=writer)
        if left and (for_good or left != there):
            self._put(fact.slot, JOINT.join(left), writer, current.policy)

    def _put(self, name: str, value: str, writer: Writer, policy: Policy | None) -> Slot:
        current = self._slots.get(name, touch=False)
        if current is not None and text_of(current.value) == value:
            return current
        own = SlotWriter(self._kit, self._slots.scope)
        put = own.draft(name, value, writer)
        try:
            return own.store(put, split=False, schema=None, given=policy)
        except LimitError:
            if policy != "card":
                raise
            # The card is full: it is shown when asked for.
            return own.store(put, split=False, schema=None, given=None)

    def _forgotten(self, fact: Derived, writer: Writer) -> Remembered:
        try:
            self._slots.forget(fact.slot, writer=writer)
        except NotFoundError:
            return Remembered("merged", "slot", fact.slot, fact.value, why="there was none", rule=fact.rule)
        return Remembered("superseded", "slot", fact.slot, fact.value, why="it holds no more", rule=fact.rule)


def _value(fact: Derived, current: Slot | None) -> str:
    """The slot's new text; empty: there is nothing left to say."""
    there = [] if current is None else text_of(current.value).split(JOINT)
    if fact.effect == "replaces":
        return fact.value
    same = [item for item in there if item.casefold() == fact.value.casefold()]
    if fact.effect == "ends":
        return JOINT.join(item for item in there if item not in same)
    return JOINT.join(there if same else [*there, fact.value])
