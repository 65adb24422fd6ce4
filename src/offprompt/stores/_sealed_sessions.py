"""Sessions whose messages are sealed, as every engine keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from offprompt.protocols.sealing import Sealer
from offprompt.records import Body, Head, JournalEntry, Scope, SessionChange, SessionRecord
from offprompt.records.scope import key_owner
from offprompt.stores._blobs import decode, encode
from offprompt.stores._sealed import MARK, Seal, moved

T = TypeVar("T")

FORMS: Final = ("live", "settled")
"""What a later commit may add to an entry: sealed each by itself, and `resolved`."""


def sealed_change(change: SessionChange, sealer: Sealer | None) -> SessionChange:
    """The change as it is stored: ledger and events hold no values, and stay."""
    if sealer is None:
        return change
    seal, scope = Seal(sealer), change.record.scope
    return replace(
        change,
        record=sealed_record(change.record, seal),
        journal=tuple(sealed_entry(scope, entry, seal) for entry in change.journal),
        bodies=tuple(sealed_body(scope, body, seal) for body in change.bodies),
    )


def opened_one(row: T | None, sealer: Sealer | None, opened: Callable[[T, Seal], T | None]) -> T | None:
    """What a row holds, opened."""
    return row if row is None or sealer is None else opened(row, Seal(sealer))


def opened_all(rows: Iterable[T], sealer: Sealer | None, opened: Callable[[T, Seal], T | None]) -> list[T]:
    """What rows hold, opened, but for those whose key was destroyed."""
    if sealer is None:
        return list(rows)
    seal = Seal(sealer)
    return [found for row in rows if (found := opened(row, seal)) is not None]


def sealed_record(record: SessionRecord, seal: Seal) -> SessionRecord:
    """The record as text in the place of its head; beside it only what rows are found by."""
    text = seal.text(key_owner(record.scope), ("sessions", *record.scope.key), encode(record))
    bare = SessionRecord(record.scope, created_at=record.created_at, used_at=record.used_at, revision=record.revision)
    return replace(bare, head=Head(text=text))


def opened_record(row: SessionRecord, seal: Seal) -> SessionRecord | None:
    """The record of a row; None: its key was destroyed."""
    sealed = row.head.text if row.head is not None else ""
    text = seal.opened(key_owner(row.scope), ("sessions", *row.scope.key), sealed)
    if text is None or not sealed.startswith(MARK):
        return None if text is None else row
    return decode(text, SessionRecord)


def record_of(scope: Scope) -> Callable[[SessionRecord, Seal], SessionRecord | None]:
    """What opens the record of a session, which says itself whose it is, and may stand in another's place."""

    def opened(row: SessionRecord, seal: Seal) -> SessionRecord | None:
        if row.scope != scope:
            raise moved("sessions", str(row.scope.session))
        return opened_record(row, seal)

    return opened


def records_in(scope: Scope | None) -> Callable[[SessionRecord, Seal], SessionRecord | None]:
    """What opens the records of a scope's subtree; None: of all."""

    def opened(row: SessionRecord, seal: Seal) -> SessionRecord | None:
        if scope is not None and not scope.holds(row.scope):
            raise moved("sessions", str(row.scope.session))
        return opened_record(row, seal)

    return opened


def is_lost(row: SessionRecord | None, sealer: Sealer | None) -> bool:
    """Whether nobody can open a session's record: whose it was is erased, and an older copy of the store brought it."""
    return row is not None and opened_one(row, sealer, opened_record) is None


def sealed_entry(scope: Scope, entry: JournalEntry, seal: Seal) -> JournalEntry:
    """The entry with each form sealed, the rest of what it says with its message."""
    said = JournalEntry(
        entry.key,
        "",
        0,
        "",
        0.0,
        entry.message,
        text=entry.text,
        shown=entry.shown,
        receipts=entry.receipts,
        stub=entry.stub,
        leaked=entry.leaked,
    )
    sealed = {name: _form(scope, entry, name, seal) for name in FORMS}
    resolved = entry.resolved
    if resolved is not None:
        resolved = _sealed(scope, entry, "resolved", encode(resolved), seal)
    message = _sealed(scope, entry, "message", encode(said), seal)
    empty: dict[str, Any] = {"text": "", "shown": (), "receipts": (), "stub": None, "leaked": ()}
    return replace(entry, message=message, resolved=resolved, **sealed, **empty)


def opened_entry(scope: Scope) -> Callable[[JournalEntry, Seal], JournalEntry | None]:
    """What opens a session's entries."""

    def opened(row: JournalEntry, seal: Seal) -> JournalEntry | None:
        text = _opened(scope, row, "message", row.message, seal)
        if text is None:
            return None
        # An entry from before the store was sealed may have got a sealed form since.
        said = decode(text, JournalEntry) if MARK in row.message else row
        forms: dict[str, Any] = {}
        for name in FORMS:
            form: tuple[Mapping[str, Any], ...] | None = getattr(row, name)
            if form and MARK in form[0]:
                found = _opened(scope, row, name, form[0], seal)
                form = None if found is None else tuple(json.loads(found))
            forms[name] = form
        resolved = row.resolved
        if resolved is not None and MARK in resolved:
            found = _opened(scope, row, "resolved", resolved, seal)
            resolved = None if found is None else json.loads(found)
        rest = {name: getattr(said, name) for name in ("message", "text", "shown", "receipts", "stub", "leaked")}
        return replace(row, resolved=resolved, **forms, **rest)

    return opened


def sealed_body(scope: Scope, body: Body, seal: Seal) -> Body:
    """The body with text and label sealed in the place of its text."""
    text = seal.text(key_owner(scope), ("bodies", *scope.key, body.body_id), encode([body.text, body.label]))
    return replace(body, text=text, label="")


def opened_body(scope: Scope) -> Callable[[Body, Seal], Body | None]:
    """What opens a session's bodies."""

    def opened(row: Body, seal: Seal) -> Body | None:
        text = seal.opened(key_owner(scope), ("bodies", *scope.key, row.body_id), row.text)
        if text is None or not row.text.startswith(MARK):
            return None if text is None else row
        said, label = json.loads(text)
        return replace(row, text=said, label=label)

    return opened


def key_place(owner: tuple[str, str, str]) -> tuple[str, ...]:
    """Where a digest key belongs."""
    return "digest_keys", *owner


def _form(scope: Scope, entry: JournalEntry, name: str, seal: Seal) -> tuple[Mapping[str, Any], ...] | None:
    form: tuple[Mapping[str, Any], ...] | None = getattr(entry, name)
    return (_sealed(scope, entry, name, encode(form), seal),) if form else form


def _sealed(scope: Scope, entry: JournalEntry, form: str, text: str, seal: Seal) -> Mapping[str, Any]:
    return {MARK: seal.text(key_owner(scope), ("journal", form, *scope.key, entry.key), text)}


def _opened(scope: Scope, entry: JournalEntry, form: str, sealed: Mapping[str, Any], seal: Seal) -> str | None:
    return seal.opened(key_owner(scope), ("journal", form, *scope.key, entry.key), str(sealed.get(MARK, "")))
