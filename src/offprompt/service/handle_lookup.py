"""What a handle stands for in one session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offprompt.records import JournalEntry, fold_name
from offprompt.service.turn import Turn
from offprompt.wire.handles import Looked, Resolved, at_pointer, restore_lookalikes
from offprompt.wire.scrub import scrub_text

WHY = {
    "not_issued": "this session did not give it out",
    "not_found": "nothing is stored there",
    "not_allowed": "its policy is never",
    "malformed": "it names nothing",
}


@dataclass(frozen=True, slots=True)
class HandleLookup:
    """Looks handles up: only issued ones, never those of secrets. departed: messages that are not in the prompt."""

    turn: Turn
    departed: Sequence[JournalEntry]

    def __call__(self, name: str, pointer: str, /) -> Looked:
        """The value, or why there is none. See `wire.handles.Lookup`."""
        if name not in {fold_name(each) for each in self.turn.issued}:
            return Looked("not_issued")
        if name.startswith("@"):
            return self._body(name[1:], pointer)
        slot = self.turn.slots.get(name, actor="session")
        if slot is None:
            return Looked("not_found")
        # A secret goes nowhere by handle until its slot can name the places that it may go to.
        return Looked("not_allowed") if slot.policy == "never" else at_pointer(slot.value, pointer)

    def _body(self, body_id: str, pointer: str) -> Looked:
        """A body or earlier message as it came, but for secrets: a handle must not become their way out."""
        body = self.turn.bodies.get(body_id) or self.turn.kit.sessions.body(self.turn.scope, body_id)
        text = body.text if body is not None else None
        if text is None:
            text = next((entry.text for entry in self.departed if entry.key.startswith(body_id)), None)
        if text is None:
            return Looked("not_found")
        return at_pointer(restore_lookalikes(scrub_text(text, self.turn.hidden)[0]), pointer)

    def note(self, resolved: Resolved, where: str) -> None:
        """Events for what was resolved, events and warnings for what was not."""
        for used in resolved.used:
            self.turn.event("handle.resolve", used.name, why=where)
        for bad in resolved.bad:
            self.turn.event("handle.bad", bad.name, outcome="HandleError", why=f"{bad.why} in {where}")
            self.turn.warnings.append(f"the handle {bad.text[:80]} in {where} was not resolved: {WHY[bad.why]}")
