"""Erasure in a SQLite store: what takes an owner's place, and what deleted rows leave in its files."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

import mmap
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from offprompt.records import Finding, Reached, Scope
from offprompt.records.erasure import NOBODY, cell_of, owner_of
from offprompt.stores._parting import FLOOR

PAGE_SIZE_AT: Final = 16
"""Offset of the page size in the file's head; the first page of the free list stands 16 bytes further on."""


def part_with(connection: sqlite3.Connection, scope: Scope, pseudonym: str) -> int:
    """See Store.part_with; within one transaction."""
    kind, value = owner_of(scope)
    column, cell, mark = cell_of(scope)
    own = (scope.app, cell)
    connection.execute("DELETE FROM digest_keys WHERE app = ? AND kind = ? AND id = ?", (scope.app, kind, value))
    asked = f"SELECT max(revision) FROM memory_scopes WHERE app = ? AND {column} = ?"
    gone = connection.execute(asked, own).fetchone()[0]
    if gone is not None:
        connection.execute(
            "INSERT INTO memory_scopes VALUES (?, ?, '', '', ?, ?) ON CONFLICT DO UPDATE SET "
            "revision = max(revision, excluded.revision), whole_before = max(whole_before, excluded.whole_before)",
            (scope.app, FLOOR, gone + 1, gone + 1),
        )
        connection.execute(f"DELETE FROM memory_scopes WHERE app = ? AND {column} = ?", own)
    if kind == "user":
        connection.execute("DELETE FROM aliases WHERE app = ? AND ? IN (old, new)", own)
    session = "" if kind == "session" else "session = '', "
    return connection.execute(
        f"UPDATE events SET {column} = ?, {session}name = '', "
        f"actor = CASE WHEN instr(actor, ?) > 0 THEN '{NOBODY}' ELSE actor END WHERE app = ? AND {column} = ?",
        (mark + pseudonym, cell, *own),
    ).rowcount


def scour(connection: sqlite3.Connection) -> Reached:
    """See Scourable.scour: the log is emptied; what is deleted was overwritten with zeros as it was deleted."""
    zeroed = "what was deleted in the file is overwritten with zeros"
    if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        held = "the write-ahead log, which another process reads just now: erase once more, or let it end"
        return Reached((zeroed,), (held,))
    return Reached((zeroed, "its write-ahead log is empty"))


def traces(connection: sqlite3.Connection, path: Path, texts: Sequence[bytes]) -> list[Finding]:
    """See Traceable.traces: free pages, the log, and each byte of both files."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return [_free_pages(path), _log(path), *_bytes(path, texts)]


def _free_pages(path: Path) -> Finding:
    """Whether the pages that are free hold nothing but zeros; of those that list others, what is behind the list."""
    count, dirty = 0, 0
    with _mapped(path) as file:
        size = int.from_bytes(file[PAGE_SIZE_AT : PAGE_SIZE_AT + 2], "big")
        size = 65536 if size == 1 else size
        trunk = int.from_bytes(file[32:36], "big")
        while trunk:
            page = file[(trunk - 1) * size : trunk * size]
            leaves = int.from_bytes(page[4:8], "big")
            listed = [int.from_bytes(page[8 + 4 * at : 12 + 4 * at], "big") for at in range(leaves)]
            dirty += any(file[(leaf - 1) * size : leaf * size].strip(b"\0") != b"" for leaf in listed)
            dirty += page[8 + 4 * leaves :].strip(b"\0") != b""
            count += 1 + leaves
            trunk = int.from_bytes(page[:4], "big")
    if dirty:
        what = f"{path.name} has {dirty} free pages that hold something"
        return Finding("free pages", "fail", what, "stop what uses the store, and run VACUUM on it with sqlite3")
    return Finding("free pages", "ok", f"{count} free pages of {path.name} hold zeros only")


def _log(path: Path) -> Finding:
    log = path.with_name(path.name + "-wal")
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        size = 0
    if size:
        what = f"{log.name} has {size:,} bytes: others use the store just now"
        return Finding("log", "warn", what, "let them end, and check again; the log is searched all the same")
    return Finding("log", "ok", f"{log.name} is empty")


def _bytes(path: Path, texts: Sequence[bytes]) -> Iterator[Finding]:
    """Whether one of the texts stands anywhere in the store's files; they are named by number."""
    for file in (path, path.with_name(path.name + "-wal")):
        if not file.exists() or not file.stat().st_size:
            continue
        with _mapped(file) as content:
            found = [number for number, text in enumerate(texts, 1) if content.find(text) >= 0]
        if found:
            what = f"{file.name} holds {len(found)} of {len(texts)} texts (number {', '.join(map(str, found[:5]))})"
            yield Finding("bytes", "fail", what, "erase again; if it stays, stop what uses the store and run VACUUM")
        else:
            yield Finding("bytes", "ok", f"none of {len(texts)} texts is in the bytes of {file.name}")


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
