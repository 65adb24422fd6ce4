"""Memories in SQLite tables, within one transaction."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from operator import eq
from typing import Any, Final

from offprompt.records import (
    Event,
    Indexed,
    Measured,
    Memory,
    MemoryQuery,
    MemoryVersion,
    Scope,
    SweepMemories,
    Unindexed,
)
from offprompt.stores._blobs import decode, encode
from offprompt.stores._parting import FLOOR
from offprompt.stores._rows import memory_of, memory_values
from offprompt.stores._sqlite_rows import THE_SCOPE, in_subtree
from offprompt.stores._sqlite_slots import SqliteTable

ALIVE: Final = "(m.expires_at IS NULL OR m.expires_at > ?)"
THE_MEMORY: Final = "app = ? AND memory_id = ?"
MEMORY_TABLES: Final = ("memory_index", "memory_versions", "memory_keys", "memories")


class SqliteMemories:
    """A MemoryTable over one connection in a transaction. queues: whether a vector index lies elsewhere."""

    def __init__(self, connection: sqlite3.Connection, *, queues: bool = False) -> None:
        self._connection, self._queues = connection, queues
        self._sql = connection.execute

    def load(self, app: str, memory_id: str) -> Memory | None:
        row = self._sql("SELECT record FROM memories WHERE " + THE_MEMORY, (app, memory_id)).fetchone()
        return None if row is None else memory_of(row[0])

    def by_op_key(self, scope: Scope, op_key: str) -> Memory | None:
        row = self._sql(
            "SELECT memory_id FROM memory_keys WHERE " + THE_SCOPE + " AND op_key = ?", (*scope.key, op_key)
        ).fetchone()
        return None if row is None else self.load(scope.app, row[0])

    # A sorted column without + draws SQLite to the index that is in that order, and through the whole scope.
    def by_digest(self, memory: Memory) -> list[Memory]:
        rows = self._sql(
            "SELECT record FROM memories m WHERE digest = ? AND kind = ? AND state = 'live' "
            f"AND subject = ? AND attribute = ? AND {THE_SCOPE} ORDER BY +memory_id",
            (memory.digest, memory.kind, memory.subject, memory.attribute, *memory.scope.key),
        )
        return [memory_of(row[0]) for row in rows]

    def by_attribute(self, memory: Memory) -> list[Memory]:
        rows = self._sql(
            "SELECT record FROM memories WHERE attribute <> '' AND kind = 'fact' AND "
            + THE_SCOPE
            + " AND subject = ? AND attribute = ? ORDER BY +memory_id",
            (*memory.scope.key, memory.subject, memory.attribute),
        )
        return [memory_of(row[0]) for row in rows]

    def rows(self, query: MemoryQuery, scope: Scope, now: float) -> list[Memory]:
        where, given = in_subtree(scope) if query.within == "subtree" else (THE_SCOPE, list(scope.key))
        parts: list[tuple[str, Sequence[Any]]] = [
            (where, given),
            ("NOT " + ALIVE if query.expired else ALIVE, (now,)),
            (f"state IN ({_marks(query.states)})", query.states),
            (f"kind IN ({_marks(query.kinds)})", query.kinds),
            ("memory_id > ?", (query.after,)),
        ]
        if query.ids is not None:
            # More ids than one statement may bind are tried one by one.
            found = [self.load(scope.app, memory_id) for memory_id in sorted(set(query.ids))]
            inside = scope.holds if query.within == "subtree" else partial(eq, scope)
            there = {row.memory_id for row in found if row is not None and inside(row.scope)}
            parts.append(("memory_id IN (SELECT value FROM json_each(?))", (_json(sorted(there)),)))
        if query.about:
            parts.append(("attribute <> ''", ()))
        if query.session is not None:
            parts.append(("in_session = ?", (query.session,)))
        if query.since is not None:
            parts.append(("happened_at >= ?", (query.since,)))
        if query.until is not None:
            parts.append(("happened_at < ?", (query.until,)))
        rows = self._sql(
            "SELECT record FROM memories m WHERE "
            + " AND ".join(condition for condition, _ in parts)
            + " ORDER BY memory_id LIMIT ?",
            (*(value for _, values in parts for value in values), -1 if query.limit is None else query.limit),
        )
        return [memory_of(row[0]) for row in rows]

    def add(self, memory: Memory) -> None:
        self._sql(f"INSERT INTO memories VALUES ({_marks(range(17))})", memory_values(memory))

    def name(self, scope: Scope, op_key: str, memory_id: str) -> None:
        self._sql(f"INSERT OR REPLACE INTO memory_keys VALUES ({_marks(range(6))})", (*scope.key, op_key, memory_id))

    def change(self, memory: Memory) -> None:
        self._sql(
            "UPDATE memories SET (app, user, agent, session, memory_id, kind, state, state_at, digest, subject, "
            f"attribute, in_session, happened_at, expires_at, active_at, revision, record) = ({_marks(range(17))}) "
            "WHERE " + THE_MEMORY,
            (*memory_values(memory), memory.scope.app, memory.memory_id),
        )

    def refresh(self, memory: Memory) -> None:
        # SQLite writes every index that has a column of the statement, changed or not.
        *_, active_at, revision, record = memory_values(memory)
        self._sql(
            "UPDATE memories SET (active_at, revision, record) = (?, ?, ?) WHERE " + THE_MEMORY,
            (active_at, revision, record, memory.scope.app, memory.memory_id),
        )

    def move(self, memory: Memory) -> None:
        self.change(memory)
        self._sql(
            f"UPDATE OR IGNORE memory_keys SET (app, user, agent, session) = ({_marks(range(4))}) WHERE " + THE_MEMORY,
            (*memory.scope.key, memory.scope.app, memory.memory_id),
        )

    def alias(self, app: str, user: str) -> str | None:
        row = self._sql("SELECT new FROM aliases WHERE app = ? AND old = ?", (app, user)).fetchone()
        return None if row is None else row[0]

    def aliases(self, app: str, user: str) -> list[str]:
        rows = self._sql("SELECT old FROM aliases WHERE app = ? AND new = ? ORDER BY old", (app, user))
        return [row[0] for row in rows]

    def join(self, app: str, user: str, to: str) -> None:
        self._sql("INSERT OR REPLACE INTO aliases VALUES (?, ?, ?)", (app, user, to))

    def remove(self, memory: Memory) -> None:
        for table in MEMORY_TABLES:
            self._sql(f"DELETE FROM {table} WHERE {THE_MEMORY}", (memory.scope.app, memory.memory_id))

    def note(self, memory: Memory, version: MemoryVersion) -> None:
        self._sql(
            "INSERT INTO memory_versions SELECT ?, ?, coalesce(max(number), 0) + 1, ? FROM memory_versions WHERE "
            + THE_MEMORY,
            (memory.scope.app, memory.memory_id, encode(version), memory.scope.app, memory.memory_id),
        )

    def versions(self, app: str, memory_id: str) -> list[MemoryVersion]:
        rows = self._sql(
            "SELECT version FROM memory_versions WHERE " + THE_MEMORY + " ORDER BY number", (app, memory_id)
        )
        return [decode(row[0], MemoryVersion) for row in rows]

    def index(self, app: str, indexed: Indexed) -> None:
        self._sql(
            f"INSERT OR REPLACE INTO memory_index VALUES ({_marks(range(5))})",
            (app, indexed.memory_id, indexed.version, indexed.content, indexed.embedder),
        )

    def keep_index(self, memory: Memory) -> None:
        self._sql(
            "UPDATE memory_index SET version = ? WHERE " + THE_MEMORY,
            (memory.version, memory.scope.app, memory.memory_id),
        )

    def unindex(self, memory: Memory) -> None:
        self._sql("DELETE FROM memory_index WHERE " + THE_MEMORY, (memory.scope.app, memory.memory_id))

    def bump(self, scope: Scope, *, whole: bool = False) -> int:
        before, whole_before = self.revision(scope)
        revision = before + 1
        self._sql(
            f"INSERT INTO memory_scopes VALUES ({_marks(range(6))}) ON CONFLICT DO UPDATE SET "
            "revision = excluded.revision, whole_before = max(whole_before, excluded.whole_before)",
            (*scope.key, revision, revision if whole else whole_before),
        )
        return revision

    def revision(self, scope: Scope) -> tuple[int, int]:
        row = self._sql("SELECT revision, whole_before FROM memory_scopes WHERE " + THE_SCOPE, scope.key).fetchone()
        return self._floor(scope) if row is None else (row[0], row[1])

    def _floor(self, scope: Scope) -> tuple[int, int]:
        """Where the revisions of a scope begin that has no row; see `_parting`."""
        row = self._sql("SELECT revision FROM memory_scopes WHERE " + THE_SCOPE, (scope.app, FLOOR, "", "")).fetchone()
        return (0, 0) if row is None else (row[0], row[0])

    def page(self, scope: Scope, after: int) -> list[tuple[Memory, Indexed | None]]:
        rows = self._sql(
            "SELECT m.record, x.memory_id, x.version, x.content, x.embedder FROM memories m "
            "LEFT JOIN memory_index x ON x.app = m.app AND x.memory_id = m.memory_id "
            "WHERE m.app = ? AND m.user = ? AND m.agent = ? AND m.session = ? AND "
            # A whole page is read in the order of an index; sorting it would move every content.
            + ("m.revision > ? " if after else "m.state = 'live' AND m.revision + 0 > ? ")
            + "ORDER BY m.memory_id",
            (*scope.key, after),
        )
        return [(memory_of(row[0]), Indexed(*row[1:]) if row[1] is not None else None) for row in rows]

    def unindexed(self, op: Unindexed, now: float) -> list[Memory]:
        where, given = in_subtree(op.scope)
        rows = self._sql(
            f"SELECT record FROM memories m WHERE state = 'live' AND {ALIVE} AND memory_id > ? AND {where} "
            "AND NOT EXISTS (SELECT 1 FROM memory_index x WHERE x.app = m.app AND x.memory_id = m.memory_id "
            "AND x.embedder = ? AND x.version = json_extract(m.record, '$.version')) ORDER BY memory_id LIMIT ?",
            (now, op.after, *given, op.embedder, op.limit),
        )
        return [memory_of(row[0]) for row in rows]

    def scopes(self, scope: Scope | None, now: float) -> list[tuple[Scope, int]]:
        where, given = in_subtree(scope)
        rows = self._sql(
            f"SELECT app, user, agent, session, count(*) FROM memories m WHERE {where} AND {ALIVE} "
            "AND state <> 'forgotten' GROUP BY app, user, agent, session ORDER BY app, user, agent, session",
            (*given, now),
        )
        return [(Scope.from_key((row[0], row[1], row[2], row[3])), row[4]) for row in rows]

    def measure(self, app: str, now: float) -> Measured:
        row = self._sql(
            "SELECT count(*), coalesce(sum(length(CAST(record AS BLOB))), 0) FROM memories m "
            f"WHERE app = ? AND {ALIVE} AND state <> 'forgotten'",
            (app, now),
        ).fetchone()
        return Measured(*row)

    def over(self, op: SweepMemories, now: float) -> list[Memory]:
        due = ["expires_at <= ?", "(state = 'forgotten' AND state_at <= ?)"]
        given: list[Any] = [now, now - op.undo_s]
        if op.idle_before is not None:
            # Looks at all; the others only at what is due, each by its index.
            due.append(
                "(user <> '' AND NOT EXISTS (SELECT 1 FROM memories o WHERE o.app = m.app AND o.user = m.user "
                "AND o.user <> '' AND o.active_at >= ?))"
            )
            given.append(op.idle_before)
        rows = self._sql(
            f"SELECT record FROM memories m WHERE ({' OR '.join(due)}) AND (? IS NULL OR app = ?) ORDER BY +memory_id",
            (*given, op.app, op.app),
        )
        found = [memory_of(row[0]) for row in rows]
        return [one for one in found if not one.pinned or one.state == "forgotten"]

    def pairs(self, app: str, ids: Sequence[str]) -> list[tuple[Memory, Indexed | None]]:
        rows = self._sql(
            "SELECT m.record, x.memory_id, x.version, x.content, x.embedder FROM memories m "
            "LEFT JOIN memory_index x ON x.app = m.app AND x.memory_id = m.memory_id "
            "WHERE m.app = ? AND m.memory_id IN (SELECT value FROM json_each(?))",
            (app, _json(ids)),
        )
        return [(memory_of(row[0]), Indexed(*row[1:]) if row[1] is not None else None) for row in rows]

    def queue(self, app: str, ids: Sequence[str]) -> None:
        if self._queues:
            rows = [(app, memory_id) for memory_id in ids]
            self._connection.executemany("INSERT OR REPLACE INTO vector_queue (app, memory_id) VALUES (?, ?)", rows)

    def waiting(self, app: str | None, limit: int) -> list[tuple[int, str, str]]:
        return self._sql(
            "SELECT seq, app, memory_id FROM vector_queue WHERE ? IS NULL OR app = ? ORDER BY seq LIMIT ?",
            (app, app, limit),
        ).fetchall()

    def unqueue(self, seqs: Sequence[int]) -> set[int]:
        rows = self._sql(
            "DELETE FROM vector_queue WHERE seq IN (SELECT value FROM json_each(?)) RETURNING seq",
            (encode(list(seqs)),),
        )
        return {row[0] for row in rows.fetchall()}

    def log(self, events: Sequence[Event]) -> None:
        SqliteTable(self._connection, None).log(events)


def _json(texts: Sequence[str]) -> str:
    return encode(list(texts))


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))
