"""A SQLite store row by row, and its notes, within one transaction."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from offprompt.records import Scope
from offprompt.records.tables import TABLES, Row
from offprompt.stores._sealed_rows import BESIDE


def scan(connection: sqlite3.Connection, name: str, after: Row | None, limit: int) -> list[Row]:
    """See Portable.scan."""
    table = TABLES[name]
    key = ", ".join(table.key)
    where = f"WHERE ({key}) > ({_marks(table.key)})" if after is not None else ""
    return connection.execute(
        f"SELECT {', '.join(table.columns)} FROM {name} {where} ORDER BY {key} LIMIT ?", (*(after or ()), limit)
    ).fetchall()


def put_rows(connection: sqlite3.Connection, name: str, rows: Sequence[Row]) -> None:
    """See Portable.put_rows."""
    table = TABLES[name]
    connection.executemany(
        f"INSERT OR REPLACE INTO {name} ({', '.join(table.columns)}) VALUES ({_marks(table.columns)})", rows
    )


def clear_rows(connection: sqlite3.Connection, name: str) -> None:
    """See Portable.clear_rows."""
    connection.execute(f"DELETE FROM {TABLES[name].name}")


def remove_row(connection: sqlite3.Connection, name: str, row: Row) -> None:
    """Remove a row by its key, with what is nothing without it."""
    table = TABLES[name]
    for one in (name, *BESIDE.get(name, ())):
        connection.execute(
            f"DELETE FROM {one} WHERE ({', '.join(table.key)}) = ({_marks(table.key)})", table.key_of(row)
        )


def scope_of(connection: sqlite3.Connection, app: str, memory_id: str) -> Scope | None:
    """The scope of a memory."""
    row = connection.execute(
        "SELECT app, user, agent, session FROM memories WHERE app = ? AND memory_id = ?", (app, memory_id)
    ).fetchone()
    return None if row is None else Scope.from_key((row[0], row[1], row[2], row[3]))


def note(connection: sqlite3.Connection, name: str) -> str | None:
    """See Notes.note."""
    row = connection.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def set_note(connection: sqlite3.Connection, name: str, text: str | None, was: str | None) -> bool:
    """See Notes.set_note."""
    if note(connection, name) != was:
        return False
    if text is None:
        connection.execute("DELETE FROM notes WHERE name = ?", (name,))
    else:
        connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, text))
    return True


def notes(connection: sqlite3.Connection, prefix: str, after: str, limit: int) -> list[tuple[str, str]]:
    """See Notes.notes."""
    found = connection.execute(
        "SELECT name, text FROM notes WHERE name >= ? AND name > ? AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?",
        (prefix, after, len(prefix), prefix, limit),
    )
    return found.fetchall()


def drop_notes(connection: sqlite3.Connection, known: Sequence[tuple[str, str]]) -> int:
    """See Notes.drop_notes."""
    return sum(connection.execute("DELETE FROM notes WHERE name = ? AND text = ?", pair).rowcount for pair in known)


def _marks(names: Sequence[str]) -> str:
    return ", ".join("?" * len(names))
