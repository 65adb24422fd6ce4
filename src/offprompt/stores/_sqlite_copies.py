"""Backup and restore of a SQLite store, while it is in use."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Generator
from pathlib import Path

from offprompt.errors import BackendError, UsageError
from offprompt.protocols.sealing import ENCRYPTION
from offprompt.stores import _sqlite_files as files
from offprompt.stores._sqlite_errors import is_busy
from offprompt.stores._sqlite_schema import FORMAT, format_of, migrate


def empty_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the file and cut it to nothing; left for later while others use it."""
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError as exc:
        if not is_busy(exc):
            raise


def integrity(connection: sqlite3.Connection) -> str:
    """`ok`, or the first faults that SQLite finds in the file."""
    return "; ".join(row[0] for row in connection.execute("PRAGMA integrity_check(5)"))


def backup(connection: sqlite3.Connection, path: Path, target: Path, *, overwrite: bool) -> int:
    """Copy the store to a file; see Maintainable.backup."""
    _check_target(path, target, overwrite=overwrite)
    half = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        files.make_folders(target.parent)
        os.close(os.open(half, os.O_CREAT | os.O_EXCL | os.O_RDWR, files.FILE_MODE))
        try:
            with contextlib.closing(sqlite3.connect(half, isolation_level=None)) as copy:
                connection.backup(copy)
                # A copy is one file: its log is folded in, none stands beside it.
                copy.execute("PRAGMA journal_mode = DELETE").fetchall()
                faults = integrity(copy)
            if faults != "ok":
                raise BackendError(
                    f"the copy of {path} is not sound ({faults}) and was removed; run `offprompt doctor` on the store"
                )
            _to_disk(half)
            _take_name(half, target, overwrite=overwrite)
            _to_disk(target.parent)
        finally:
            half.unlink(missing_ok=True)
        return target.stat().st_size
    except OSError as exc:
        raise BackendError(f"the backup {target} cannot be written: {exc.strerror}; check its folder") from exc


def restore(
    connection: sqlite3.Connection,
    path: Path,
    source: Path,
    *,
    force: bool,
    keyring: str,
    is_late: Callable[[], bool],
) -> None:
    """Put a backup's content in place of the store's; see Maintainable.restore. keyring: that seals here, or ''."""
    if source.exists() and source.samefile(path):
        raise UsageError(f"{source} is the store itself; give the backup's path")
    with _opened_backup(source) as copy:
        _check_keyring(copy, source, keyring)
        tables = ("slots", "memories", "events", "sessions", "digest_keys", "aliases")
        held = [t for t in tables if connection.execute(f"SELECT 1 FROM {t} LIMIT 1").fetchone()]  # noqa: S608 - our own names
        if held and not force:
            raise UsageError(
                f"the store {path} is not empty ({', '.join(held)}), and a restore replaces all of it; "
                "back it up first and pass force=True (--force), or restore into a new path"
            )
        copy.backup(connection, progress=lambda status, _left, _all: _give_up(path, status, is_late), sleep=0.02)
    migrate(connection, str(path))


def _check_keyring(copy: sqlite3.Connection, source: Path, keyring: str) -> None:
    """Nothing, if what is sealed in the backup is sealed by the keyring that seals the store."""
    row = None
    if copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone():
        row = copy.execute("SELECT text FROM notes WHERE name = ?", (ENCRYPTION,)).fetchone()
    found = "" if row is None else str(json.loads(row[0])["keyring"])
    if found and not keyring:
        raise UsageError(
            f"the backup {source} is sealed by the keyring {found}, and this store is not sealed; open the store with "
            "that keyring and the app's key (encryption_keyring, encryption_key_file)"
        )
    if keyring and found != keyring:
        what = f"sealed by the keyring {found}" if found else "not sealed"
        raise UsageError(
            f"the backup {source} is {what}, and this store is sealed by the keyring {keyring}; restore it into a new "
            "store" + (" with its own keyring" if found else " without a keyring, then seal that: offprompt encrypt")
        )


def _give_up(path: Path, status: int, is_late: Callable[[], bool]) -> None:
    # The copying would wait for ever.
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and is_late():
        raise BackendError(f"the store {path} is kept busy by others, so it was not replaced; stop them and try again")


@contextlib.contextmanager
def _opened_backup(source: Path) -> Generator[sqlite3.Connection]:
    """The backup, open for reading and found sound."""
    try:
        files.check_ours(source)
        if source.stat().st_size == 0:
            raise BackendError(f"the backup {source} is empty; give another one")
    except OSError as exc:
        raise BackendError(f"the backup {source} cannot be read: {exc.strerror}; check the path") from exc
    with contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as copy:
        try:
            faults = integrity(copy)
            found = format_of(copy)
        except sqlite3.DatabaseError as exc:
            raise BackendError(f"the backup {source} is damaged ({exc}); give another one") from exc
        if faults != "ok":
            raise BackendError(f"the backup {source} is damaged ({faults}); give another one")
        if not 1 <= found <= FORMAT:
            raise BackendError(
                f"the backup {source} has format {found}, and this program knows formats 1 to {FORMAT}; "
                "install a newer offprompt"
            )
        yield copy


def _check_target(path: Path, target: Path, *, overwrite: bool) -> None:
    if not target.exists():
        return
    if target.is_dir():
        raise UsageError(f"the backup target {target} is a folder; give the path of a file in it")
    if target.samefile(path):
        raise UsageError(f"the backup target {target} is the store itself; give another path")
    if not overwrite:
        raise UsageError(
            f"the backup target {target} is there already; give another path, or pass overwrite=True (--overwrite)"
        )


def _take_name(half: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        half.replace(target)
        return
    try:
        # A link, unlike a rename, fails if another has taken the name meanwhile.
        target.hardlink_to(half)
    except FileExistsError as exc:
        raise UsageError(f"the backup target {target} has just been made by another; give another path") from exc
    except OSError:
        half.replace(target)


def _to_disk(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
