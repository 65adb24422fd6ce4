"""The stored values that a session may not send, kept ready to be looked for from call to call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from offprompt.records import Body, Scope
from offprompt.wire.leaks import Leak, LeakIndex

if TYPE_CHECKING:
    from offprompt.service.trouble import Known

MAX_WATCHES: Final = 32
MAX_BODY_BYTES: Final = 500_000
"""Bytes of stored bodies, the newest first, that are taken in when a process meets a session; later ones all are."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A value to look for. secret: of a `never` slot. foreign: a tool is its source, so tools may say it again."""

    text: str = field(repr=False)
    secret: bool = False
    foreign: bool = False


class LeakWatch:
    """Values and bodies of one session in two indexes: what tools may not say, and what only they may.

    last   what was known of the session when the store last answered: a store that fails then keeps no secret less,
           also where the application opens the session anew for each request.
    Cost   the first search builds the indexes, under 1 µs a byte; later ones take in what is new or has changed.
    Safe for use by several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[LeakIndex, LeakIndex] | None = None
        self._known: dict[str, Watched] = {}
        self._values: Mapping[str, Watched] | None = None
        self.has_bodies = False
        self.last: Known | None = None

    def find(self, text: str, values: Mapping[str, Watched], *, ours: bool = False) -> list[Leak]:
        """The values in a text; ours: text that Offprompt added, where those of tools and bodies count too."""
        with self._lock:
            own, foreign = self._indexes()
            self._update(values, own, foreign)
            found = own.find(text, ours=ours)
            return [*found, *foreign.find(text, ours=True)] if ours else found

    def keep(self, bodies: Iterable[Body]) -> None:
        """Look for these bodies too in what Offprompt adds."""
        with self._lock:
            _, foreign = self._indexes()
            for body in bodies:
                if f"@{body.body_id}" not in foreign:
                    foreign.add(f"@{body.body_id}", body.text)
            self.has_bodies = True

    def bring(self, bodies: Iterable[Body]) -> None:
        """`keep` for new bodies; before the stored ones were taken in it does nothing: these are among them then."""
        if self.has_bodies:
            self.keep(bodies)

    def _indexes(self) -> tuple[LeakIndex, LeakIndex]:
        if self._made is None:
            self._made = LeakIndex(), LeakIndex()
        return self._made

    def _update(self, values: Mapping[str, Watched], own: LeakIndex, foreign: LeakIndex) -> None:
        """Takes in the difference to what is known; a value that was not changed costs a comparison."""
        if values is self._values:
            return
        for name in [name for name in self._known if name not in values]:
            own.remove(name)
            foreign.remove(name)
            del self._known[name]
        for name, one in values.items():
            if self._known.get(name) != one:
                index, other = (foreign, own) if one.foreign else (own, foreign)
                other.remove(name)
                index.add(name, one.text, secret=one.secret)
                self._known[name] = one
        self._values = values


class LeakWatches:
    """The watches of the sessions that were used last; a process keeps them from call to call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_scope: OrderedDict[Scope, LeakWatch] = OrderedDict()

    def of(self, scope: Scope) -> LeakWatch:
        """The watch of a session's scope."""
        with self._lock:
            watch = self._by_scope.setdefault(scope, LeakWatch())
            self._by_scope.move_to_end(scope)
            while len(self._by_scope) > MAX_WATCHES:
                self._by_scope.popitem(last=False)
            return watch

    def drop(self, scope: Scope) -> None:
        """Let go of the watches of a scope and of those below it: what they looked for was erased."""
        with self._lock:
            for kept in [each for each in self._by_scope if scope.holds(each)]:
                del self._by_scope[kept]


def newest(bodies: Iterable[Body]) -> list[Body]:
    """The newest bodies, `MAX_BODY_BYTES` of them at the most."""
    kept: list[Body] = []
    left = MAX_BODY_BYTES
    for body in reversed(list(bodies)):
        left -= body.bytes
        if left < 0:
            break
        kept.append(body)
    return kept
