"""Whose keys a keyring holds: one note for each owner, wrapped by the app's key."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from offprompt.errors import BackendError
from offprompt.privacy.cipher import ID_BYTES, KEY_BYTES, Cipher, bound_to, id_of
from offprompt.protocols.sealing import Owner

PREFIX: Final = "holder/"
_DIGEST_BYTES: Final = 16


class Wrapped(msgspec.Struct, frozen=True):
    """A holder's note. kek: id of the app's key that wraps it; ids, at: of its keys and when each was made."""

    kek: str
    ids: tuple[str, ...]
    at: tuple[float, ...]
    sealed: str


@dataclass(frozen=True, slots=True)
class Holder:
    """An owner's keys, by id, the current one last.

    lookup  the key of its keyed digests. also: owners whose keys are its own as well; joined: whose this one's are.
    text    the note as it stands in the keyring.
    """

    owner: Owner
    lookup: bytes
    keys: dict[str, bytes]
    at: tuple[float, ...]
    also: tuple[Owner, ...] = ()
    joined: Owner | None = None
    text: str | None = None
    ciphers: dict[str, Cipher] = field(default_factory=dict[str, Cipher])

    @staticmethod
    def new(owner: Owner, now: float) -> Holder:
        """One with its first key."""
        lookup = secrets.token_bytes(KEY_BYTES)
        return Holder(owner, lookup, {}, ()).with_key(now)

    @property
    def current(self) -> str:
        """The id of the key that seals."""
        return next(reversed(self.keys))

    def with_key(self, now: float) -> Holder:
        """With one key more, which is the current one from now on."""
        keys = self.keys | {secrets.token_hex(ID_BYTES): secrets.token_bytes(KEY_BYTES)}
        return replace(self, keys=keys, at=(*self.at, now), ciphers={})

    def cipher(self, key_id: str) -> Cipher | None:
        """The cipher of one of its keys."""
        if key_id in self.ciphers:
            return self.ciphers[key_id]
        key = self.keys.get(key_id)
        return None if key is None else self.ciphers.setdefault(key_id, Cipher(key))

    def digest(self, text: str) -> str:
        """The keyed digest of a text."""
        data = text.encode("utf-8", "surrogatepass")
        return blake2b(data, key=self.lookup, digest_size=_DIGEST_BYTES).hexdigest()


def name_of(owner: Owner) -> str:
    """The name of an owner's note."""
    return PREFIX + "/".join(quote(part, safe="@") for part in owner)


def owner_in(name: str) -> Owner:
    """The owner that a note's name tells of."""
    app, kind, value = (unquote(part) for part in name.removeprefix(PREFIX).split("/"))
    return app, kind, value


def wrap(holder: Holder, key: bytes, keyring: str) -> str:
    """A holder's note, sealed by the app's key and bound to keyring and owner."""
    content = {
        "lookup": _text(holder.lookup),
        "keys": {key_id: _text(own) for key_id, own in holder.keys.items()},
        "also": holder.also,
        "joined": holder.joined,
    }
    sealed = Cipher(key).seal(json.dumps(content).encode(), bound_to("holder", keyring, *holder.owner))
    note = Wrapped(id_of(key), tuple(holder.keys), holder.at, _text(sealed))
    return msgspec.json.encode(note).decode()


def unwrap(owner: Owner, text: str, key: bytes, keyring: str) -> Holder:
    """The holder of a note.

    Raises   BackendError if it was altered, or wrapped by another key of the app.
    """
    try:
        note = msgspec.json.decode(text, type=Wrapped)
        sealed = base64.b64decode(note.sealed)
    except (ValueError, msgspec.DecodeError) as exc:
        raise BackendError(f"{_of(owner)} cannot be read: {exc}; restore a backup of the keyring") from exc
    if note.kek != id_of(key):
        raise BackendError(
            f"{_of(owner)} is wrapped by the app's key {note.kek}, and the one given is {id_of(key)}: a rotation is "
            "under way, or is done; finish it with `offprompt keyring rotate`, and start again with the new key"
        )
    opened = Cipher(key).open(sealed, bound_to("holder", keyring, *owner))
    if opened is None:
        raise BackendError(f"{_of(owner)} was altered or moved; restore a backup of the keyring")
    content: dict[str, Any] = json.loads(opened)
    return Holder(
        owner,
        base64.b64decode(content["lookup"]),
        {key_id: base64.b64decode(own) for key_id, own in content["keys"].items()},
        note.at,
        tuple((app, kind, value) for app, kind, value in content["also"]),
        tuple(content["joined"]) if content["joined"] else None,
        text,
    )


def read_wrapped(text: str) -> Wrapped:
    """A note without its keys."""
    return msgspec.json.decode(text, type=Wrapped)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _of(owner: Owner) -> str:
    app, kind, value = owner
    return f"the key of {kind} {value!r} in app {app!r}"
