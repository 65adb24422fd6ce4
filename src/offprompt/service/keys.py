"""Keys: who may ask over a network, and for whom; kept in the notes of the main store."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from offprompt.errors import ConflictError, NotFoundError, UnauthenticatedError, UsageError
from offprompt.protocols import Clock, Notes
from offprompt.records import DEFAULT, ROLES, Default, Event, Identity, Issued, Key, Role, Scope
from offprompt.records.scope import clean_id
from offprompt.service.granting import drop_key

INDEX: Final = "keys"
"""The note that lists the ids of all keys by app; each key has a note of its own, `key/ID`."""

OVERLAP_S: Final = 86_400.0
CACHE_S: Final = 5.0
"""Seconds for which a key is taken as it was read last: so long a key that was revoked elsewhere may still work."""

CACHED: Final = 4096
UNKNOWN: Final = (
    "the key is not valid: it was never made in this store, has been revoked or rotated, or has expired; make "
    "one there with `offprompt key create` (--url as the server's) and send it as 'Authorization: Bearer op_…', to a "
    "gateway as 'Offprompt-Key: op_…'"
)

Index: TypeAlias = dict[str, list[str]]
"""Ids of keys by app."""


class Stored(msgspec.Struct, frozen=True):
    """A key as its note has it. new, old: hashes of its tokens, of the one before the last rotation too."""

    key: Key
    new: str
    old: str = ""


class Keys:
    """The keys of a store. Thread-safe; any number of processes.

    Tokens    `op_ID_SECRET`, the secret 256 random bits. Its SHA-256 is stored: a slow hash would protect a password
              that can be guessed, and this cannot. Compared in constant time.
    Changes   are seen at once by who asks the same object. They leave an event `key.create`, `key.rotate` or
              `key.revoke` with the key's id in the app's shared scope.
    Cost      `find` is one read of a note at most every CACHE_S seconds for each key; of a token that no key has, and
              of one that a rotation elsewhere just made, one.
    """

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes, self._clock = notes, clock
        self._cache: dict[str, tuple[float, Stored]] = {}
        self._changes = 0

    def create(
        self,
        name: str,
        *,
        app: str = "default",
        users: Iterable[str] | None = None,
        agents: Iterable[str] | None = None,
        roles: Iterable[Role] = ("read", "write"),
        expires_at: float | None = None,
        requests_per_minute: int | None = None,
        actor: str = "app",
    ) -> Issued:
        """A new key, with the token that is shown this once.

        name     who it is for, 1–256 bytes. users, agents: those whose memory it is for; None: any.
        roles    of `read`, `write`, `admin`, which may all.
        Raises   UsageError for what breaks these rules, or a time that is over.
        """
        key = Key(
            secrets.token_hex(8),
            clean_id("key", name),
            clean_id("app", app),
            _cleaned("user", users),
            _cleaned("agent", agents),
            checked_roles(roles),
            self._clock.now(),
            self._future(expires_at),
            requests_per_minute=_checked_rate(requests_per_minute),
        )
        self._list_anew(key.app, lambda ids: [*ids, key.key_id])
        return self._issued(key, "", "key.create", actor)

    def list(self, app: str) -> list[Key]:
        """The keys of an app, in order of creation, those that have expired too."""
        stored = [self._stored(key_id)[0] for key_id in self._index()[0].get(app, [])]
        return sorted((each.key for each in stored if each), key=lambda key: (key.created_at, key.key_id))

    def exist(self) -> bool:
        """Whether there is a key of any app that has not expired."""
        return any(self._is_live(key) for app in self._index()[0] for key in self.list(app))

    def get(self, app: str, key_id: str) -> Key:
        """A key of the app.

        Raises   NotFoundError; another app's key is not there.
        """
        return self._known(app, key_id)[0].key

    def rotate(
        self,
        app: str,
        key_id: str,
        *,
        overlap_s: float = OVERLAP_S,
        expires_at: float | Default | None = DEFAULT,
        actor: str = "app",
    ) -> Issued:
        """A new token of the key; the one before it stays valid for the overlap, older ones do not.

        expires_at   DEFAULT: as it was.
        Raises       NotFoundError if the app has no such key; UsageError for a time that is over.
        """
        if isinstance(overlap_s, bool) or not 0 <= overlap_s < float("inf"):
            raise UsageError(f"overlap_s={overlap_s!r}: give seconds, 0 or more")
        stored, text = self._known(app, key_id)
        now = self._clock.now()
        key = replace(stored.key, rotated_at=now, old_until=now + overlap_s if overlap_s else 0.0)
        if not isinstance(expires_at, Default):
            key = replace(key, expires_at=self._future(expires_at))
        return self._issued(key, stored.new, "key.rotate", actor, was=text)

    def revoke(self, app: str, key_id: str, *, actor: str = "app") -> Key:
        """Take a key back, with what was granted to it: this process refuses it at once, others within CACHE_S seconds.

        Raises   NotFoundError if the app has no such key.
        """
        while True:
            stored, text = self._known(app, key_id)
            key = stored.key
            if self._notes.set_note(_place(key_id), None, was=text, events=[self._event(key, "key.revoke", actor)]):
                break
        self._drop(key_id)
        self._list_anew(app, lambda ids: [each for each in ids if each != key_id])
        drop_key(self._notes, app, key_id, at=self._clock.now(), actor=actor)
        return key

    def find(self, token: str) -> Identity:
        """Whose token it is.

        Raises   UnauthenticatedError: no key has it, or not any more; the same for all causes.
        """
        return self.key_of(token).identity

    def known(self, token: str) -> Identity | None:
        """`find` without asking the store: None if that is needed, be it to refuse."""
        key_id = _id_of(token)
        kept = None if key_id is None else self._kept(key_id)
        return kept.key.identity if kept is not None and self._is_good(kept, token) else None

    def key_of(self, token: str) -> Key:
        """The key of a token; UnauthenticatedError as `find`."""
        key_id = _id_of(token)
        if key_id is not None:
            kept = self._kept(key_id)
            if kept is not None and self._is_good(kept, token):
                return kept.key
            stored = self._read(key_id)  # what was kept does not know what a rotation elsewhere made since
            if stored is not None and self._is_good(stored, token):
                return stored.key
        raise UnauthenticatedError(UNKNOWN)

    def _is_good(self, stored: Stored, token: str) -> bool:
        """Whether the token opens the key now."""
        given, now = _hash(token), self._clock.now()
        is_new, is_old = (hmac.compare_digest(each, given) for each in (stored.new, stored.old))
        return (is_new or (is_old and now < stored.key.old_until)) and self._is_live(stored.key)

    def _kept(self, key_id: str) -> Stored | None:
        """The key as it was stored less than CACHE_S seconds ago, if it was read then."""
        known = self._cache.get(key_id)
        return known[1] if known is not None and 0 <= self._clock.now() - known[0] < CACHE_S else None

    def _read(self, key_id: str) -> Stored | None:
        """The key as stored; one that is not there is asked for each time."""
        now, changes = self._clock.now(), self._changes
        found, _ = self._stored(key_id)
        self._cache.pop(key_id, None)
        if found is not None and changes == self._changes:  # else it may be from before the change
            if len(self._cache) >= CACHED:
                self._cache.clear()
            self._cache[key_id] = (now, found)
        return found

    def _drop(self, key_id: str) -> None:
        self._changes += 1
        self._cache.pop(key_id, None)

    def _is_live(self, key: Key) -> bool:
        return key.expires_at is None or self._clock.now() < key.expires_at

    def _stored(self, key_id: str) -> tuple[Stored | None, str]:
        """The key, and its note's text, "" if there is none."""
        text = self._notes.note(_place(key_id))
        return (None, "") if text is None else (msgspec.json.decode(text, type=Stored), text)

    def _known(self, app: str, key_id: str) -> tuple[Stored, str]:
        stored, text = self._stored(key_id)
        if stored is not None and stored.key.app == app:
            return stored, text
        raise NotFoundError(f"no key {key_id[:40]!r} in app {app!r}; list them with `offprompt key list`")

    def _issued(self, key: Key, old: str, op: str, actor: str, was: str | None = None) -> Issued:
        token = f"op_{key.key_id}_{secrets.token_urlsafe(32)}"
        text = msgspec.json.encode(Stored(key, _hash(token), old)).decode()
        if not self._notes.set_note(_place(key.key_id), text, was=was, events=[self._event(key, op, actor)]):
            raise ConflictError(f"key {key.key_id!r} was changed by another call just now; look at it and try again")
        self._drop(key.key_id)
        return Issued(key, token)

    def _event(self, key: Key, op: str, actor: str) -> Event:
        return Event(self._clock.now(), Scope(key.app, shared=True), op, actor, key.key_id)

    def _future(self, at: float | None) -> float | None:
        if at is not None and (isinstance(at, bool) or not self._clock.now() < at < float("inf")):
            raise UsageError(f"expires_at={at!r} is over; give a later time in seconds since 1970, or none")
        return at

    def _index(self) -> tuple[Index, str | None]:
        text = self._notes.note(INDEX)
        return msgspec.json.decode(text or "{}", type=Index), text

    def _list_anew(self, app: str, change: Callable[[list[str]], list[str]]) -> None:
        while True:
            index, was = self._index()
            index[app] = change(index.get(app, []))
            text = msgspec.json.encode({each: ids for each, ids in index.items() if ids}).decode()
            if self._notes.set_note(INDEX, text, was=was):
                return


