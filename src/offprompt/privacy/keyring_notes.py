"""What a keyring keeps as notes: its head, owners with their wrapped keys, and whose each key is."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from offprompt.errors import BackendError, NotFoundError, UsageError
from offprompt.privacy.cipher import ID_BYTES, Cipher, id_of
from offprompt.protocols import Clock, Notes
from offprompt.protocols.sealing import Owner

HEAD: Final = "keyring"
GENERATION: Final = "generation"
"""Changes whenever keys are destroyed or rotated."""


class KeyringNotes(Notes, Protocol):
    """What keeps a keyring: a store of its own."""

    def close(self) -> None:
        """Let go of it."""
        ...


class Head(msgspec.Struct, frozen=True):
    """The keyring itself. kek: id of the app's key; next: of the one that a rotation is bringing in."""

    id: str
    kek: str
    at: float
    next: str = ""


class KeyNote(msgspec.Struct, frozen=True):
    """What is known of a key by its id: whose it is, or when it was destroyed."""

    owner: Owner | None = None
    gone: float | None = None


@dataclass(frozen=True, slots=True)
class HolderInfo:
    """An owner, with the ids of its keys, the current one last, and when each was made."""

    owner: Owner
    ids: tuple[str, ...]
    at: tuple[float, ...]


def opened_head(notes: Notes, key: bytes, clock: Clock, *, create: bool) -> Head:
    """The head of a keyring that the app's key opens; create: made if it is none yet.

    Raises   UsageError for another key, or while a rotation is not finished; NotFoundError if there is none.
    """
    text = notes.note(HEAD)
    if text is None:
        if not create:
            raise NotFoundError("there is no keyring there; correct encryption_keyring, or restore its backup")
        head = Head(secrets.token_hex(ID_BYTES), id_of(key), clock.now())
        # Without the library nothing is made.
        Cipher(key)
        notes.set_note(HEAD, msgspec.json.encode(head).decode(), was=None)
        text = notes.note(HEAD) or ""
    head = msgspec.json.decode(text, type=Head)
    if head.next:
        raise UsageError(
            f"the keyring {head.id} is being brought from the app's key {head.kek} to {head.next}; finish it: run "
            "the same `offprompt keyring rotate` again"
        )
    if head.kek != id_of(key):
        raise UsageError(
            f"the keyring {head.id} is wrapped by the app's key {head.kek}, and the key given is {id_of(key)}; give "
            "the right one"
        )
    return head


def check_head(notes: Notes, key: bytes) -> None:
    """Raises BackendError if the keyring is no longer the app's key's."""
    text = notes.note(HEAD)
    head = None if text is None else msgspec.json.decode(text, type=Head)
    if head is None or head.next or head.kek != id_of(key):
        raise BackendError(
            "the app's key of the keyring was changed meanwhile; start again with the new key, once "
            "`offprompt keyring rotate` is done"
        )


def told(notes: Notes) -> None:
    """Let others look at the head before they seal again."""
    while not notes.set_note(GENERATION, secrets.token_hex(ID_BYTES), was=notes.note(GENERATION)):
        pass


def all_notes(notes: Notes, prefix: str) -> Iterator[tuple[str, str]]:
    """Those whose names begin with the prefix, a page at a time."""
    after = ""
    while page := notes.notes(prefix, after=after):
        yield from page
        after = page[-1][0]


def key_name(key_id: str) -> str:
    """The name of the note about a key."""
    return f"key/{key_id}"


def key_text(key: KeyNote) -> str:
    """The text of the note about a key."""
    return msgspec.json.encode(key).decode()
