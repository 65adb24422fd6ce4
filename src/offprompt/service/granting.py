"""Grants: who may find what spaces and agents hold; kept in the notes of the main store."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from offprompt.errors import BackendError, NotFoundError, UsageError
from offprompt.protocols import Clock, Notes, Store
from offprompt.records import Actor, Event, Scope
from offprompt.records.grant import EVERYONE, GRANT_KINDS, Grant, GranteeKind, GrantKind, grantee_of
from offprompt.records.scope import GrantedScope, bare_of, clean_id, clean_space
from offprompt.service.aliasing import resolved
from offprompt.service.tombstones import all_notes

PREFIX: Final = "grant/"
CACHE_S: Final = 5.0
"""Seconds for which grants are taken as they were read last: so long one that was removed elsewhere may still hold."""

CACHED: Final = 4096

Place: TypeAlias = tuple[str, GranteeKind, str]
"""App, kind and id of whom something is granted to."""


class Grants:
    """The grants of a store. Thread-safe; any number of processes. app: which is meant where none is named.

    Holds     to find, never to change. Without a grant nothing is found, whether it exists or not.
    Changes   hold at once for who asks the same object, for others within CACHE_S seconds; they leave an event
              `grant.add` or `grant.remove` with whom they are about.
    Cost      of asking: nothing while what was read is no older than CACHE_S seconds; then one page of notes for each
              of everyone, the user, the agent and the key; one in all while the store has no grant.
    """

    def __init__(self, store: Store, clock: Clock, app: str = "default") -> None:
        self._store, self._clock, self._app = store, clock, app
        self._lock = threading.Lock()
        self._kept: dict[Place | None, tuple[float, frozenset[tuple[str, str]]]] = {}
        self._changes = 0

    def add(self, kind: GrantKind, name: str, *, to: str, app: str | None = None, actor: str = "app") -> Grant:
        """Let somebody find what a space or an agent holds; once more changes nothing.

        kind     `space`; or `agent`: what it keeps for the same user, and what it keeps for all its users.
        name     of the space, or the agent's id; there need be nothing in it yet.
        to       `everyone` in the app, `user:ID`, `agent:ID`, or `key:ID` for who shows that key.
        Raises   UsageError, ScopeError for what is none of these; NotFoundError for a key that the app has not.
        """
        grant = self._grant(kind, name, to, app, actor)
        if grant.to_kind == "key":
            from offprompt.service.keys import Keys  # noqa: PLC0415 - keys let go of grants, and these know of keys

            Keys(self._store, self._clock).get(grant.app, grant.to)
        place, text = _place(grant), msgspec.json.encode(grant).decode()
        while not self._set(place, text, None, grant, "grant.add", actor):
            if (there := self._store.note(place)) is not None:
                return _decoded(there)
        return grant

    def list(self, app: str | None = None) -> list[Grant]:
        """The grants of an app, the oldest first."""
        found = [_decoded(text) for _, text in all_notes(self._store, _prefix(app or self._app))]
        return sorted(found, key=lambda grant: (grant.at, _place(grant)))

    def remove(self, kind: GrantKind, name: str, *, to: str, app: str | None = None, actor: str = "app") -> Grant:
        """Take a grant back.

        Raises   NotFoundError if there is none; as `add`.
        """
        grant = self._grant(kind, name, to, app, actor)
        if (gone := self._removed(grant, actor)) is not None:
            return gone
        raise NotFoundError(
            f"{kind} {grant.name!r} is not granted to {grant.whom}; `offprompt grant list` lists what is"
        )

    def granted(self, kind: GrantKind, names: Iterable[str] | None, scope: Scope, key: str = "") -> tuple[str, ...]:
        """Those of the names that are granted to a scope's user or agent, to a key, or to everyone.

        names    in any spelling; they come back in the one that is stored. None: all that are granted, by name.
        Cost     see the class.
        """
        has = {name for place in self._places(scope, key) for its, name in self._granted_to(place) if its == kind}
        if names is None:
            return tuple(sorted(has))
        asked = dict.fromkeys(_clean_name(kind, name) for name in names)
        return tuple(name for name in asked if name in has)

    def view(self, scope: Scope, actor: Actor) -> Scope:
        """The scope, with what the agents keep that are granted to it now: for its user, then for all their users.

        Spaces    that it is seen with already stay. A store that fails is not told of here; then nothing is granted.
        """
        bare = bare_of(scope)
        if bare.shared or bare.space is not None:
            return scope
        spaces = tuple(one for one in scope.also if one.space) if isinstance(scope, GrantedScope) else ()
        try:
            agents = tuple(name for name in self.granted("agent", None, bare, actor.key) if name != bare.agent)
        except BackendError:
            agents = ()
        return _viewed(bare, agents, spaces) if agents or spaces else bare

    def drop(self, scope: Scope, *, actor: str = "app") -> int:
        """Remove the grants of, and to, a user, an agent or a space that is erased; how many."""
        found = [grant for grant in self.list(scope.app) if scope in grant.owners]
        return sum(self._removed(grant, actor) is not None for grant in found)

    def move(self, app: str, old: str, new: str, *, actor: str = "app") -> int:
        """Give the grants to a user to the one that it was joined to; how many. Killed: once more does the rest."""
        found = [_decoded(text) for _, text in all_notes(self._store, _prefix(app, "user", clean_id("user", old)))]
        for grant in found:
            self.add(grant.kind, grant.name, to=f"user:{new}", app=app, actor=actor)
            self._removed(grant, actor)
        return len(found)

    def _grant(self, kind: GrantKind, name: str, to: str, app: str | None, actor: str) -> Grant:
        """What is meant; a user's old id is the one that it was joined to."""
        if kind not in GRANT_KINDS:
            raise UsageError(f"kind={kind!r}: give one of {', '.join(GRANT_KINDS)}")
        app, (to_kind, who) = clean_id("app", app or self._app), grantee_of(to)
        if to_kind == "user":
            who = resolved(self._store, Scope(app, user=who)).user or who
        return Grant(app, kind, _clean_name(kind, name), to_kind, who, self._clock.now(), actor)

    def _removed(self, grant: Grant, actor: str) -> Grant | None:
        """The grant that was removed; None if there was none."""
        place = _place(grant)
        while (text := self._store.note(place)) is not None:
            if self._set(place, None, text, grant, "grant.remove", actor):
                return _decoded(text)
        return None

    def _set(self, place: str, text: str | None, was: str | None, grant: Grant, op: str, actor: str) -> bool:
        events = _events(grant, op, actor, self._clock.now())
        try:
            return self._store.set_note(place, text, was=was, events=events)
        finally:
            with self._lock:
                self._changes += 1
                self._kept.clear()

    def _places(self, scope: Scope, key: str) -> list[Place]:
        """To whom what a scope finds may be granted; nobody while the store has no grant."""
        if not self._granted_to(None):
            return []
        found: list[Place] = [(scope.app, EVERYONE, "")]
        if scope.user is not None:
            found.append((scope.app, "user", scope.user))
        if scope.agent is not None:
            found.append((scope.app, "agent", scope.agent))
        if key:
            found.append((scope.app, "key", key))
        return found

    def _granted_to(self, place: Place | None) -> frozenset[tuple[str, str]]:
        """Kinds and names of what is granted to one; of None: whether the store has a grant at all."""
        now = self._clock.now()
        with self._lock:
            kept, changes = self._kept.get(place), self._changes
        if kept is not None and 0 <= now - kept[0] < CACHE_S:
            return kept[1]
        pairs = self._store.notes(PREFIX, limit=1) if place is None else all_notes(self._store, _prefix(*place))
        found = frozenset((grant.kind, grant.name) for grant in (_decoded(text) for _, text in pairs))
        with self._lock:
            if changes == self._changes:  # else it may be from before the change
                if len(self._kept) >= CACHED:
                    self._kept.clear()
                self._kept[place] = (now, found)
        return found