def copy_keys(source: Notes, target: Notes) -> None:
    """Put the keys of a store into one that has none; once more changes nothing."""
    text = source.note(INDEX)
    for ids in msgspec.json.decode(text or "{}", type=Index).values():
        for key_id in ids:
            target.set_note(_place(key_id), source.note(_place(key_id)), was=target.note(_place(key_id)))
    target.set_note(INDEX, text, was=target.note(INDEX))


def checked_roles(roles: Iterable[str]) -> tuple[Role, ...]:
    """The roles in their order, each once.

    Raises   UsageError for none, and for what is no role.
    """
    given = [roles] if isinstance(roles, str) else list(roles)
    if not given or any(each not in ROLES for each in given):
        raise UsageError(f"roles={given!r}: give one or more of {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in given)


def _checked_rate(rate: int | None) -> int | None:
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int) or rate < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"requests_per_minute={rate!r}: give a whole number above 0, or none")
    return rate


def _cleaned(kind: str, ids: Iterable[str] | None) -> tuple[str, ...] | None:
    if ids is None:
        return None
    if isinstance(ids, str):
        raise UsageError(f"{kind}s={ids!r} is one text; pass a list, such as [{ids!r}]")
    clean = tuple(dict.fromkeys(clean_id(kind, each) for each in ids))
    if not clean:
        raise UsageError(f"{kind}s=[] would be a key for nobody; name one, or leave {kind}s out for any")
    return clean


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _id_of(token: str) -> str | None:
    """The id of the key that a token may be of."""
    kind, _, rest = token.partition("_")
    key_id = rest.partition("_")[0]
    return key_id if kind == "op" and key_id.isalnum() and key_id.isascii() else None


def _place(key_id: str) -> str:
    return f"key/{key_id}"
