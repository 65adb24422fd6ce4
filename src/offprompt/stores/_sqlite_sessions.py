"""Sessions with journal, bodies and ledger in SQLite tables, within one transaction."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Final

from offprompt.records import Body, JournalEntry, LedgerEntry, Scope, SessionChange, SessionRecord
from offprompt.records.scope import key_owner
from offprompt.stores import _session_rules as rules
from offprompt.stores._blobs import decode, encode
from offprompt.stores._sqlite_rows import THE_SCOPE, in_subtree

SESSION_TABLES: Final = ("journal", "bodies", "ledger", "sessions")


def digest_key(connection: sqlite3.Connection, scope: Scope) -> bytes | None:
    """The key of the scope's owner, or None if it has none yet."""
    row = connection.execute(
        "SELECT key FROM digest_keys WHERE app = ? AND kind = ? AND id = ?", key_owner(scope)
    ).fetchone()
    return None if row is None else bytes(row[0])


def make_digest_key(connection: sqlite3.Connection, scope: Scope, new: bytes, lost: bytes | None) -> bytes:
    """The key of the scope's owner; the new one if it has none, or `lost`, which nobody can open."""
    found = digest_key(connection, scope)
    if found is None or found == lost:
        found = new
        connection.execute("INSERT OR REPLACE INTO digest_keys VALUES (?, ?, ?, ?)", (*key_owner(scope), found))
    return found


def load(connection: sqlite3.Connection, scope: Scope) -> SessionRecord | None:
    """The session's record, or None."""
    row = connection.execute("SELECT record FROM sessions WHERE " + THE_SCOPE, scope.key).fetchone()
    return None if row is None else decode(row[0], SessionRecord)


def commit(connection: sqlite3.Connection, change: SessionChange) -> None:
    """Store all of the change but its events.

    Raises   ConflictError for a revision that is not the next one.
    """
    record = change.record
    key = record.scope.key
    row = connection.execute("SELECT revision FROM sessions WHERE " + THE_SCOPE, key).fetchone()
    rules.check_commit(record, 0 if row is None else row[0])
    connection.execute(
        "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, record.revision, record.used_at, encode(record)),
    )
    seq = _last(connection, "journal", record.scope)
    for entry in change.journal:
        seq += _put_entry(connection, record.scope, replace(entry, seq=seq + 1))
    seq = _last(connection, "bodies", record.scope)
    for number, body in enumerate(change.bodies, seq + 1):
        connection.execute(
            "INSERT INTO bodies VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (*key, number, body.body_id, encode(body)),
        )
    for entry in change.ledger:
        where = THE_SCOPE + " AND seq = ?"
        if connection.execute("SELECT 1 FROM ledger WHERE " + where, (*key, entry.seq)).fetchone():
            raise rules.twice(entry, record.scope)
        connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?)", (*key, entry.seq, encode(entry)))


def journal(connection: sqlite3.Connection, scope: Scope, after: int) -> list[JournalEntry]:
    """The session's entries with seq > after."""
    rows = connection.execute(
        "SELECT entry FROM journal WHERE " + THE_SCOPE + " AND seq > ? ORDER BY seq", (*scope.key, after)
    )
    return [decode(row[0], JournalEntry) for row in rows]


def body(connection: sqlite3.Connection, scope: Scope, body_id: str) -> Body | None:
    """A body of exactly this session, or None."""
    row = connection.execute(
        "SELECT body FROM bodies WHERE " + THE_SCOPE + " AND body_id = ?", (*scope.key, body_id)
    ).fetchone()
    return None if row is None else decode(row[0], Body)


def bodies(connection: sqlite3.Connection, scope: Scope) -> list[Body]:
    """All bodies of exactly this session, in order of arrival."""
    rows = connection.execute("SELECT body FROM bodies WHERE " + THE_SCOPE + " ORDER BY seq", scope.key)
    return [decode(row[0], Body) for row in rows]


def ledger(connection: sqlite3.Connection, scope: Scope) -> list[LedgerEntry]:
    """The session's ledger, oldest first."""
    rows = connection.execute("SELECT entry, seq FROM ledger WHERE " + THE_SCOPE + " ORDER BY seq", scope.key)
    return [decode(text, LedgerEntry, f"entry {seq} of the ledger of {scope}") for text, seq in rows]


def sessions(connection: sqlite3.Connection, scope: Scope | None) -> list[SessionRecord]:
    """The sessions of the subtree, the most recently used first."""
    where, given = in_subtree(scope)
    rows = connection.execute(
        f"SELECT record FROM sessions WHERE {where} ORDER BY used_at DESC, app, user, agent, session",
        given,
    )
    return [decode(row[0], SessionRecord) for row in rows]


def drop(connection: sqlite3.Connection, scope: Scope | None, idle_before: float | None) -> int:
    """Remove sessions with all that is theirs; how many."""
    where, given = in_subtree(scope)
    rows = connection.execute(
        f"SELECT app, user, agent, session FROM sessions WHERE {where} AND (? IS NULL OR used_at < ?)",
        (*given, idle_before, idle_before),
    ).fetchall()
    for table in SESSION_TABLES:
        connection.executemany(f"DELETE FROM {table} WHERE {THE_SCOPE}", rows)
    return len(rows)


def drop_one(connection: sqlite3.Connection, scope: Scope) -> None:
    """Remove exactly this session."""
    for table in SESSION_TABLES:
        connection.execute(f"DELETE FROM {table} WHERE {THE_SCOPE}", scope.key)


def _put_entry(connection: sqlite3.Connection, scope: Scope, entry: JournalEntry) -> int:
    """Insert the entry, or complete the stored one; how many are new."""
    where = (*scope.key, entry.key)
    row = connection.execute("SELECT entry FROM journal WHERE " + THE_SCOPE + " AND key = ?", where).fetchone()
    if row is None:
        connection.execute(
            "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?)", (*scope.key, entry.seq, entry.key, encode(entry))
        )
        return 1
    text = encode(rules.merged(decode(row[0], JournalEntry), entry))
    connection.execute("UPDATE journal SET entry = ? WHERE " + THE_SCOPE + " AND key = ?", (text, *where))
    return 0


def _last(connection: sqlite3.Connection, table: str, scope: Scope) -> int:
    return connection.execute(
        f"SELECT coalesce(max(seq), 0) FROM {table} WHERE {THE_SCOPE}",
        scope.key,
    ).fetchone()[0]
