"""The rotation of the app's key: all keys of a keyring are wrapped by another one."""

from __future__ import annotations

import msgspec

from offprompt.errors import NotFoundError, UsageError
from offprompt.privacy import holder as holders
from offprompt.privacy.cipher import id_of
from offprompt.privacy.keyring_notes import HEAD, Head, all_notes, told
from offprompt.protocols import Notes


def rewrap(notes: Notes, old: bytes, new: bytes) -> int:
    """Wrap all keys of a keyring by a new key of the app, which alone opens it from then on; of how many owners.

    Killed   in the middle: the same call once more does the rest; until then neither key opens the keyring.
    In use   by others: their next write is an error that says to start again with the new key.
    Raises   UsageError if the old key is not the keyring's, or another rotation is not finished; NotFoundError.
    """
    text = notes.note(HEAD)
    if text is None:
        raise NotFoundError("there is no keyring there; correct encryption_keyring")
    head = msgspec.json.decode(text, type=Head)
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
    told(notes)
    count = _rewrapped(notes, old, new, head.id)
    done = msgspec.json.encode(_with_kek(head, id_of(new), "")).decode()
    notes.set_note(HEAD, done, was=begun)
    told(notes)
    # Made between the last look and the end.
    return count + _rewrapped(notes, old, new, head.id)


def _with_kek(head: Head, kek: str, following: str) -> Head:
    """The head with another key of the app, and the one that follows."""
    return Head(head.id, kek, head.at, following)


def _rewrapped(notes: Notes, old: bytes, new: bytes, keyring: str) -> int:
    count = 0
    for name, text in list(all_notes(notes, holders.PREFIX)):
        if holders.read_wrapped(text).kek != id_of(new):
            owner = holders.owner_in(name)
            found = holders.unwrap(owner, text, old, keyring)
            count += notes.set_note(name, holders.wrap(found, new, keyring), was=text)
    return count
