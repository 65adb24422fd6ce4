"""What `doctor` looks at in a SQLite store."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Final

from offprompt.records import Finding
from offprompt.stores import _sqlite_files as files
from offprompt.stores._sqlite_copies import integrity
from offprompt.stores._sqlite_memory_check import check_memories
from offprompt.stores._sqlite_schema import APPLICATION_ID, FORMAT, format_of

OLDEST_SQLITE: Final = (3, 40, 0)
LOW_DISK_BYTES: Final = 100 * 1024 * 1024
CLOCK_SLACK_S: Final = 60.0
EARLIEST_NOW: Final = 1_700_000_000.0
LATEST_NOW: Final = 4_000_000_000.0
DAY_S: Final = 86400.0
UNDO_DAYS: Final = 7


def check_store(connection: sqlite3.Connection, path: Path, now: float, *, fix: bool) -> list[Finding]:
    """All findings; see Maintainable.check."""
    return [
        _integrity(connection),
        _versions(connection),
        *check_memories(connection),
        _format(connection),
        _application(connection),
        *_rights(path, fix=fix),
        _clock(connection, now),
        _disk(path),
        _waiting(connection, now),
        _sqlite(),
    ]


def _integrity(connection: sqlite3.Connection) -> Finding:
    try:
        faults = integrity(connection)
    except sqlite3.DatabaseError as exc:
        faults = str(exc)
    if faults == "ok":
        return Finding("integrity", "ok", "the file is sound")
    return Finding(
        "integrity", "fail", f"the file is damaged: {faults}", "move it away with its -wal and restore a backup"
    )


def _versions(connection: sqlite3.Connection) -> Finding:
    """Whether each slot has its current version, and each version its slot."""
    same = "USING (app, user, agent, session, folded"
    try:
        lost = connection.execute(
            f"SELECT count(*) FROM slots s LEFT JOIN versions v {same}, version) WHERE v.value IS NULL"  # noqa: S608
        ).fetchone()[0]
        stray = connection.execute(
            f"SELECT count(*) FROM versions v LEFT JOIN slots s {same}) WHERE s.name IS NULL"  # noqa: S608
        ).fetchone()[0]
    except sqlite3.DatabaseError as exc:
        return Finding("versions", "fail", f"slots cannot be read: {exc}", "restore a backup")
    if lost or stray:
        what = f"{lost} slots without their version, {stray} versions without their slot"
        return Finding("versions", "fail", what, "restore a backup")
    return Finding("versions", "ok", "each slot has its version")


def _format(connection: sqlite3.Connection) -> Finding:
    found = format_of(connection)
    if found == FORMAT:
        return Finding("format", "ok", f"format {found}")
    return Finding("format", "fail", f"format {found}, and this program knows {FORMAT}", "install the newest offprompt")


def _application(connection: sqlite3.Connection) -> Finding:
    found = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if found == APPLICATION_ID:
        return Finding("application", "ok", "the file is marked as an Offprompt store")
    return Finding("application", "fail", f"the file carries another program's mark ({found:#x})", "restore a backup")


def _rights(path: Path, *, fix: bool) -> list[Finding]:
    findings: list[Finding] = []
    for place, mode, wanted in files.loose_files(path):
        is_folder = place == path.parent
        if fix and (not is_folder or _is_own_folder(path)):
            try:
                place.chmod(wanted)
            except OSError as exc:
                why = f"{place} is open to others ({mode:03o}) and cannot be mended: {exc.strerror}"
                findings.append(Finding("rights", "fail", why, f"as its owner: chmod {wanted:03o} {place}"))
            else:
                findings.append(Finding("rights", "ok", f"{place} was open to others ({mode:03o}), now {wanted:03o}"))
        elif is_folder:
            # The file in it is private by itself; who may write the folder could still exchange it.
            can_replace = mode & 0o022 and not _is_sticky(place)
            what = f"the folder {place} is open to others ({mode:03o})"
            way_out = f"chmod {wanted:03o} {place}, or keep the store in a folder of its own"
            findings.append(Finding("rights", "fail" if can_replace else "warn", what, way_out))
        else:
            way_out = f"chmod {wanted:03o} {place}, or let doctor mend it (--fix)"
            findings.append(Finding("rights", "fail", f"{place} is open to others ({mode:03o})", way_out))
    return findings or [Finding("rights", "ok", "only the owner can read the files")]


def _is_own_folder(path: Path) -> bool:
    """Whether nothing else lies in the store's folder, so that its rights may be changed."""
    own = {path.name, f"{path.name}-wal", f"{path.name}-shm"}
    return all(place.name in own for place in path.parent.iterdir())


def _is_sticky(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return bool(folder.stat().st_mode & 0o1000)
    return False


def _clock(connection: sqlite3.Connection, now: float) -> Finding:
    way_out = "set the system's clock; slots with a life expire by it"
    if not EARLIEST_NOW <= now <= LATEST_NOW:
        return Finding("clock", "warn", f"the clock says {now:.0f} s since 1970, which is far off", way_out)
    newest = connection.execute("SELECT at FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    if newest is not None and newest[0] > now + CLOCK_SLACK_S:
        ahead = (newest[0] - now) / 3600
        return Finding("clock", "warn", f"the newest event is {ahead:,.1f} h later than now", way_out)
    return Finding("clock", "ok", "now is later than the newest event")


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    size = sum(os.path.getsize(p) for p in (path, Path(f"{path}-wal")) if p.exists())  # noqa: PTH202 - two sizes
    what = f"{free / 2**20:,.0f} MiB free, the store takes {size / 2**20:,.1f} MiB"
    if free < max(LOW_DISK_BYTES, size):
        return Finding("disk", "warn", what, "free space: a backup and a checkpoint need room")
    return Finding("disk", "ok", what)


def _waiting(connection: sqlite3.Connection, now: float) -> Finding:
    over = connection.execute(
        "SELECT count(*) FROM slots WHERE expires_at <= ? OR forgotten_at <= ?", (now, now - UNDO_DAYS * DAY_S)
    ).fetchone()[0]
    if over:
        return Finding("sweep", "warn", f"{over:,} slots expired or forgotten long ago are still stored", "run a sweep")
    return Finding("sweep", "ok", "nothing waits for a sweep")


def _sqlite() -> Finding:
    found = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        return Finding(
            "sqlite", "warn", f"SQLite {found} is older than {oldest}, the oldest tested", "use a newer Python"
        )
    return Finding("sqlite", "ok", f"SQLite {found}")
