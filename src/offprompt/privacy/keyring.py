"""The keyring: a key for each owner of records, wrapped by the app's key, outside of the store and its backups."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import msgspec

from offprompt.errors import BackendError, NotFoundError, UsageError
from offprompt.privacy import holder as holders
from offprompt.privacy.cipher import ID_BYTES, Cipher, bound_to, id_of
from offprompt.privacy.holder import Holder
from offprompt.protocols import Clock, Notes, Scourable
from offprompt.protocols.sealing import Owner
from offprompt.records import Reached

HEAD: Final = "keyring"
GENERATION: Final = "generation"
"""Changes whenever keys are destroyed or rotated."""

VERSION: Final = 1
"""Of the form of sealed data, its first byte; then the key's id, the nonce, the ciphertext with its tag."""

MOST_CACHED: Final = 20_000
STALE_S: Final = 1.0
"""Seconds after which a read looks whether keys were destroyed by others; a write always does."""


class KeyringNotes(Notes, Protocol):
    """What keeps a keyring: a store of its own."""

    def close(self) -> None:
        """Let go of it."""
        ...


class _Head(msgspec.Struct, frozen=True):
    """The keyring itself. kek: id of the app's key; next: of the one that a rotation is bringing in."""

    id: str
    kek: str
    at: float
    next: str = ""


class _Key(msgspec.Struct, frozen=True):
    """What is known of a key by its id: whose it is, or when it was destroyed."""

    owner: Owner | None = None
    gone: float | None = None


@dataclass(frozen=True, slots=True)
class HolderInfo:
    """An owner, with the ids of its keys, the current one last, and when each was made."""

    owner: Owner
    ids: tuple[str, ...]
    at: tuple[float, ...]