@lru_cache(maxsize=CACHED, typed=True)  # an OwnScope is equal to the scope, and another view
def _viewed(bare: Scope, agents: tuple[str, ...], spaces: tuple[Scope, ...]) -> Scope:
    own = [Scope(bare.app, user=bare.user, agent=name) for name in agents if bare.user is not None]
    return GrantedScope.of(bare, [*own, *(Scope(bare.app, agent=name) for name in agents), *spaces])


def drop_key(notes: Notes, app: str, key_id: str, *, at: float, actor: str = "app") -> None:
    """Remove the grants to a key that was revoked, which asks no more."""
    for place, text in all_notes(notes, _prefix(app, "key", key_id)):
        notes.set_note(place, None, was=text, events=_events(_decoded(text), "grant.remove", actor, at))


def _events(grant: Grant, op: str, actor: str, at: float) -> list[Event]:
    """In the scope of the user and agent whom it names, one for each agent: an erasure masks them with the rest."""
    user = grant.to if grant.to_kind == "user" else None
    agents = [grant.name] if grant.kind == "agent" else []
    agents += [grant.to] if grant.to_kind == "agent" else []
    base = Scope(grant.app, user=user, shared=user is None)
    name = f"space {grant.name}" if grant.kind == "space" else "agent"
    why = f"to {grant.to_kind} {grant.to}" if grant.to_kind == "key" else f"to {grant.to_kind}"
    scopes = [replace(base, agent=agent, shared=False) for agent in dict.fromkeys(agents)] or [base]
    return [Event(at, scope, op, actor, name, why=why) for scope in scopes]


def _clean_name(kind: GrantKind, name: str) -> str:
    return clean_space(name) if kind == "space" else clean_id("agent", name)


def _place(grant: Grant) -> str:
    return PREFIX + msgspec.json.encode((grant.app, grant.to_kind, grant.to, grant.kind, grant.name)).decode()


def _prefix(*parts: str) -> str:
    """What the names of an app's notes, or of those to one grantee, begin with."""
    return PREFIX + msgspec.json.encode(parts).decode()[:-1] + ","


def _decoded(text: str) -> Grant:
    return msgspec.json.decode(text, type=Grant)
