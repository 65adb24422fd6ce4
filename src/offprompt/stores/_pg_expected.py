"""What a batch of memory ops will ask for, read in one go: each question of its own would be a round trip."""

# ruff: noqa: S608 - statements are joined from this package's own constants; what users give is bound

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from offprompt.records import (
    AddMemory,
    EraseMemories,
    ForgetMemories,
    GetMemories,
    IndexMemories,
    MarkExtracted,
    MemoryHistory,
    MemoryOp,
    RestoreMemories,
    Scope,
    UpdateMemory,
    UseMemories,
)
from offprompt.stores._parting import FLOOR
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_locks import scopes_of
from offprompt.stores._pg_rows import PLACE, THE_MEMORY, THE_SCOPE, columns_of

ScopeKey: TypeAlias = tuple[str, str, str, str]
_SCOPES: Final = "(SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]))"
_NAMES: Final = "(SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[]))"


class Expected:
    """Records by id, op keys, digests and revisions as the transaction finds and changes them.

    Others cannot change them meanwhile: a write holds the locks of their owners, a read looks at one snapshot.
    """

    def __init__(self, statements: Statements) -> None:
        self._db = statements
        self._records: dict[tuple[str, str], str | None] = {}
        self._named: dict[tuple[ScopeKey, str], str | None] = {}
        self._revisions: dict[ScopeKey, tuple[int, int]] = {}
        self._asked: set[tuple[ScopeKey, str]] = set()
        self._digests: set[tuple[ScopeKey, str]] = set()

    def read(self, ops: Sequence[MemoryOp[Any]], *, writes: bool) -> None:
        """Ask for all that the ops name, and wait once."""
        adds = [op for op in ops if isinstance(op, AddMemory)]
        keys = [scope.key for op in ops for scope in scopes_of(op) or ()]
        takers = [self._read_records(ops)]
        if keys:
            takers.append(self._read_revisions(keys))
        if names := [(*op.memory.scope.key, op.op_key) for op in adds if op.op_key is not None]:
            takers.append(self._read_names(names))
        digests = [(*op.memory.scope.key, op.memory.digest) for op in adds if op.memory.kind != "episode"]
        if writes and digests:
            takers.append(self._read_digests(digests))
        for take in takers:
            take()

    def record(self, app: str, memory_id: str) -> str | None:
        """The JSON of a memory, or None."""
        place = (app, memory_id)
        if place not in self._records:
            row = self._db.row(f"SELECT record FROM memories WHERE {THE_MEMORY}", place)
            self._records[place] = None if row is None else row[0]
        return self._records[place]

    def set_record(self, app: str, memory_id: str, record: str | None) -> None:
        """What `record` says from now on."""
        self._records[app, memory_id] = record

    def named(self, scope: Scope, op_key: str) -> str | None:
        """The id of the memory that an op key led to, or None."""
        name = (scope.key, op_key)
        if name not in self._named:
            row = self._db.row(
                f"SELECT memory_id FROM memory_keys WHERE {THE_SCOPE} AND op_key = %s", (*scope.key, op_key)
            )
            self._named[name] = None if row is None else row[0]
        return self._named[name]

    def set_named(self, scope: Scope, op_key: str, memory_id: str) -> None:
        """What `named` says from now on."""
        self._named[scope.key, op_key] = memory_id

    def forget_names(self) -> None:
        """Keys went or moved: they are asked for anew."""
        self._named.clear()

    def is_new(self, scope: Scope, digest: str) -> bool:
        """Whether it is known that no memory of the scope has the digest."""
        return (scope.key, digest) in self._asked and (scope.key, digest) not in self._digests

    def set_digest(self, scope: Scope, digest: str) -> None:
        """A memory of the scope has it."""
        self._digests.add((scope.key, digest))

    def revision(self, scope: Scope) -> tuple[int, int]:
        """The stored revision, and the one before which pages are whole."""
        if scope.key not in self._revisions:
            self._read_revisions([scope.key])()
        return self._revisions[scope.key]

    def _read_records(self, ops: Sequence[MemoryOp[Any]]) -> Callable[[], None]:
        wanted: defaultdict[str, set[str]] = defaultdict(set)
        for op in ops:
            app, ids = _ids_of(op)
            wanted[app].update(ids)
        asked = {
            app: self._db.later("SELECT memory_id, record FROM memories WHERE app = %s AND memory_id = ANY(%s)",
                                (app, sorted(ids)))
            for app, ids in wanted.items() if ids
        }  # fmt: skip

        def take() -> None:
            for app, rows in asked.items():
                self._records |= dict.fromkeys(((app, memory_id) for memory_id in wanted[app]), None)
                self._records |= {(app, memory_id): record for memory_id, record in rows()}

        return take

    def _read_revisions(self, keys: Sequence[ScopeKey]) -> Callable[[], None]:
        rows = self._db.later(
            f"SELECT {PLACE}, revision, whole_before FROM memory_scopes WHERE ({PLACE}) IN {_SCOPES}",
            columns_of({*keys, *((key[0], FLOOR, "", "") for key in keys)}, 4),
        )

        def take() -> None:
            found = {(row[0], row[1], row[2], row[3]): (row[4], row[5]) for row in rows()}
            for key in keys:
                floor = found.get((key[0], FLOOR, "", ""), (0, 0))[0]
                self._revisions[key] = found.get(key, (floor, floor))

        return take

    def _read_names(self, names: Sequence[tuple[str, ...]]) -> Callable[[], None]:
        rows = self._db.later(
            'SELECT k.app, k."user", k.agent, k.session, k.op_key, k.memory_id, m.record FROM memory_keys k '
            'LEFT JOIN memories m USING (app, memory_id) WHERE (k.app, k."user", k.agent, k.session, k.op_key) '
            f"IN {_NAMES}",
            columns_of(set(names), 5),
        )

        def take() -> None:
            self._named |= {((row[0], row[1], row[2], row[3]), row[4]): None for row in names}
            for app, user, agent, session, op_key, memory_id, record in rows():
                self._named[(app, user, agent, session), op_key] = memory_id
                self._records[app, memory_id] = record

        return take

    def _read_digests(self, digests: Sequence[tuple[str, ...]]) -> Callable[[], None]:
        rows = self._db.later(
            f"SELECT DISTINCT {PLACE}, digest FROM memories WHERE ({PLACE}, digest) IN {_NAMES}",
            columns_of(set(digests), 5),
        )

        def take() -> None:
            self._asked |= {((row[0], row[1], row[2], row[3]), row[4]) for row in digests}
            self._digests |= {((row[0], row[1], row[2], row[3]), row[4]) for row in rows()}

        return take


def _ids_of(op: Any) -> tuple[str, list[str]]:
    """The app and the ids of memories that an op names."""
    scopes = scopes_of(op) or ()
    app: str = scopes[0].app if scopes else getattr(op, "app", None) or ""
    match op:
        case AddMemory():
            return app, [op.memory.memory_id, *op.similar, *op.replaces]
        case UpdateMemory() | MemoryHistory():
            return app, [op.memory_id]
        case MarkExtracted():
            return app, [memory_id for memory_id, _ in op.turns]
        case UseMemories():
            return app, list(op.counts)
        case IndexMemories():
            return app, [indexed.memory_id for indexed in op.indexed]
        case GetMemories() | ForgetMemories() | RestoreMemories() | EraseMemories():
            return app, list(op.ids or ())
        case _:
            return app, []