class Keyring:
    """A Sealer whose keys are notes of a store. Thread-safe; any number of processes.

    notes    the store, which it closes. key: the app's, 32 bytes. create: make the keyring if it is none yet.
    Raises   UsageError for a key that is not this keyring's, or while a rotation is not finished; NotFoundError if it
             is none and not to be made.
    """

    def __init__(self, notes: KeyringNotes, key: bytes, clock: Clock, *, create: bool = False) -> None:
        self._notes, self._key, self._clock = notes, key, clock
        self.is_mixed = False
        self._holders: dict[Owner, Holder] = {}
        self._known: dict[str, _Key] = {}
        self._generation: str | None = None
        self._seen_at = 0.0
        self.id = self._opened(create=create).id

    def refresh(self) -> None:
        """See Sealer."""
        generation = self._notes.note(GENERATION)
        self._seen_at = time.monotonic()
        if generation != self._generation:
            # New ones, not cleared: what another thread read before goes where nobody looks.
            self._holders, self._known = {}, {}
            self._check_head()
            self._generation = generation

    def seal(self, owner: Owner, place: Sequence[str], data: bytes) -> bytes:
        """See Sealer."""
        holder = self._made(owner)
        current = holder.current
        cipher = holder.cipher(current)
        if cipher is None:
            raise KeyError(current)
        head = bytes([VERSION]) + bytes.fromhex(current)
        return head + cipher.seal(data, bound_to(*place) + head)

    def open(self, owner: Owner | None, place: Sequence[str], sealed: bytes) -> bytes | None:
        """See Sealer."""
        if time.monotonic() - self._seen_at > STALE_S:
            self.refresh()
        head = sealed[: 1 + ID_BYTES]
        if len(head) <= ID_BYTES or head[0] != VERSION:
            raise BackendError(
                f"{_row(place)} is sealed in a form that this program does not know; install a newer one"
            )
        cipher = self._cipher(owner, head[1:].hex(), place)
        if cipher is None:
            return None
        data = cipher.open(sealed[len(head) :], bound_to(*place) + head)
        if data is None:
            raise BackendError(f"{_row(place)} was altered, or moved from another place; restore a backup of the store")
        return data

    def is_current(self, owner: Owner | None, sealed: bytes) -> bool:
        """See Sealer."""
        key_id = sealed[1 : 1 + ID_BYTES].hex()
        if owner is None:
            owner = self._key_of(key_id).owner
        holder = None if owner is None else self._holder(owner)
        return holder is not None and holder.current == key_id

    def looked_up(self, owner: Owner, text: str) -> str:
        """See Sealer."""
        return self._made(owner).digest(text)

    def join(self, app: str, old: str, new: str) -> None:
        """See Sealer."""
        was, to = (app, "user", old), (app, "user", new)
        if self._holder(was) is None:
            return
        self._change(to, lambda one: one if was in one.also else replace(one, also=(*one.also, was)))
        self._change(was, lambda one: replace(one, joined=to))

    def destroy(self, owner: Owner) -> tuple[str, ...]:
        """See Sealer. Keys of whom was joined to another are that one's, and stay."""
        # The owner's last: killed before, the same call once more finds who was joined to it.
        gone = [key_id for one in reversed(self._all_of(owner)) for key_id in self._removed(one)]
        self._bump()
        return tuple(gone)

    def is_destroyed(self, key_id: str) -> bool:
        """See Sealer."""
        text = self._notes.note(_key_name(key_id))
        return text is not None and msgspec.json.decode(text, type=_Key).gone is not None

    def scour(self) -> Reached:
        """See Sealer."""
        return self._notes.scour() if isinstance(self._notes, Scourable) else Reached()

    def close(self) -> None:
        """See Sealer."""
        self._notes.close()

    def renew(self, owner: Owner) -> str:
        """See Sealer."""
        if self._holder(owner) is None:
            raise NotFoundError(f"{owner[1]} {owner[2]!r} of app {owner[0]!r} has no key; `offprompt keyring list`")
        made = self._change(owner, lambda one: one.with_key(self._clock.now()))
        self._bump()
        return made.current

    def list(self) -> Iterator[HolderInfo]:
        """All owners that have keys, by name."""
        for name, text in _all(self._notes, holders.PREFIX):
            note = holders.read_wrapped(text)
            yield HolderInfo(holders.owner_in(name), note.ids, note.at)

    def _opened(self, *, create: bool) -> _Head:
        text = self._notes.note(HEAD)
        if text is None:
            if not create:
                raise NotFoundError("there is no keyring there; correct encryption_keyring, or restore its backup")
            head = _Head(secrets.token_hex(ID_BYTES), id_of(self._key), self._clock.now())
            # Without the library nothing is made.
            Cipher(self._key)
            self._notes.set_note(HEAD, msgspec.json.encode(head).decode(), was=None)
            text = self._notes.note(HEAD) or ""
        head = msgspec.json.decode(text, type=_Head)
        if head.next:
            raise UsageError(
                f"the keyring {head.id} is being brought from the app's key {head.kek} to {head.next}; finish it: run "
                "the same `offprompt keyring rotate` again"
            )
        if head.kek != id_of(self._key):
            raise UsageError(
                f"the keyring {head.id} is wrapped by the app's key {head.kek}, and the key given is "
                f"{id_of(self._key)}; give the right one"
            )
        return head

    def _check_head(self) -> None:
        text = self._notes.note(HEAD)
        head = None if text is None else msgspec.json.decode(text, type=_Head)
        if head is None or head.next or head.kek != id_of(self._key):
            raise BackendError(
                "the app's key of the keyring was changed meanwhile; start again with the new key, once "
                "`offprompt keyring rotate` is done"
            )

    def _holder(self, owner: Owner) -> Holder | None:
        cached = self._holders
        if (there := cached.get(owner)) is not None:
            return there
        text = self._notes.note(holders.name_of(owner))
        found = None if text is None else holders.unwrap(owner, text, self._key, self.id)
        if len(cached) >= MOST_CACHED:
            cached.clear()
        if found is not None:
            cached[owner] = found
        return found

    def _made(self, owner: Owner) -> Holder:
        """The owner's holder, which is made if there is none."""
        while (found := self._holder(owner)) is None:
            self._store(Holder.new(owner, self._clock.now()), None)
            # A rotation that began before the note stood there has not seen it.
            try:
                self._check_head()
            except BackendError:
                self._removed(owner)
                raise
        return found

    def _change(self, owner: Owner, changed: Callable[[Holder], Holder]) -> Holder:
        """Store what becomes of a holder, also if others change it just then."""
        while True:
            self._holders.pop(owner, None)
            found = self._made(owner)
            made = changed(found)
            if made == found:
                return found
            if self._store(made, found.text):
                self._holders.pop(owner, None)
                return made

    def _store(self, holder: Holder, was: str | None) -> bool:
        text = holders.wrap(holder, self._key, self.id)
        # First what the key's id tells: what it seals is never unknown.
        for key_id in holder.keys:
            name = _key_name(key_id)
            if self._notes.note(name) is None:
                self._notes.set_note(name, _text(_Key(holder.owner)), was=None)
        is_stored = self._notes.set_note(holders.name_of(holder.owner), text, was=was)
        if not is_stored and was is None:
            for key_id in holder.keys:
                self._notes.set_note(_key_name(key_id), None, was=_text(_Key(holder.owner)))
        return is_stored

    def _all_of(self, owner: Owner) -> list[Owner]:
        """The owner, and whoever was joined to it; nobody if it was itself joined to another that has its keys."""
        found, at = [owner], 0
        while at < len(found):
            self._holders.pop(found[at], None)
            holder = self._holder(found[at])
            if at == 0 and holder is not None and holder.joined is not None and self._holder(holder.joined):
                return []
            found += [one for one in (holder.also if holder is not None else ()) if one not in found]
            at += 1
        return found

    def _removed(self, owner: Owner) -> tuple[str, ...]:
        """Remove an owner's note; the ids of its keys."""
        name = holders.name_of(owner)
        self._holders.pop(owner, None)
        while (text := self._notes.note(name)) is not None:
            ids = holders.read_wrapped(text).ids
            for key_id in ids:
                was = self._notes.note(_key_name(key_id))
                self._notes.set_note(_key_name(key_id), _text(_Key(None, self._clock.now())), was=was)
            if self._notes.set_note(name, None, was=text):
                return ids
        return ()

    def _cipher(self, owner: Owner | None, key_id: str, place: Sequence[str]) -> Cipher | None:
        known = self._known.get(key_id)
        if known is not None and known.gone is not None:
            return None
        whose = owner if owner is not None else self._key_of(key_id).owner
        if whose is not None:
            if (found := self._of(whose, key_id)) is not None:
                return found
            # Another process may have made it since.
            for one in (whose, *self._also(whose)):
                self._holders.pop(one, None)
            if (found := self._of(whose, key_id)) is not None:
                return found
        known = self._key_of(key_id)
        if known.gone is not None:
            return None
        if known.owner is None:
            raise BackendError(
                f"{_row(place)} is sealed by the key {key_id}, which the keyring {self.id} does not have; it is of "
                "another store, or the keyring is an older copy: give the right keyring"
            )
        raise BackendError(f"{_row(place)} is sealed by a key of somebody else: it was moved here; restore a backup")

    def _of(self, owner: Owner, key_id: str) -> Cipher | None:
        """The cipher of a key of the owner, or of whoever was joined to it."""
        holder = self._holder(owner)
        if holder is None:
            return None
        if (cipher := holder.cipher(key_id)) is not None or not holder.also:
            return cipher
        found = map(self._holder, self._also(owner))
        ciphers = (one.cipher(key_id) for one in found if one is not None)
        return next((one for one in ciphers if one is not None), None)

    def _also(self, owner: Owner) -> list[Owner]:
        found, at = [owner], 0
        while at < len(found):
            holder = self._holder(found[at])
            found += [one for one in (holder.also if holder is not None else ()) if one not in found]
            at += 1
        return found[1:]

    def _key_of(self, key_id: str) -> _Key:
        cached = self._known
        if (there := cached.get(key_id)) is not None:
            return there
        text = self._notes.note(_key_name(key_id))
        if text is None:
            return _Key()
        if len(cached) >= MOST_CACHED:
            cached.clear()
        cached[key_id] = found = msgspec.json.decode(text, type=_Key)
        return found

    def _bump(self) -> None:
        was = self._notes.note(GENERATION)
        while not self._notes.set_note(GENERATION, secrets.token_hex(ID_BYTES), was=was):
            was = self._notes.note(GENERATION)
        self.refresh()


