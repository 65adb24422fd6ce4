"""Sessions with journal, bodies and ledger in PostgreSQL tables, within one transaction."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from offprompt.records import Body, JournalEntry, LedgerEntry, Scope, SessionChange, SessionRecord
from offprompt.records.scope import key_owner
from offprompt.stores import _session_rules as rules
from offprompt.stores._blobs import decode, encode
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_rows import PLACE, THE_SCOPE, columns_of, in_subtree, marks

SESSION_TABLES: Final = ("journal", "bodies", "ledger", "sessions")
_RECORD: Final = (
    f"INSERT INTO sessions ({PLACE}, revision, used_at, record) VALUES ({marks(7)}) ON CONFLICT ({PLACE}) "
    "DO UPDATE SET (revision, used_at, record) = (excluded.revision, excluded.used_at, excluded.record)"
)
_ENTRY: Final = f"INSERT INTO journal ({PLACE}, seq, key, entry) VALUES ({marks(7)})"
_BODY: Final = f"INSERT INTO bodies ({PLACE}, seq, body_id, body) VALUES ({marks(7)}) ON CONFLICT DO NOTHING"
_LEDGER: Final = f"INSERT INTO ledger ({PLACE}, seq, entry) VALUES ({marks(6)})"


def digest_key(db: Statements, scope: Scope) -> bytes | None:
    """The key of the scope's owner, or None if it has none yet."""
    row = db.row("SELECT key FROM digest_keys WHERE app = %s AND kind = %s AND id = %s", key_owner(scope))
    return None if row is None else bytes(row[0])


def make_digest_key(db: Statements, scope: Scope, new: bytes, lost: bytes | None) -> bytes:
    """The key of the scope's owner; the new one if it has none, or `lost`, which nobody can open."""
    found = digest_key(db, scope)
    if found is None or found == lost:
        found = new
        db.run(
            "INSERT INTO digest_keys (app, kind, id, key) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (app, kind, id) DO UPDATE SET key = excluded.key",
            (*key_owner(scope), found),
        )
    return found


def load(db: Statements, scope: Scope) -> SessionRecord | None:
    """The session's record, or None."""
    row = db.row(f"SELECT record FROM sessions WHERE {THE_SCOPE}", scope.key)
    return None if row is None else decode(row[0], SessionRecord)


def commit(db: Statements, change: SessionChange) -> None:
    """Store all of the change but its events. Asks once, whatever the change holds.

    Raises   ConflictError for a revision that is not the next one, and for a number of the ledger that is taken.
    """
    record = change.record
    key = record.scope.key
    revision = db.later(f"SELECT revision FROM sessions WHERE {THE_SCOPE}", key)
    keys = [entry.key for entry in change.journal]
    known = db.later(f"SELECT key, entry FROM journal WHERE {THE_SCOPE} AND key = ANY(%s)", (*key, keys))
    last = db.later(
        f"SELECT (SELECT coalesce(max(seq), 0) FROM journal WHERE {THE_SCOPE}), "
        f"(SELECT coalesce(max(seq), 0) FROM bodies WHERE {THE_SCOPE})",
        (*key, *key),
    )
    numbers = [entry.seq for entry in change.ledger]
    taken = db.later(f"SELECT seq FROM ledger WHERE {THE_SCOPE} AND seq = ANY(%s::bigint[])", (*key, numbers))
    rules.check_commit(record, next((row[0] for row in revision()), 0))
    there = {row[0] for row in taken()}
    for entry in change.ledger:
        if entry.seq in there:
            raise rules.twice(entry, record.scope)
        there.add(entry.seq)
    entries = {row[0]: decode(row[1], JournalEntry) for row in known()}
    ((last_entry, last_body),) = last()
    db.run(_RECORD, (*key, record.revision, record.used_at, encode(record)))
    _put_journal(db, change, entries, last_entry)
    bodies = enumerate(change.bodies, last_body + 1)
    db.many(_BODY, [(*key, seq, body.body_id, encode(body)) for seq, body in bodies])
    db.many(_LEDGER, [(*key, entry.seq, encode(entry)) for entry in change.ledger])


def journal(db: Statements, scope: Scope, after: int) -> list[JournalEntry]:
    """The session's entries with seq > after."""
    rows = db.rows(f"SELECT entry FROM journal WHERE {THE_SCOPE} AND seq > %s ORDER BY seq", (*scope.key, after))
    return [decode(row[0], JournalEntry) for row in rows]


def body(db: Statements, scope: Scope, body_id: str) -> Body | None:
    """A body of exactly this session, or None."""
    row = db.row(f"SELECT body FROM bodies WHERE {THE_SCOPE} AND body_id = %s", (*scope.key, body_id))
    return None if row is None else decode(row[0], Body)


def bodies(db: Statements, scope: Scope) -> list[Body]:
    """All bodies of exactly this session, in order of arrival."""
    return [
        decode(row[0], Body) for row in db.rows(f"SELECT body FROM bodies WHERE {THE_SCOPE} ORDER BY seq", scope.key)
    ]


def ledger(db: Statements, scope: Scope) -> list[LedgerEntry]:
    """The session's ledger, oldest first."""
    rows = db.rows(f"SELECT entry, seq FROM ledger WHERE {THE_SCOPE} ORDER BY seq", scope.key)
    return [decode(text, LedgerEntry, f"entry {seq} of the ledger of {scope}") for text, seq in rows]


def sessions(db: Statements, scope: Scope | None) -> list[SessionRecord]:
    """The sessions of the subtree, the most recently used first."""
    where, given = in_subtree(scope)
    rows = db.rows(f"SELECT record FROM sessions WHERE {where} ORDER BY used_at DESC, {PLACE}", given)
    return [decode(row[0], SessionRecord) for row in rows]


def drop(db: Statements, scope: Scope | None, idle_before: float | None) -> int:
    """Remove sessions with all that is theirs; how many."""
    where, given = in_subtree(scope)
    parameters: list[Any] = [*given]
    if idle_before is not None:
        where += " AND used_at < %s"
        parameters.append(idle_before)
    rows = db.rows(f"SELECT {PLACE} FROM sessions WHERE {where}", parameters)
    columns = columns_of(rows, 4)
    for table in SESSION_TABLES if rows else ():
        db.run(
            f"DELETE FROM {table} WHERE ({PLACE}) IN "
            "(SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]))",
            columns,
        )
    return len(rows)


def drop_one(db: Statements, scope: Scope) -> None:
    """Remove exactly this session."""
    for table in SESSION_TABLES:
        db.run(f"DELETE FROM {table} WHERE {THE_SCOPE}", scope.key)


def _put_journal(db: Statements, change: SessionChange, there: dict[str, JournalEntry], seq: int) -> None:
    """Insert the entries that are new, and complete those that are there."""
    key = change.record.scope.key
    for entry in change.journal:
        old = there.get(entry.key)
        if old is None:
            seq += 1
            there[entry.key] = new = replace(entry, seq=seq)
            db.run(_ENTRY, (*key, seq, entry.key, encode(new)))
        else:
            there[entry.key] = new = rules.merged(old, entry)
            db.run(f"UPDATE journal SET entry = %s WHERE {THE_SCOPE} AND key = %s", (encode(new), *key, entry.key))
