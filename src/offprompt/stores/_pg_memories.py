"""Memories in PostgreSQL tables, within one transaction."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from offprompt.records import (
    Event,
    Indexed,
    Measured,
    Memory,
    MemoryOp,
    MemoryQuery,
    MemoryVersion,
    Scope,
    SweepMemories,
    Unindexed,
)
from offprompt.stores import _pg_words as words
from offprompt.stores._blobs import decode, encode
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_expected import Expected, ScopeKey
from offprompt.stores._pg_locks import Locks
from offprompt.stores._pg_rows import PLACE, THE_MEMORY, THE_SCOPE, in_subtree, marks
from offprompt.stores._pg_slots import PgSlots
from offprompt.stores._rows import memory_of, memory_values

ALIVE: Final = "(m.expires_at IS NULL OR m.expires_at > %s)"
MEMORY_TABLES: Final = ("memory_words", "memory_index", "memory_versions", "memory_keys", "memories")
_COLUMNS: Final = (
    f"{PLACE}, memory_id, kind, state, state_at, digest, subject, attribute, in_session, happened_at, expires_at, "
    'active_at, revision, record, version, "order"'
)
_ADD: Final = f"INSERT INTO memories ({_COLUMNS}) VALUES ({marks(19)})"
_CHANGE: Final = f"UPDATE memories SET ({_COLUMNS}) = ({marks(19)}) WHERE {THE_MEMORY}"
_NOTE: Final = (
    "INSERT INTO memory_versions (app, memory_id, number, version) "
    "SELECT %s, %s, coalesce(max(number), 0) + 1, %s FROM memory_versions WHERE " + THE_MEMORY
)
_INDEX: Final = (
    "INSERT INTO memory_index (app, memory_id, version, content, embedder) VALUES (%s, %s, %s, %s, %s) "
    "ON CONFLICT (app, memory_id) DO UPDATE SET (version, content, embedder) = "
    "(excluded.version, excluded.content, excluded.embedder)"
)
_SCOPE: Final = (
    f"INSERT INTO memory_scopes ({PLACE}, revision, whole_before) VALUES ({marks(6)}) ON CONFLICT ({PLACE}) "
    "DO UPDATE SET (revision, whole_before) = (excluded.revision, excluded.whole_before)"
)
_PAIRS: Final = (
    "SELECT m.record, x.memory_id, x.version, x.content, x.embedder FROM memories m "
    "LEFT JOIN memory_index x ON x.app = m.app AND x.memory_id = m.memory_id WHERE "
)
# Most of the time there are none: all are held against all at once. Where there are many, each further page is read in
# the order of an index, app by app, and goes no further than it needs to.
_UNINDEXED: Final = (
    f"SELECT record FROM memories m WHERE state = 'live' AND {ALIVE} AND memory_id > %s AND {{where}} "
    "AND NOT EXISTS (SELECT 1 FROM memory_index x WHERE x.app = m.app AND x.memory_id = m.memory_id "
    "AND x.embedder = %s AND x.version = m.version) ORDER BY memory_id LIMIT %s"
)
_FURTHER_UNINDEXED: Final = (
    "SELECT f.record FROM (SELECT DISTINCT app FROM memory_scopes) a CROSS JOIN LATERAL ("
    f"SELECT memory_id, record FROM memories m WHERE m.app = a.app AND state = 'live' AND {ALIVE} AND memory_id > %s "
    "AND {where} AND (SELECT x.embedder = %s AND x.version = m.version FROM memory_index x WHERE x.app = m.app "
    "AND x.memory_id = m.memory_id) IS NOT TRUE ORDER BY memory_id LIMIT %s) f ORDER BY f.memory_id LIMIT %s"
)
_QUEUE: Final = (
    "INSERT INTO vector_queue (app, memory_id) VALUES (%s, %s) ON CONFLICT (app, memory_id) "
    "DO UPDATE SET seq = nextval(pg_get_serial_sequence('vector_queue', 'seq'))"
)


class ElsewhereError(Exception):
    """A write reaches a scope of an owner that its ops did not name; it is run again with the whole app locked."""


class PgMemories:
    """A MemoryTable over one connection in a transaction.

    locks    what a write holds; None: it only reads. queues: whether a vector index lies elsewhere.
    most     rows that a sweep takes at once.
    finish   is called when all ops are done.
    """

    def __init__(
        self, statements: Statements, locks: Locks | None = None, *, queues: bool = False, most: int | None = None
    ) -> None:
        self._db = statements
        self._locks, self._queues, self._most = locks, queues, most
        self._expected = Expected(statements)
        self._bumped: dict[ScopeKey, tuple[int, int]] = {}

    def expect(self, ops: Sequence[MemoryOp[Any]]) -> None:
        """Read what the ops will ask for first, in one go."""
        self._expected.read(ops, writes=self._locks is not None)

    def finish(self) -> None:
        """Store the revisions."""
        self._db.many(_SCOPE, [(*key, *revision) for key, revision in self._bumped.items()])

    def load(self, app: str, memory_id: str) -> Memory | None:
        record = self._expected.record(app, memory_id)
        return None if record is None else memory_of(record)

    def by_op_key(self, scope: Scope, op_key: str) -> Memory | None:
        memory_id = self._expected.named(scope, op_key)
        return None if memory_id is None else self.load(scope.app, memory_id)

    def by_digest(self, memory: Memory) -> list[Memory]:
        if self._expected.is_new(memory.scope, memory.digest):
            return []
        rows = self._db.rows(
            "SELECT record FROM memories WHERE digest = %s AND kind = %s AND state = 'live' AND subject = %s "
            f"AND attribute = %s AND {THE_SCOPE} ORDER BY memory_id",
            (memory.digest, memory.kind, memory.subject, memory.attribute, *memory.scope.key),
        )
        return [memory_of(row[0]) for row in rows]

    def by_attribute(self, memory: Memory) -> list[Memory]:
        rows = self._db.rows(
            "SELECT record FROM memories WHERE attribute <> '' AND kind = 'fact' AND "
            f"{THE_SCOPE} AND subject = %s AND attribute = %s ORDER BY memory_id",
            (*memory.scope.key, memory.subject, memory.attribute),
        )
        return [memory_of(row[0]) for row in rows]

    def rows(self, query: MemoryQuery, scope: Scope, now: float) -> list[Memory]:
        where, given = in_subtree(scope) if query.within == "subtree" else (THE_SCOPE, list(scope.key))
        parts: list[tuple[str, Sequence[Any]]] = [
            (where, given),
            ("NOT " + ALIVE if query.expired else ALIVE, (now,)),
            ("state = ANY(%s)", (list(query.states),)),
            ("kind = ANY(%s)", (list(query.kinds),)),
            ("memory_id > %s", (query.after,)),
        ]
        if query.ids is not None:
            parts.append(("memory_id = ANY(%s)", (sorted(query.ids),)))
        if query.session is not None:
            parts.append(("in_session = %s", (query.session,)))
        if query.since is not None:
            parts.append(("happened_at >= %s", (query.since,)))
        if query.until is not None:
            parts.append(("happened_at < %s", (query.until,)))
        if query.about:
            parts.append(("attribute <> ''", ()))
        rows = self._db.rows(
            "SELECT record FROM memories m WHERE "
            + " AND ".join(condition for condition, _ in parts)
            + " ORDER BY memory_id LIMIT %s",
            (*(value for _, values in parts for value in values), query.limit),
        )
        return [memory_of(row[0]) for row in rows]

    def add(self, memory: Memory) -> None:
        self._db.run(_ADD, self._values(memory))

    def name(self, scope: Scope, op_key: str, memory_id: str) -> None:
        self._expected.set_named(scope, op_key, memory_id)
        self._db.run(
            f"INSERT INTO memory_keys ({PLACE}, op_key, memory_id) VALUES ({marks(6)}) "
            f"ON CONFLICT ({PLACE}, op_key) DO UPDATE SET memory_id = excluded.memory_id",
            (*scope.key, op_key, memory_id),
        )

    def change(self, memory: Memory) -> None:
        self._db.run(_CHANGE, (*self._values(memory), memory.scope.app, memory.memory_id))
        words.mark(self._db, memory)

    def refresh(self, memory: Memory) -> None:
        *_, active_at, revision, record, _, _ = self._values(memory)
        self._db.run(
            f"UPDATE memories SET (active_at, revision, record) = (%s, %s, %s) WHERE {THE_MEMORY}",
            (active_at, revision, record, memory.scope.app, memory.memory_id),
        )

    def move(self, memory: Memory) -> None:
        self.change(memory)
        self._expected.forget_names()
        place = (memory.scope.app, memory.memory_id)
        self._db.run(
            f"UPDATE memory_keys k SET ({PLACE}) = ({marks(4)}) WHERE {THE_MEMORY} AND NOT EXISTS (SELECT 1 FROM "
            'memory_keys o WHERE (o.app, o."user", o.agent, o.session, o.op_key) = (%s, %s, %s, %s, k.op_key))',
            (*memory.scope.key, *place, *memory.scope.key),
        )

    def alias(self, app: str, user: str) -> str | None:
        row = self._db.row("SELECT new FROM aliases WHERE app = %s AND old = %s", (app, user))
        return None if row is None else row[0]

    def aliases(self, app: str, user: str) -> list[str]:
        rows = self._db.rows("SELECT old FROM aliases WHERE app = %s AND new = %s ORDER BY old", (app, user))
        return [row[0] for row in rows]

    def join(self, app: str, user: str, to: str) -> None:
        self._db.run(
            "INSERT INTO aliases (app, old, new) VALUES (%s, %s, %s) "
            "ON CONFLICT (app, old) DO UPDATE SET new = excluded.new",
            (app, user, to),
        )

    def remove(self, memory: Memory) -> None:
        self._check(memory.scope)
        self._expected.set_record(memory.scope.app, memory.memory_id, None)
        self._expected.forget_names()
        for table in MEMORY_TABLES:
            self._db.run(f"DELETE FROM {table} WHERE {THE_MEMORY}", (memory.scope.app, memory.memory_id))

    def note(self, memory: Memory, version: MemoryVersion) -> None:
        place = (memory.scope.app, memory.memory_id)
        self._db.run(_NOTE, (*place, encode(version), *place))

    def versions(self, app: str, memory_id: str) -> list[MemoryVersion]:
        rows = self._db.rows(
            f"SELECT version FROM memory_versions WHERE {THE_MEMORY} ORDER BY number", (app, memory_id)
        )
        return [decode(row[0], MemoryVersion) for row in rows]

    def index(self, app: str, indexed: Indexed) -> None:
        self._db.run(_INDEX, (app, indexed.memory_id, indexed.version, indexed.content, indexed.embedder))
        if (memory := self.load(app, indexed.memory_id)) is not None:
            words.put(self._db, memory, indexed)

    def keep_index(self, memory: Memory) -> None:
        self._db.run(
            f"UPDATE memory_index SET version = %s WHERE {THE_MEMORY}",
            (memory.version, memory.scope.app, memory.memory_id),
        )

    def unindex(self, memory: Memory) -> None:
        for table in ("memory_words", "memory_index"):
            self._db.run(f"DELETE FROM {table} WHERE {THE_MEMORY}", (memory.scope.app, memory.memory_id))

    def bump(self, scope: Scope, *, whole: bool = False) -> int:
        self._check(scope)
        revision, whole_before = self.revision(scope)
        self._bumped[scope.key] = (revision + 1, revision + 1 if whole else whole_before)
        return revision + 1

    def revision(self, scope: Scope) -> tuple[int, int]:
        return self._bumped.get(scope.key) or self._expected.revision(scope)

    def page(self, scope: Scope, after: int) -> list[tuple[Memory, Indexed | None]]:
        changed = "m.revision > %s" if after else "m.state = 'live' AND m.revision > %s"
        rows = self._db.rows(
            f'{_PAIRS}m.app = %s AND m."user" = %s AND m.agent = %s AND m.session = %s AND {changed} '
            "ORDER BY m.memory_id",
            (*scope.key, after),
        )
        return [_pair(row) for row in rows]

    def pairs(self, app: str, ids: Sequence[str]) -> list[tuple[Memory, Indexed | None]]:
        rows = self._db.rows(f"{_PAIRS}m.app = %s AND m.memory_id = ANY(%s)", (app, list(ids)))
        return [_pair(row) for row in rows]

    def unindexed(self, op: Unindexed, now: float) -> list[Memory]:
        where, given = in_subtree(op.scope)
        rows = self._db.rows(
            (_FURTHER_UNINDEXED if op.after else _UNINDEXED).replace("{where}", where),
            (now, op.after, *given, op.embedder, op.limit, op.limit)[: None if op.after else -1],
        )
        return [memory_of(row[0]) for row in rows]

    def scopes(self, scope: Scope | None, now: float) -> list[tuple[Scope, int]]:
        where, given = in_subtree(scope)
        rows = self._db.rows(
            f"SELECT {PLACE}, count(*) FROM memories m WHERE {where} AND {ALIVE} AND state <> 'forgotten' "
            f"GROUP BY {PLACE} ORDER BY {PLACE}",
            (*given, now),
        )
        return [(Scope.from_key((row[0], row[1], row[2], row[3])), row[4]) for row in rows]

    def measure(self, app: str, now: float) -> Measured:
        row = self._db.row(
            "SELECT count(*), coalesce(sum(octet_length(record)), 0)::bigint FROM memories m "
            f"WHERE app = %s AND {ALIVE} AND state <> 'forgotten'",
            (app, now),
        )
        return Measured(*row) if row is not None else Measured(0, 0)

    def over(self, op: SweepMemories, now: float) -> list[Memory]:
        due = ["expires_at <= %s", "(state = 'forgotten' AND state_at <= %s)"]
        given: list[Any] = [now, now - op.undo_s]
        where, most = "true", self._most
        if op.idle_before is not None:
            # Looks at all; the others only at what is due, each by its index. Which are pinned is found out below.
            most = None
            due.append(
                """("user" <> '' AND NOT EXISTS (SELECT 1 FROM memories o WHERE o.app = m.app """
                """AND o."user" = m."user" AND o."user" <> '' AND o.active_at >= %s))"""
            )
            given.append(op.idle_before)
        if op.app is not None:
            where = "app = %s"
            given.append(op.app)
        rows = self._db.rows(
            f"SELECT record FROM memories m WHERE ({' OR '.join(due)}) AND {where} ORDER BY memory_id LIMIT %s",
            (*given, most),
        )
        found = [memory_of(row[0]) for row in rows]
        return [one for one in found if not one.pinned or one.state == "forgotten"]

    def queue(self, app: str, ids: Sequence[str]) -> None:
        if self._queues:
            self._db.many(_QUEUE, [(app, memory_id) for memory_id in ids])

    def waiting(self, app: str | None, limit: int) -> list[tuple[int, str, str]]:
        where, given = ("true", []) if app is None else ("app = %s", [app])
        rows = self._db.rows(
            f"SELECT seq, app, memory_id FROM vector_queue WHERE {where} ORDER BY seq LIMIT %s", (*given, limit)
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def unqueue(self, seqs: Sequence[int]) -> set[int]:
        rows = self._db.rows("DELETE FROM vector_queue WHERE seq = ANY(%s::bigint[]) RETURNING seq", (list(seqs),))
        return {row[0] for row in rows}

    def log(self, events: Sequence[Event]) -> None:
        PgSlots(self._db).log(events)

    def _check(self, scope: Scope) -> None:
        """Nothing, if nobody else can change what is in the scope.

        Raises   ElsewhereError.
        """
        if self._locks is None or not self._locks.holds(scope):
            raise ElsewhereError

    def _values(self, memory: Memory) -> tuple[Any, ...]:
        """The memory as a row of table `memories`; it is what `load` finds from now on."""
        self._check(memory.scope)
        row = memory_values(memory)
        self._expected.set_record(memory.scope.app, memory.memory_id, row[-1])
        self._expected.set_digest(memory.scope, memory.digest)
        return (*row, memory.version, memory.order)


def _pair(row: Sequence[Any]) -> tuple[Memory, Indexed | None]:
    return memory_of(row[0]), Indexed(*row[1:]) if row[1] is not None else None
