"""The keyring: a key for each owner of records, wrapped by the app's key, outside of the store and its backups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from offprompt.errors import BackendError, NotFoundError
from offprompt.privacy import holder as holders
from offprompt.privacy.cipher import ID_BYTES, Cipher, bound_to
from offprompt.privacy.holder import Holder
from offprompt.privacy.keyring_notes import (
    GENERATION,
    HolderInfo,
    KeyNote,
    KeyringNotes,
    all_notes,
    check_head,
    key_name,
    key_text,
    opened_head,
    told,
)
from offprompt.protocols import Clock, Scourable
from offprompt.protocols.sealing import Owner
from offprompt.records import Reached

VERSION: Final = 1
"""Of the form of sealed data, its first byte; then the key's id, the nonce, the ciphertext with its tag."""

MOST_CACHED: Final = 20_000
STALE_S: Final = 1.0
"""Seconds after which a read looks whether keys were destroyed by others; a write always does."""


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
        self._known: dict[str, KeyNote] = {}
        self._generation: str | None = None
        self._seen_at = 0.0
        self.id = opened_head(notes, key, clock, create=create).id

    def refresh(self) -> None:
        """See Sealer."""
        generation = self._notes.note(GENERATION)
        self._seen_at = time.monotonic()
        if generation != self._generation:
            # New ones, not cleared: what another thread read before goes where nobody looks.
            self._holders, self._known = {}, {}
            check_head(self._notes, self._key)
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
        text = self._notes.note(key_name(key_id))
        return text is not None and msgspec.json.decode(text, type=KeyNote).gone is not None

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
        for name, text in all_notes(self._notes, holders.PREFIX):
            note = holders.read_wrapped(text)
            yield HolderInfo(holders.owner_in(name), note.ids, note.at)

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
                check_head(self._notes, self._key)
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
            name = key_name(key_id)
            if self._notes.note(name) is None:
                self._notes.set_note(name, key_text(KeyNote(holder.owner)), was=None)
        is_stored = self._notes.set_note(holders.name_of(holder.owner), text, was=was)
        if not is_stored and was is None:
            for key_id in holder.keys:
                self._notes.set_note(key_name(key_id), None, was=key_text(KeyNote(holder.owner)))
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
                was = self._notes.note(key_name(key_id))
                self._notes.set_note(key_name(key_id), key_text(KeyNote(None, self._clock.now())), was=was)
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

    def _key_of(self, key_id: str) -> KeyNote:
        cached = self._known
        if (there := cached.get(key_id)) is not None:
            return there
        text = self._notes.note(key_name(key_id))
        if text is None:
            return KeyNote()
        if len(cached) >= MOST_CACHED:
            cached.clear()
        cached[key_id] = found = msgspec.json.decode(text, type=KeyNote)
        return found

    def _bump(self) -> None:
        told(self._notes)
        self.refresh()


def _row(place: Sequence[str]) -> str:
    """What a message calls a row: its table and its last name, which is no value."""
    return f"a row of table {place[0]} ({place[-1]!r})"
