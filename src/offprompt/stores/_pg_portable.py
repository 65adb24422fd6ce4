"""A PostgreSQL store row by row, and its notes, within one transaction."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from offprompt.records import Memory, Scope
from offprompt.records.tables import TABLES, Row, Table
from offprompt.stores import _pg_words as words
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_rows import PLACE, marks
from offprompt.stores._rows import memory_of
from offprompt.stores._sealed_rows import BESIDE

# What this engine keeps in columns of its own, made from a row's record.
_OWN: Final[dict[str, tuple[tuple[str, Callable[[Memory], Any]], ...]]] = {
    "memories": (("version", lambda memory: memory.version), ('"order"', lambda memory: memory.order)),
}

_TYPES: Final = (
    "SELECT quote_ident(attname), format_type(atttypid, NULL) FROM pg_attribute "
    "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
)


def scan(db: Statements, name: str, after: Row | None, limit: int) -> list[Row]:
    """See Portable.scan."""
    table = TABLES[name]
    key = _names(table.key)
    where = f"WHERE ({key}) > ({marks(len(table.key))})" if after is not None else ""
    rows = db.rows(
        f"SELECT {_names(table.columns)} FROM {name} {where} ORDER BY {key} LIMIT %s", (*(after or ()), limit)
    )
    return [tuple(row) for row in rows]


def put_rows(db: Statements, name: str, rows: Sequence[Row]) -> None:
    """See Portable.put_rows."""
    table = TABLES[name]
    own = _OWN.get(name, ())
    columns = [*(_name(column) for column in table.columns), *(column for column, _ in own)]
    changed = [column for column in columns if column not in table.key]
    excluded = ", ".join(f"excluded.{column}" for column in changed)
    types = dict(db.rows(_TYPES, (name,)))
    whole = [_whole(table, row, [make for _, make in own]) for row in rows]
    # One statement for all rows, a list for each column: ten times as fast as a statement for each.
    db.run(
        f"INSERT INTO {name} ({', '.join(columns)}) "
        f"SELECT * FROM unnest({', '.join(f'%s::{types[column]}[]' for column in columns)}) "
        f"ON CONFLICT ({_names(table.key)}) DO UPDATE SET ({', '.join(changed)}) = ROW({excluded})",
        [[row[at] for row in whole] for at in range(len(columns))],
    )
    if name in ("memories", "memory_index"):
        app, memory_id = (table.columns.index(column) for column in ("app", "memory_id"))
        for one in {str(row[app]) for row in rows}:
            words.put_again(db, one, [str(row[memory_id]) for row in rows if row[app] == one])
    if name == "events" and rows:
        db.run("SELECT setval(pg_get_serial_sequence('events', 'seq'), (SELECT max(seq) FROM events))")


def clear_rows(db: Statements, name: str) -> None:
    """See Portable.clear_rows."""
    db.run(f"DELETE FROM {TABLES[name].name}")
    if name in ("memories", "memory_index"):
        db.run("DELETE FROM memory_words")


def remove_row(db: Statements, name: str, row: Row) -> None:
    """Remove a row by its key, with what is nothing without it."""
    table = TABLES[name]
    for one in (name, *BESIDE.get(name, ())):
        db.run(f"DELETE FROM {one} WHERE ({_names(table.key)}) = ({marks(len(table.key))})", table.key_of(row))


def scope_of(db: Statements, app: str, memory_id: str) -> Scope | None:
    """The scope of a memory."""
    row = db.row(f"SELECT {PLACE} FROM memories WHERE app = %s AND memory_id = %s", (app, memory_id))
    return None if row is None else Scope.from_key((row[0], row[1], row[2], row[3]))


def note(db: Statements, name: str) -> str | None:
    """See Notes.note."""
    row = db.row("SELECT text FROM notes WHERE name = %s", (name,))
    return None if row is None else row[0]


def set_note(db: Statements, name: str, text: str | None, was: str | None) -> bool:
    """See Notes.set_note."""
    if note(db, name) != was:
        return False
    if text is None:
        db.run("DELETE FROM notes WHERE name = %s", (name,))
    else:
        db.run("INSERT INTO notes VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET text = excluded.text", (name, text))
    return True


def notes(db: Statements, prefix: str, after: str, limit: int) -> list[tuple[str, str]]:
    """See Notes.notes."""
    order = 'name COLLATE "C"'
    found = db.rows(
        f"SELECT name, text FROM notes WHERE starts_with(name, %s) AND {order} > %s ORDER BY {order} LIMIT %s",
        (prefix, after, limit),
    )
    return [(name, text) for name, text in found]


def drop_notes(db: Statements, known: Sequence[tuple[str, str]]) -> int:
    """See Notes.drop_notes."""
    return sum(len(db.rows("DELETE FROM notes WHERE name = %s AND text = %s RETURNING 1", pair)) for pair in known)


def _whole(table: Table, row: Row, own: Sequence[Callable[[Memory], Any]]) -> tuple[Any, ...]:
    if not own:
        return row
    memory = memory_of(str(row[table.columns.index("record")]))
    return (*row, *(make(memory) for make in own))


def _names(columns: Sequence[str]) -> str:
    return ", ".join(_name(column) for column in columns)


def _name(column: str) -> str:
    return '"user"' if column == "user" else column
