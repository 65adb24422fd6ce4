"""What a session's commit means, apart from where it is kept."""

from __future__ import annotations

import secrets
from dataclasses import replace

from offprompt.errors import ConflictError, UsageError
from offprompt.records import JournalEntry, LedgerEntry, Scope, SessionRecord

KEY_BYTES = 32


def new_key() -> bytes:
    """The bytes of a new digest key."""
    return secrets.token_bytes(KEY_BYTES)


def check_commit(record: SessionRecord, stored_revision: int) -> None:
    """Compare-and-set of the revision.

    Raises   UsageError if the scope names no session, ConflictError if the stored revision is not the one before.
    """
    if record.scope.session is None:
        raise UsageError(f"the scope {record.scope} names no session; pass one with session=…")
    if record.revision != stored_revision + 1:
        raise ConflictError(
            f"session {record.scope.session!r} is at revision {stored_revision}, and this commit is for "
            f"{record.revision}: another writer was first; load the session again and repeat the step"
        )


def merged(old: JournalEntry, new: JournalEntry) -> JournalEntry:
    """The stored entry with those forms of the new one that it did not have: what was rendered never changes."""
    return replace(
        old,
        resolved=old.resolved if old.resolved is not None else new.resolved,
        live=old.live if old.live is not None else new.live,
        settled=old.settled if old.settled is not None else new.settled,
    )


def twice(entry: LedgerEntry, scope: Scope) -> ConflictError:
    """The error of a ledger entry whose number is taken."""
    return ConflictError(
        f"the ledger of {scope} has an entry {entry.seq} already, and entries never change; nothing was stored"
    )
