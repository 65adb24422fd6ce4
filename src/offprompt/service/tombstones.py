"""Tombstones: who was erased and when, by a digest, so that copies made before do not bring it back."""

from __future__ import annotations

from urllib.parse import quote, unquote

import msgspec

from offprompt.protocols import Notes, Store
from offprompt.records import Scope
from offprompt.service.accounting import digester

PREFIX = "erased/"
WITHDRAWN = "withdrawn/"


class Tombstone(msgspec.Struct, frozen=True):
    """When somebody was erased, and what events call them since. at: by the store's clock."""

    at: float
    pseudonym: str


class Tombstones:
    """The tombstones of a store. Thread-safe; any number of processes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def set(self, scope: Scope, at: float) -> Tombstone:
        """Note that a scope of one user, agent or session was erased; a pseudonym that it has stays."""
        name = self._name(scope)
        while True:
            was = self._store.note(name)
            pseudonym = _decoded(was).pseudonym if was is not None else f"erased-{name.rpartition('/')[2][:12]}"
            stone = Tombstone(at, pseudonym)
            if self._store.set_note(name, msgspec.json.encode(stone).decode(), was=was):
                return stone

    def erased_at(self, scope: Scope) -> float:
        """When a record's user, agent, session or space was last erased; what is older must not come back. 0.0: never.

        Cost   one read for each id; none while nobody was ever erased from the store.
        """
        if not self._store.notes(PREFIX, limit=1):
            return 0.0
        owners = (
            Scope(scope.app, user=scope.user) if scope.user else None,
            Scope(scope.app, agent=scope.agent) if scope.agent else None,
            Scope(scope.app, session=scope.session) if scope.session else None,
            Scope(scope.app, space=scope.space) if scope.space else None,
        )
        texts = [self._store.note(self._name(owner)) for owner in owners if owner is not None]
        return max((_decoded(text).at for text in texts if text is not None), default=0.0)

    def withdraw(self, scope: Scope, consent: str, at: float) -> None:
        """Note that a consent was withdrawn in a scope; once more changes nothing."""
        text = msgspec.json.encode(at).decode()
        self._store.set_note(self._withdrawn(scope, consent), text, was=None)

    def is_withdrawn(self, scope: Scope, consent: str) -> bool:
        """Whether a consent was withdrawn in a scope, or in one that it inherits. Cost: a read for each of these."""
        return any(self._store.note(self._withdrawn(one, consent)) is not None for one in scope.inherited())

    def _withdrawn(self, scope: Scope, consent: str) -> str:
        key = digester(self._store.digest_key(Scope(scope.app, shared=True)))
        return f"{WITHDRAWN}{quote(scope.app, safe='')}/{key(chr(10).join([*scope.key, consent]))}"

    def kept(self) -> Kept:
        """All of them, for after a backup was put in the store's place."""
        texts = dict(all_notes(self._store, PREFIX))
        apps = {unquote(name.split("/")[1]) for name in texts}
        return Kept(texts, {app: self._store.digest_key(Scope(app, shared=True)) for app in apps})

    def _name(self, scope: Scope) -> str:
        return name_of(scope, self._store.digest_key(Scope(scope.app, shared=True)))


class Kept(msgspec.Struct, frozen=True):
    """The tombstones of a store, as notes, and the keys of their digests by app."""

    texts: dict[str, str]
    keys: dict[str, bytes]

    def has(self, scope: Scope) -> bool:
        """Whether the scope's user, agent or session was erased."""
        return scope.app in self.keys and name_of(scope, self.keys[scope.app]) in self.texts


def name_of(scope: Scope, key: bytes) -> str:
    """The note of a scope: a keyed digest, which says nothing to who does not have the store."""
    return f"{PREFIX}{quote(scope.app, safe='')}/{digester(key)(chr(10).join(scope.key))}"


def all_notes(notes: Notes, prefix: str) -> list[tuple[str, str]]:
    """All notes whose names begin so."""
    found, after = list[tuple[str, str]](), ""
    while page := notes.notes(prefix, after=after):
        found += page
        after = page[-1][0]
    return found


def copy_notes(source: Notes, target: Notes, prefix: str) -> None:
    """Put the notes whose names begin so into another store; once more changes nothing."""
    for name, text in all_notes(source, prefix):
        target.set_note(name, text, was=target.note(name))


def _decoded(text: str) -> Tombstone:
    return msgspec.json.decode(text, type=Tombstone)