def rewrap(notes: Notes, old: bytes, new: bytes) -> int:
    """Wrap all keys of a keyring by a new key of the app, which alone opens it from then on; of how many owners.

    Killed   in the middle: the same call once more does the rest; until then neither key opens the keyring.
    In use   by others: their next write is an error that says to start again with the new key.
    Raises   UsageError if the old key is not the keyring's, or another rotation is not finished; NotFoundError.
    """
    text = notes.note(HEAD)
    if text is None:
        raise NotFoundError("there is no keyring there; correct encryption_keyring")
    head = msgspec.json.decode(text, type=_Head)
    if head.kek == id_of(new) and not head.next:
        return _rewrapped(notes, old, new, head.id)
    if head.kek != id_of(old) or head.next not in ("", id_of(new)):
        going = f", and is being brought to {head.next}" if head.next else ""
        raise UsageError(
            f"the keyring {head.id} is wrapped by the app's key {head.kek}{going}; the keys given are {id_of(old)} and "
            f"{id_of(new)}: give the right ones"
        )
    begun = msgspec.json.encode(_with_kek(head, head.kek, id_of(new))).decode()
    if not notes.set_note(HEAD, begun, was=text) and notes.note(HEAD) != begun:
        raise UsageError(f"another rotation of the keyring {head.id} has just begun; let it end")
    _told(notes)
    count = _rewrapped(notes, old, new, head.id)
    done = msgspec.json.encode(_with_kek(head, id_of(new), "")).decode()
    notes.set_note(HEAD, done, was=begun)
    _told(notes)
    # Made between the last look and the end.
    return count + _rewrapped(notes, old, new, head.id)


def _with_kek(head: _Head, kek: str, following: str) -> _Head:
    """The head with another key of the app, and the one that follows."""
    return _Head(head.id, kek, head.at, following)


def _rewrapped(notes: Notes, old: bytes, new: bytes, keyring: str) -> int:
    count = 0
    for name, text in list(_all(notes, holders.PREFIX)):
        if holders.read_wrapped(text).kek != id_of(new):
            owner = holders.owner_in(name)
            found = holders.unwrap(owner, text, old, keyring)
            count += notes.set_note(name, holders.wrap(found, new, keyring), was=text)
    return count


def _told(notes: Notes) -> None:
    """Let others look at the head before they seal again."""
    while not notes.set_note(GENERATION, secrets.token_hex(ID_BYTES), was=notes.note(GENERATION)):
        pass


def _all(notes: Notes, prefix: str) -> Iterator[tuple[str, str]]:
    after = ""
    while page := notes.notes(prefix, after=after):
        yield from page
        after = page[-1][0]


def _key_name(key_id: str) -> str:
    return f"key/{key_id}"


def _text(key: _Key) -> str:
    return msgspec.json.encode(key).decode()


def _row(place: Sequence[str]) -> str:
    """What a message calls a row: its table and its last name, which is no value."""
    return f"a row of table {place[0]} ({place[-1]!r})"
