"""Legal holds: whose records are not erased, and why; kept in the notes of the main store."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import msgspec

from offprompt.errors import ConflictError, HeldError, NotFoundError, UsageError
from offprompt.protocols import Clock, Notes
from offprompt.records import Event, Hold, Scope
from offprompt.service.tombstones import all_notes

PREFIX: Final = "hold/"
MAX_REASON_CHARS: Final = 500


class Holds:
    """The holds of a store. Thread-safe; any number of processes.

    Changes   leave an event `hold.add` or `hold.lift` in the held scope.
    Cost      each check reads the holds of all apps: a page of notes.
    """

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes, self._clock = notes, clock

    def add(self, scope: Scope, reason: str, *, actor: str = "app") -> Hold:
        """Put a scope, with all below it, under a hold.

        reason   such as a case's number, for those who are refused; at most MAX_REASON_CHARS characters.
        Raises   UsageError for a reason that is none; ConflictError if the scope is held already.
        """
        if not reason.strip() or len(reason) > MAX_REASON_CHARS:
            raise UsageError(f"reason={reason[:40]!r}: say in 1 to {MAX_REASON_CHARS} characters why it is held")
        hold = Hold(scope, reason.strip(), self._clock.now(), actor)
        text = msgspec.json.encode(asdict(hold)).decode()
        events = [Event(hold.at, scope, "hold.add", actor)]
        if not self._notes.set_note(_place(scope), text, was=None, events=events):
            raise ConflictError(f"the scope {scope} is held already; lift that hold first")
        return hold

    def list(self, app: str | None = None) -> list[Hold]:
        """The holds of an app (None: of all), the oldest first."""
        found = [msgspec.json.decode(text, type=Hold) for _, text in all_notes(self._notes, PREFIX)]
        return sorted((hold for hold in found if app in (None, hold.scope.app)), key=lambda hold: hold.at)

    def lift(self, scope: Scope, *, actor: str = "app") -> Hold:
        """End the hold of exactly that scope.

        Raises   NotFoundError if it is not held.
        """
        while (text := self._notes.note(_place(scope))) is not None:
            events = [Event(self._clock.now(), scope, "hold.lift", actor)]
            if self._notes.set_note(_place(scope), None, was=text, events=events):
                return msgspec.json.decode(text, type=Hold)
        raise NotFoundError(f"the scope {scope} is not held; list what is with `offprompt hold list`")

    def meeting(self, scope: Scope) -> list[Hold]:
        """The holds of which something can be in a scope's subtree."""
        return [hold for hold in self.list(scope.app) if _meet(hold.scope, scope)]

    def check(self, scope: Scope) -> None:
        """Nothing, if nothing in the scope's subtree is held.

        Raises   HeldError, with the reason.
        """
        for hold in self.meeting(scope)[:1]:
            raise HeldError(
                f"{hold.scope} is under a legal hold ({hold.reason}), so nothing in {scope} is erased; nothing was "
                "changed: lift the hold first (offprompt hold lift)"
            )


def _meet(held: Scope, scope: Scope) -> bool:
    """Whether a record can be in the subtrees of both."""
    if held.space is not None or scope.space is not None:
        return held.holds(scope) or scope.holds(held)
    pairs = ((held.user, scope.user), (held.agent, scope.agent), (held.session, scope.session))
    return held.app == scope.app and all(one is None or other is None or one == other for one, other in pairs)


def _place(scope: Scope) -> str:
    return PREFIX + msgspec.json.encode(scope.key).decode()
