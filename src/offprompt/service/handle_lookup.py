"""What a handle stands for in one session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offprompt.records import JournalEntry, Slot, fold_name
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.turn import Turn
from offprompt.wire.handles import Looked, Lookup, Resolved, at_pointer, resolve_arguments, restore_lookalikes
from offprompt.wire.places import is_allowed

STAND_IN = "~"
"""What stands for a secret while the hosts of a call are looked at: no host has it."""

WHY = {
    "not_issued": "this session did not give it out",
    "not_found": "nothing is stored there",
    "not_allowed": "its slot does not allow that place",
    "malformed": "it names nothing",
}


@dataclass(frozen=True, slots=True)
class HandleLookup:
    """Looks handles up: only issued ones, those of secrets only in a call that is one of their places.

    departed   messages that are not in the prompt.
    """

    turn: Turn
    departed: Sequence[JournalEntry]

    def __call__(self, name: str, pointer: str, /) -> Looked:
        """The value, or why there is none, in text or in a value that is written. See `wire.handles.Lookup`."""
        return self.look(name, pointer, lambda _: False)

    def look(self, name: str, pointer: str, is_free: Callable[[Slot], bool], *, touch: bool = True) -> Looked:
        """The value, or why there is none; `is_free` says of a `never` slot whether this is one of its places."""
        if name not in {fold_name(each) for each in self.turn.issued}:
            return Looked("not_issued")
        if name.startswith("@"):
            return self._body(name[1:], pointer)
        if name.startswith(RESERVED_PREFIX):
            memory = self.turn.memory(name)
            text = None if memory is None else self.turn.scrubber.hide(memory.text)
            return Looked("not_found") if text is None else at_pointer(restore_lookalikes(text), pointer)
        slot = self.turn.slot(name, touch=touch, actor=self.turn.kit.actor.via("session"))
        if slot is None:
            return Looked("not_found")
        if slot.policy == "never" and not is_free(slot):
            return Looked("not_allowed")
        return at_pointer(slot.value, pointer)

    def resolve_call(self, tool: str, arguments: str) -> Resolved:
        """A call's arguments with their handles resolved: see `wire.handles.resolve_arguments`."""
        return resolve_arguments(arguments, self.of_call(tool, arguments))

    def of_call(self, tool: str, arguments: str) -> Lookup:
        """The lookup of the handles in one call's arguments, which may be a place of secrets."""
        return _Call(self, tool, arguments)

    def _body(self, body_id: str, pointer: str) -> Looked:
        """A body or earlier message as it came, but for secrets: a handle must not become their way out."""
        body = self.turn.bodies.get(body_id) or self.turn.kit.sessions.body(self.turn.scope, body_id)
        text = body.text if body is not None else None
        if text is None:
            text = next((entry.text for entry in self.departed if entry.key.startswith(body_id)), None)
        if text is None:
            return Looked("not_found")
        return at_pointer(restore_lookalikes(self.turn.scrubber.hide(text)), pointer)

    def note(self, resolved: Resolved, where: str) -> None:
        """Events for what was resolved, events and warnings for what was not."""
        for used in resolved.used:
            self.turn.event("handle.resolve", used.name, why=where)
        for bad in resolved.bad:
            self.turn.event("handle.bad", bad.name, outcome="HandleError", why=f"{bad.why} in {where}")
            self.turn.warnings.append(f"the handle {bad.text[:80]} in {where} was not resolved: {WHY[bad.why]}")


@dataclass(frozen=True, slots=True)
class _Call:
    """The lookup of one call of the client's tools, of which all arguments are known."""

    lookup: HandleLookup
    tool: str
    arguments: str

    def __call__(self, name: str, pointer: str, /) -> Looked:
        return self.lookup.look(name, pointer, self._is_free)

    def _is_free(self, slot: Slot) -> bool:
        name = fold_name(slot.name)
        return is_allowed(name, slot.allow, tool=self.tool, arguments=self.arguments, settled=self._settled)

    def _settled(self) -> str:
        """The arguments as the tool gets them, but for secrets."""
        return resolve_arguments(self.arguments, self._without_secrets).text

    def _without_secrets(self, name: str, pointer: str, /) -> Looked:
        looked = self.lookup.look(name, pointer, lambda _: False, touch=False)
        return Looked("ok", STAND_IN) if looked.status == "not_allowed" else looked
