"""What `doctor` looks at in the memories of a SQLite store."""

# ruff: noqa: S608 - statements are joined from this module's own constants

from __future__ import annotations

import sqlite3
from typing import Final, Literal

from offprompt.records import Finding

_NO_MEMORY: Final = "NOT EXISTS (SELECT 1 FROM memories m WHERE m.app = x.app AND m.memory_id = x.memory_id)"
_RESTORE: Final = "restore a backup"

_CHECKS: Final[tuple[tuple[str, Literal["warn", "fail"], str, str], ...]] = (
    (
        (
            "SELECT count(*) FROM memories m WHERE NOT EXISTS "
            "(SELECT 1 FROM memory_versions x WHERE x.app = m.app AND x.memory_id = m.memory_id)"
        ),
        "fail",
        "memories without their versions",
        _RESTORE,
    ),
    (
        "SELECT count(DISTINCT x.app || char(0) || x.memory_id) FROM memory_versions x WHERE " + _NO_MEMORY,
        "fail",
        "memories of which only versions are left",
        _RESTORE,
    ),
    (
        (
            "SELECT count(*) FROM memories m LEFT JOIN memory_scopes s USING (app, user, agent, session) "
            "WHERE s.revision IS NULL OR m.revision > s.revision"
        ),
        "fail",
        "memories of a later revision than their scope's, which recall may not find",
        _RESTORE,
    ),
    (
        "SELECT count(*) FROM memory_scopes WHERE whole_before > revision",
        "fail",
        "scopes that are loaded whole for each recall (whole_before is beyond their revision)",
        _RESTORE,
    ),
    (
        "SELECT count(*) FROM memory_index x WHERE " + _NO_MEMORY,
        "fail",
        "entries of the index without their memory",
        _RESTORE,
    ),
    (
        "SELECT count(*) FROM memory_keys x WHERE " + _NO_MEMORY,
        "warn",
        "keys of writes that lead to no memory, so that such a write comes a second time",
        _RESTORE,
    ),
    (
        (
            "SELECT count(*) FROM memories m JOIN memory_index x USING (app, memory_id) "
            "WHERE m.state = 'live' AND x.version <> json_extract(m.record, '$.version')"
        ),
        "warn",
        "memories whose entry in the index is of another version, so that they are found by words alone",
        "reindex",
    ),
)
"""What is counted, the finding's state if there is any, what is said of them, and the way out."""


def check_memories(connection: sqlite3.Connection) -> list[Finding]:
    """Whether memories, their versions, keys, index and scopes fit each other. Cost: O(memories)."""
    findings: list[Finding] = []
    try:
        for query, state, what, way_out in _CHECKS:
            if count := connection.execute(query).fetchone()[0]:
                findings.append(Finding("memories", state, f"{count:,} {what}", way_out))
    except sqlite3.DatabaseError as exc:
        return [Finding("memories", "fail", f"memories cannot be read: {exc}", _RESTORE)]
    return findings or [Finding("memories", "ok", "each memory has its versions, and the index fits")]
