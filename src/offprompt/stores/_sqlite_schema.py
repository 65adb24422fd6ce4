"""The SQLite file: its marks, its tables, and the numbered migrations that lead to them."""

from __future__ import annotations

import sqlite3
from typing import Final

from offprompt.errors import BackendError

APPLICATION_ID: Final = 0x4F507274
"""`OPrt`, at byte 68 of every file of ours; other programs' files are not touched."""


# Scope ids that are absent are '': no id is the empty text, so keys stay plain and unique.
_FORMAT_1: Final = (
    """
    CREATE TABLE slots (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, folded TEXT NOT NULL,
        name TEXT NOT NULL, version INTEGER NOT NULL, created_at REAL NOT NULL,
        expires_at REAL, ttl_s REAL, sliding INTEGER NOT NULL, tags TEXT NOT NULL, importance REAL NOT NULL,
        uses INTEGER NOT NULL, used_at REAL, schema TEXT, parts INTEGER NOT NULL, forgotten_at REAL,
        PRIMARY KEY (app, user, agent, session, folded)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX slots_agent ON slots (app, agent) WHERE agent <> ''",
    "CREATE INDEX slots_session ON slots (app, session) WHERE session <> ''",
    "CREATE INDEX slots_expiry ON slots (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX slots_hidden ON slots (forgotten_at) WHERE forgotten_at IS NOT NULL",
    """
    CREATE TABLE versions (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, folded TEXT NOT NULL,
        version INTEGER NOT NULL, value TEXT NOT NULL, policy TEXT NOT NULL, trust TEXT NOT NULL,
        source TEXT NOT NULL, actor TEXT NOT NULL, written_at REAL NOT NULL, bytes INTEGER NOT NULL,
        outcome TEXT NOT NULL, op_key TEXT,
        PRIMARY KEY (app, user, agent, session, folded, version)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL,
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
        op TEXT NOT NULL, actor TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, bytes INTEGER NOT NULL,
        outcome TEXT NOT NULL, why TEXT NOT NULL, duration_s REAL NOT NULL
    )
    """,
    "CREATE INDEX events_scope ON events (app, user, agent, session)",
    """
    CREATE TABLE sessions (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
        revision INTEGER NOT NULL, used_at REAL NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (app, user, agent, session)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE journal (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
        seq INTEGER NOT NULL, key TEXT NOT NULL, entry TEXT NOT NULL,
        PRIMARY KEY (app, user, agent, session, seq), UNIQUE (app, user, agent, session, key)
    )
    """,
    """
    CREATE TABLE bodies (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
        seq INTEGER NOT NULL, body_id TEXT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (app, user, agent, session, seq), UNIQUE (app, user, agent, session, body_id)
    )
    """,
    """
    CREATE TABLE ledger (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
        seq INTEGER NOT NULL, entry TEXT NOT NULL,
        PRIMARY KEY (app, user, agent, session, seq)
    )
    """,
    """
    CREATE TABLE digest_keys (
        app TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, key BLOB NOT NULL,
        PRIMARY KEY (app, kind, id)
    ) WITHOUT ROWID
    """,
)

# What models may do with a slot: places of its handle, the lock of its name, the times of their newest writes.
_FORMAT_2: Final = (
    "ALTER TABLE slots ADD COLUMN allow TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE slots ADD COLUMN locked INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE slots ADD COLUMN recent TEXT NOT NULL DEFAULT '[]'",
)

# Memories; `expires_at` is NULL for pinned ones. What is derived from them, `memory_index`, can be made again.
_FORMAT_3: Final = (
    """
    CREATE TABLE memories (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, memory_id TEXT NOT NULL,
        kind TEXT NOT NULL, state TEXT NOT NULL, state_at REAL, digest TEXT NOT NULL, subject TEXT NOT NULL,
        attribute TEXT NOT NULL, in_session TEXT NOT NULL, happened_at REAL NOT NULL, expires_at REAL,
        active_at REAL NOT NULL, revision INTEGER NOT NULL, record TEXT NOT NULL,
        UNIQUE (memory_id, app)
    )
    """,
    "CREATE INDEX memories_scope ON memories (app, user, agent, session, revision)",
    "CREATE INDEX memories_place ON memories (app, user, agent, session, memory_id)",
    "CREATE INDEX memories_user ON memories (app, user, active_at) WHERE user <> ''",
    "CREATE INDEX memories_agent ON memories (app, agent) WHERE agent <> ''",
    "CREATE INDEX memories_digest ON memories (digest, app, user, agent, session)",
    "CREATE INDEX memories_attribute ON memories (app, user, agent, session, subject, attribute) WHERE attribute <> ''",
    "CREATE INDEX memories_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX memories_hidden ON memories (state_at) WHERE state = 'forgotten'",
    """
    CREATE TABLE memory_versions (
        app TEXT NOT NULL, memory_id TEXT NOT NULL, number INTEGER NOT NULL, version TEXT NOT NULL,
        PRIMARY KEY (app, memory_id, number)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE memory_keys (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, op_key TEXT NOT NULL,
        memory_id TEXT NOT NULL,
        PRIMARY KEY (app, user, agent, session, op_key)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX memory_keys_memory ON memory_keys (app, memory_id)",
    """
    CREATE TABLE memory_index (
        app TEXT NOT NULL, memory_id TEXT NOT NULL, version INTEGER NOT NULL, content BLOB NOT NULL,
        embedder TEXT NOT NULL,
        PRIMARY KEY (app, memory_id)
    )
    """,
    """
    CREATE TABLE memory_scopes (
        app TEXT NOT NULL, user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
        revision INTEGER NOT NULL, whole_before INTEGER NOT NULL,
        PRIMARY KEY (app, user, agent, session)
    ) WITHOUT ROWID
    """,
)

# Ids of one person: what is `old` stands for `new`, which is nobody's old one.
_FORMAT_4: Final = (
    """
    CREATE TABLE aliases (
        app TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL,
        PRIMARY KEY (app, old)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX aliases_new ON aliases (app, new)",
)

# About the store itself: how far a copy into it is, who does which work, when it was done.
# vector_queue: memories whose last change a vector index outside may not have, each once, under its newest number.
_FORMAT_5: Final = (
    "CREATE TABLE notes (name TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (name)) WITHOUT ROWID",
    """
    CREATE TABLE vector_queue (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, app TEXT NOT NULL, memory_id TEXT NOT NULL,
        UNIQUE (app, memory_id)
    )
    """,
)

MIGRATIONS: Final = (_FORMAT_1, _FORMAT_2, _FORMAT_3, _FORMAT_4, _FORMAT_5)
FORMAT: Final = len(MIGRATIONS)
"""The format that this program writes; `PRAGMA user_version` of the file."""


def format_of(connection: sqlite3.Connection) -> int:
    """The file's format; 0: nothing in it yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Bring the file to this program's format, each step in a transaction of its own.

    Raises   BackendError for a file of a newer format, which is left as it is.
    """
    while (found := format_of(connection)) != FORMAT:
        if found > FORMAT:
            raise BackendError(
                f"the store {where} has format {found}, and this program knows formats up to {FORMAT}; "
                "install a newer offprompt, or open another file"
            )
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have taken the step while this one waited for the lock.
            if format_of(connection) == found:
                for statement in MIGRATIONS[found]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {found + 1}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        else:
            connection.execute("COMMIT")
