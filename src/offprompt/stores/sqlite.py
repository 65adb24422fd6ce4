"""The default engine: one SQLite file, any number of threads and processes."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from offprompt.protocols import Clock
from offprompt.protocols.sealing import Resealed, ResealWork
from offprompt.records import (
    Body,
    EraseMemories,
    EraseSlots,
    Event,
    Finding,
    JournalEntry,
    LedgerEntry,
    MemoryOp,
    Reached,
    Scope,
    SessionChange,
    SessionRecord,
    SlotOp,
)
from offprompt.records.tables import TABLES, Row
from offprompt.stores import _sqlite_copies as copies
from offprompt.stores import _sqlite_erasing as erasing
from offprompt.stores import _sqlite_portable as portable
from offprompt.stores import _sqlite_sessions as sessions
from offprompt.stores._memory_ops import is_memory_read, run_memory_ops
from offprompt.stores._sealed_memories import sealed_memories
from offprompt.stores._sealed_sessions import (
    is_lost,
    opened_all,
    opened_body,
    opened_entry,
    opened_one,
    record_of,
    records_in,
    sealed_change,
)
from offprompt.stores._sealed_slots import sealed_slots
from offprompt.stores._sealing import Sealing, digest_key
from offprompt.stores._slot_ops import is_read, run_ops
from offprompt.stores._sqlite_check import check_store
from offprompt.stores._sqlite_connection import Connections, Durability
from offprompt.stores._sqlite_memories import SqliteMemories
from offprompt.stores._sqlite_slots import SqliteTable
from offprompt.stores._touches import Touch, Touches

R = TypeVar("R")


class SqliteStore(Sealing):
    """Store and Maintainable in one SQLite file with a write-ahead log.

    path            made with its folders if it is not there: 0600 in 0700. Never on a network drive.
    durability      `full`: a write that returned is on disk (synchronous=FULL). `process`: it survives a killed
                    process; a power loss may take the last ones (synchronous=NORMAL).
    busy_timeout_s  seconds to wait for other writers at each call, before BackendError.
    Touching reads  leave uses, used_at and their events in memory: stored with this object's next change, when 256
                    wait, by `flush` and by `close`; a killed process loses what waits. A sliding slot's new expiry is
                    stored at once when it gains 1/32 of ttl_s or more, so other processes see it at most that late.
    vector_queue    whether changes of memories wait for a vector index that lies elsewhere.
    Erase           overwrites what it removes, and empties the write-ahead log unless others are using it just then.
    Raises          BackendError if the file cannot be used: another program's, a newer format, no rights.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock,
        durability: Durability = "full",
        busy_timeout_s: float = 60.0,
        vector_queue: bool = False,
    ) -> None:
        self.path = Path(path).absolute()
        self._clock = clock
        self._busy_timeout_s = busy_timeout_s
        self._vector_queue = vector_queue
        self._touches = Touches()
        self._db = Connections(self.path, durability=durability, busy_timeout_s=busy_timeout_s)

    def batch(self, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        """See SlotStore."""
        if not ops:
            return []
        if is_read(ops) and not self._db.is_together:
            results, touches = self._db.read(lambda connection: self._read(connection, ops))
            if touches and self._touches.add(touches):
                self._db.afterwards(self.flush)
            return results
        results = self._write(lambda connection: self._run(SqliteTable(connection, None), ops))
        if any(isinstance(op, EraseSlots) for op in ops):
            self._db.afterwards(self._empty_log)
        return results

    def apply(self, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        """See MemoryStore."""
        if not ops:
            return []

        def work(connection: sqlite3.Connection) -> list[Any]:
            table = SqliteMemories(connection, queues=self._vector_queue)
            return run_memory_ops(sealed_memories(table, self._sealer), ops, self._clock.now())

        if is_memory_read(ops):
            return self._db.read(work)
        results = self._write(work)
        if any(isinstance(op, EraseMemories) for op in ops):
            self._db.afterwards(self._empty_log)
        return results

    def events(
        self, *, scope: Scope | None = None, op: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[Event]:
        """See SlotStore. What this object kept back is stored first."""
        self.flush()
        return self._db.read(lambda connection: SqliteTable(connection, None).events(scope, op, after, limit))

    def flush(self) -> None:
        """See SlotStore."""
        if self._touches.waiting():
            self._write(lambda _: None)

    def close(self) -> None:
        """See SlotStore."""
        if not self._db.is_closed:
            try:
                self.flush()
            finally:
                self._db.close()
                if self._sealer is not None:
                    self._sealer.close()

    def digest_key(self, scope: Scope) -> bytes:
        """See SessionStore."""
        return digest_key(
            scope,
            self._sealer,
            lambda: self._db.read(lambda connection: sessions.digest_key(connection, scope)),
            lambda new, lost: self._write(lambda connection: sessions.make_digest_key(connection, scope, new, lost)),
        )

    def load(self, scope: Scope) -> SessionRecord | None:
        """See SessionStore."""
        row = self._db.read(lambda connection: sessions.load(connection, scope))
        return opened_one(row, self._sealer, record_of(scope))

    def commit(self, change: SessionChange) -> None:
        """See SessionStore."""
        sealed = sealed_change(change, self._sealer)

        def work(connection: sqlite3.Connection) -> None:
            scope, is_first = sealed.record.scope, sealed.record.revision == 1
            if is_first and self._sealer is not None and is_lost(sessions.load(connection, scope), self._sealer):
                sessions.drop_one(connection, scope)
            sessions.commit(connection, sealed)
            SqliteTable(connection, None).log(change.events)

        self._write(work)

    def journal(self, scope: Scope, *, after: int = 0) -> list[JournalEntry]:
        """See SessionStore."""
        rows = self._db.read(lambda connection: sessions.journal(connection, scope, after))
        return opened_all(rows, self._sealer, opened_entry(scope))

    def body(self, scope: Scope, body_id: str) -> Body | None:
        """See SessionStore."""
        row = self._db.read(lambda connection: sessions.body(connection, scope, body_id))
        return opened_one(row, self._sealer, opened_body(scope))

    def bodies(self, scope: Scope) -> list[Body]:
        """See SessionStore."""
        rows = self._db.read(lambda connection: sessions.bodies(connection, scope))
        return opened_all(rows, self._sealer, opened_body(scope))

    def ledger(self, scope: Scope) -> list[LedgerEntry]:
        """See SessionStore."""
        return self._db.read(lambda connection: sessions.ledger(connection, scope))

    def sessions(self, scope: Scope | None = None) -> list[SessionRecord]:
        """See SessionStore."""
        rows = self._db.read(lambda connection: sessions.sessions(connection, scope))
        return opened_all(rows, self._sealer, records_in(scope))

    def drop_sessions(self, *, scope: Scope | None = None, idle_before: float | None = None) -> int:
        """See SessionStore."""
        dropped = self._write(lambda connection: sessions.drop(connection, scope, idle_before))
        self._db.afterwards(self._empty_log)
        return dropped

    def part_with(self, scope: Scope, pseudonym: str) -> int:
        """See Store."""
        count = self._write(lambda connection: erasing.part_with(connection, scope, pseudonym))
        self._db.afterwards(self._empty_log)
        return count

    def scour(self) -> Reached:
        """See Scourable."""
        return self._db.bare(erasing.scour)

    def traces(self, texts: Sequence[bytes]) -> list[Finding]:
        """See Traceable."""
        self.flush()
        return self._db.bare(lambda connection: erasing.traces(connection, self.path, texts))

    def backup(self, target: str, *, overwrite: bool = False) -> int:
        """See Maintainable."""
        self.flush()
        return self._db.bare(lambda connection: copies.backup(connection, self.path, Path(target), overwrite=overwrite))

    def restore(self, source: str, *, force: bool = False) -> None:
        """See Maintainable."""
        deadline = time.monotonic() + self._busy_timeout_s

        def work(connection: sqlite3.Connection) -> None:
            keyring = "" if self._sealer is None else self._sealer.id
            copies.restore(
                connection,
                self.path,
                Path(source),
                force=force,
                keyring=keyring,
                is_late=lambda: time.monotonic() > deadline,
            )

        self._db.bare(work)

    def check(self, *, fix: bool = False) -> list[Finding]:
        """See Maintainable."""
        self.flush()
        return self._db.bare(lambda connection: check_store(connection, self.path, self._clock.now(), fix=fix))

    def tables(self) -> tuple[str, ...]:
        """See Portable."""
        return tuple(TABLES)

    def scan(self, table: str, *, after: Row | None = None, limit: int = 1000) -> list[Row]:
        """See Portable."""
        self.flush()

        def work(connection: sqlite3.Connection) -> list[Row]:
            rows = portable.scan(connection, table, after, limit)
            if self._sealer is None:
                return rows
            sealed = self._rows_for(partial(portable.scope_of, connection))
            while rows:
                # Rows that nobody can open are none; there may be others behind a page of them.
                if opened := sealed.opened(table, rows):
                    return opened
                rows = portable.scan(connection, table, TABLES[table].key_of(rows[-1]), limit)
            return []

        return self._db.read(work)

    def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        """See Portable."""

        def work(connection: sqlite3.Connection) -> None:
            sealed = rows
            if self._sealer is not None:
                sealed = self._rows_for(partial(portable.scope_of, connection)).sealed(table, rows)
            portable.put_rows(connection, table, sealed)

        self._write(work)

    def reseal(self, table: str, work: ResealWork, *, after: Row | None = None, limit: int = 500) -> Resealed:
        """See Sealable."""
        self.flush()

        def whole(connection: sqlite3.Connection) -> Resealed:
            rows = portable.scan(connection, table, after, limit)
            page = self._rows_for(partial(portable.scope_of, connection)).looked_at(table, rows, work)
            portable.put_rows(connection, table, page.changed)
            for row in page.gone:
                portable.remove_row(connection, table, row)
            return page.result(TABLES[table].key_of(rows[-1]) if len(rows) == limit else None)

        return self._db.read(whole) if work == "look" else self._write(whole)

    def clear_rows(self, table: str) -> None:
        """See Portable."""
        self._write(lambda connection: portable.clear_rows(connection, table))

    def note(self, name: str) -> str | None:
        """See Notes."""
        return self._db.read(lambda connection: portable.note(connection, name))

    def set_note(self, name: str, text: str | None, *, was: str | None, events: Sequence[Event] = ()) -> bool:
        """See Notes."""

        def work(connection: sqlite3.Connection) -> bool:
            is_set = portable.set_note(connection, name, text, was)
            if is_set:
                SqliteTable(connection, None).log(events)
            return is_set

        return self._write(work)

    def notes(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """See Notes."""
        return self._db.read(lambda connection: portable.notes(connection, prefix, after, limit))

    def drop_notes(self, known: Sequence[tuple[str, str]]) -> int:
        """See Notes."""
        return self._write(lambda connection: portable.drop_notes(connection, known))

    @contextmanager
    def together(self) -> Generator[None]:
        """One transaction for all that this thread asks for within; see `service.quick`."""
        with self._db.together():
            waiting = self._touches.waiting()
            self._db.write(lambda connection: SqliteTable(connection, None).store_touches(waiting))
            self._db.afterwards(lambda: self._touches.drop(len(waiting)))
            yield

    def at_once(self, later: Callable[[Callable[[], object]], object]) -> AbstractContextManager[None]:
        """One moment for all that this thread reads within, without waiting; see `service.quick`."""
        return self._db.at_once(later)

    def _empty_log(self) -> None:
        self._db.bare(copies.empty_log)

    def _read(self, connection: sqlite3.Connection, ops: Sequence[SlotOp[Any]]) -> tuple[list[Any], list[Touch]]:
        table = SqliteTable(connection, self._touches)
        return self._run(table, ops), table.touches

    def _run(self, table: SqliteTable, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        return run_ops(sealed_slots(table, self._sealer), ops, self._clock.now())

    def _write(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """One write transaction, with the uses that wait."""
        if self._db.is_together:
            return self._db.write(work)

        def whole(connection: sqlite3.Connection) -> tuple[R, int]:
            waiting = self._touches.waiting()
            SqliteTable(connection, None).store_touches(waiting)
            return work(connection), len(waiting)

        result, _ = self._db.write(whole, after=lambda done: self._touches.drop(done[1]))
        return result
