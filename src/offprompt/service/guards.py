"""What the application lets models do with slots: places of handles, locked names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offprompt.errors import ForbiddenError, NotFoundError, UsageError
from offprompt.protocols import run
from offprompt.records import APPLICATION, Actor, Event, GetSlot, GuardSlot, LogEvents, Place, Scope, Slot, clean_name
from offprompt.records.scope import lent
from offprompt.service.granting import Grants
from offprompt.service.slot_writer import Kit, Writer, check_no_part
from offprompt.wire.places import clean_place


class Guards:
    """The part of `Slots` that says what models may do. Changes are made in exactly this scope, without a version.

    op_key   the name of the one write that is made with this object: if it was made before, it is not made again.
    grants   what says, each time anew, what is granted to the scope; None: it stays as it is given.
    behind   called with a slot of the profile that was forgotten, and by whom: the facts behind it go too.
    """

    def __init__(
        self,
        kit: Kit,
        scope: Scope,
        actor: Actor = APPLICATION,
        *,
        op_key: str | None = None,
        grants: Grants | None = None,
        behind: Callable[[Slot, Writer], object] | None = None,
    ) -> None:
        self._kit, self._scope, self._grants = kit, scope, grants
        self._actor, self._op_key, self._behind = actor, op_key, behind

    @property
    def scope(self) -> Scope:
        """Whose slots they are; what is granted to it now is found with them."""
        return self._scope if self._grants is None else self._grants.view(self._scope, self._actor)

    def _check_lent(self, slot: Slot) -> None:
        """Raises ForbiddenError for a slot that is found by a grant: it is forgotten in its own scope alone."""
        if lent(scope := self.scope, slot.scope):
            raise ForbiddenError(
                f"slot {slot.name!r} belongs to {slot.scope}, which is granted to {scope} to find, not to change; "
                "change it in its own scope"
            )

    def allow(self, name: str, tool: str, argument: str, *, host: str = "") -> Slot:
        """Let the handle of a `never` slot resolve in one more place; everywhere else it stays refused.

        tool      the tool's name. argument: one string of its arguments: a top-level name (`token`), or a JSON pointer
                  (`/headers/Authorization`, `/lines/0`). The handle may stand in a longer text there.
        host      only while all URLs of the call name exactly this host, and at least one does; with a port if it is
                  not the scheme's own (`api.example.com:8443`). What counts as a URL: docs/concepts.md.
        From when  sessions that begin later name the slot; in one that is open the model finds it by `mem_search`.
        Raises    NotFoundError, NameInvalidError for a part of a split slot, LimitError beyond 16 places, UsageError
                  for a slot of another policy or a place that is none.
        """
        return self._guard(self._op(name, allow=(clean_place(tool, argument, host),)))

    def disallow(self, name: str, tool: str, argument: str, *, host: str = "") -> Slot:
        """Take a place away, as it was allowed; one that is not there is no error. Works at once, in all sessions."""
        return self._guard(self._op(name, disallow=(clean_place(tool, argument, host),)))

    def allowed(self, name: str) -> tuple[Place, ...]:
        """The places of a slot that this scope sees, in the order in which they were allowed.

        Raises   NotFoundError if there is no such slot.
        """
        return self._seen(clean_name(name)).allow

    def lock(self, name: str) -> Slot:
        """Let models neither write nor forget the slot; the application still may. NotFoundError if there is none."""
        return self._guard(self._op(name, locked=True))

    def unlock(self, name: str) -> Slot:
        """Take the lock away. NotFoundError if there is no such slot."""
        return self._guard(self._op(name, locked=False))

    def _op(self, name: str, **what: Any) -> GuardSlot:
        return GuardSlot(self.scope, clean_name(name), actor=self._actor.name, **what)

    def _guard(self, op: GuardSlot) -> Slot:
        try:
            check_no_part(self._kit.slots, self.scope, op.name)
            slot = run(self._kit.slots, op)
        except (NotFoundError, UsageError) as exc:
            at, outcome = self._kit.clock.now(), type(exc).__name__
            run(self._kit.slots, LogEvents((Event(at, self.scope, "slot.guard", op.actor, op.name, outcome=outcome),)))
            raise
        return slot

    def _seen(self, name: str) -> Slot:
        found = self._find(name)
        if found is None:
            raise NotFoundError(f"no slot {name!r} in scope {self.scope} or those that it inherits", name=name)
        return found

    def _find(self, name: str) -> Slot | None:
        """The slot under that name in the scopes this one inherits, most specific first, without its parts."""
        return run(self._kit.slots, GetSlot(self.scope, name, within="inherit"))
