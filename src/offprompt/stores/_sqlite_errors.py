"""What SQLite says went wrong, in our words."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from offprompt.errors import BackendError

_WAYS_OUT: Final = {
    sqlite3.SQLITE_FULL: "free space on the disk, then try again",
    sqlite3.SQLITE_READONLY: "the file or its folder may not be written: check their rights",
    sqlite3.SQLITE_CANTOPEN: "check that the folder is there and may be written",
    sqlite3.SQLITE_PERM: "check the rights of the file and its folder",
    sqlite3.SQLITE_IOERR: "the disk failed: check it, then run `offprompt doctor`",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: run `offprompt doctor`, move it away and restore a backup",
    sqlite3.SQLITE_NOTADB: "the file is damaged or no store: move it away and restore a backup",
    sqlite3.SQLITE_TOOBIG: "store less in one call",
}


def is_busy(exc: sqlite3.Error) -> bool:
    """Whether the file was in use, so that the same work may succeed a moment later."""
    return (getattr(exc, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def failure(path: Path, exc: sqlite3.Error) -> BackendError:
    """SQLite's error in our words, with the way out."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    way_out = _WAYS_OUT.get(code, "run `offprompt doctor` on it")
    return BackendError(f"the store {path} failed: {exc}; {way_out}")
