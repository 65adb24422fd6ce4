"""Erasure in a PostgreSQL store: what takes an owner's place, and what deleted rows leave behind."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

from offprompt.records import Reached, Scope
from offprompt.records.erasure import NOBODY, cell_of, owner_of
from offprompt.stores._parting import FLOOR
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_rows import PLACE


def part_with(db: Statements, scope: Scope, pseudonym: str) -> int:
    """See Store.part_with; within one transaction."""
    kind, value = owner_of(scope)
    column, cell, mark = cell_of(scope)
    column = '"user"' if column == "user" else column
    own = (scope.app, cell)
    db.run("DELETE FROM digest_keys WHERE app = %s AND kind = %s AND id = %s", (scope.app, kind, value))
    row = db.row(f"SELECT max(revision) FROM memory_scopes WHERE app = %s AND {column} = %s", own)
    if row is not None and row[0] is not None:
        db.run(
            f"INSERT INTO memory_scopes ({PLACE}, revision, whole_before) VALUES (%s, %s, '', '', %s, %s) "
            f"ON CONFLICT ({PLACE}) DO UPDATE SET revision = greatest(memory_scopes.revision, excluded.revision), "
            "whole_before = greatest(memory_scopes.whole_before, excluded.whole_before)",
            (scope.app, FLOOR, row[0] + 1, row[0] + 1),
        )
        db.run(f"DELETE FROM memory_scopes WHERE app = %s AND {column} = %s", own)
    if kind == "user":
        db.run("DELETE FROM aliases WHERE app = %s AND %s IN (old, new)", own)
    session = "" if kind == "session" else "session = '', "
    rows = db.rows(
        f"WITH changed AS (UPDATE events SET {column} = %s, {session}name = '', "
        f"actor = CASE WHEN strpos(actor, %s) > 0 THEN '{NOBODY}' ELSE actor END "
        f"WHERE app = %s AND {column} = %s RETURNING 1) SELECT count(*) FROM changed",
        (mark + pseudonym, cell, *own),
    )
    return int(rows[0][0])


def scour(db: Statements) -> Reached:
    """See Scourable.scour, but for VACUUM, which is no part of a transaction: the copies that the server knows of."""
    replicas = db.row("SELECT count(*) FROM pg_stat_replication") or (0,)
    archive = db.row("SELECT current_setting('archive_mode', true)") or ("",)
    not_reached = ["the server's write-ahead log until it is recycled, and what is dead in a page until it is reused"]
    if replicas[0]:
        not_reached.append(f"{replicas[0]} replicas follow the server: they do the same as soon as they have caught up")
    if archive[0] not in ("", "off", None):
        not_reached.append("the server archives its write-ahead log (archive_mode): what is archived stays")
    return Reached((), tuple(not_reached))
