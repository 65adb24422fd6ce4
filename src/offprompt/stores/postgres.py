"""The PostgreSQL engine: any number of processes and machines on one database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from offprompt.protocols import Clock
from offprompt.protocols.sealing import Resealed, ResealWork
from offprompt.records import (
    Body,
    Event,
    Finding,
    GetSlot,
    JournalEntry,
    LedgerEntry,
    MemoryOp,
    Reached,
    Scope,
    SessionChange,
    SessionRecord,
    SlotOp,
    Sought,
    SweepMemories,
    SweepSlots,
    UserOf,
    WordHits,
)
from offprompt.records.scope import key_owner
from offprompt.records.tables import TABLES, Row
from offprompt.stores import _pg_erasing as erasing
from offprompt.stores import _pg_portable as portable
from offprompt.stores import _pg_sessions as sessions
from offprompt.stores import _pg_words as words
from offprompt.stores._memory_ops import is_memory_read, run_memory_ops
from offprompt.stores._pg_address import parse_address
from offprompt.stores._pg_check import check_store
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_locks import (
    WHOLE_STORE,
    Locks,
    apps_of,
    locks_of,
    locks_of_events,
    locks_of_scope,
)
from offprompt.stores._pg_memories import ElsewhereError, PgMemories
from offprompt.stores._pg_slots import PgSlots
from offprompt.stores._pg_transactions import Database, Durability
from offprompt.stores._pg_vector_table import without_graph
from offprompt.stores._pg_vectors import PgVectors
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
from offprompt.stores._touches import Touch, Touches

R = TypeVar("R")

SWEEP_ROWS: Final = 500
"""Rows that a sweep removes in one transaction: it holds an app's lock, or the store's, meanwhile."""


class PostgresStore(Sealing):
    """A Store, WordIndex and Checkable in a schema of a PostgreSQL database, used by any number of processes.

    url             `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, with `schema`, `role`, `pool` as options of ours.
    durability      `full`: a write that returned is on the server's disk, as far as the server's own settings go.
                    `process`: it survives killed clients; a crash of the server may take the last ones.
    busy_timeout_s  seconds for a lock, for each statement, and for a call with all its tries; then BackendError.
    vector_queue    whether changes of memories wait for a vector index that lies elsewhere.
    Touching reads  as SqliteStore: uses wait for this object's next change, `flush` or `close`.
    Sweep           goes on in transactions of 500 rows, with an event for each.
    Raises          BackendError if the server cannot be used; UsageError for a URL that is none.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        durability: Durability = "full",
        busy_timeout_s: float = 60.0,
        vector_queue: bool = False,
    ) -> None:
        self._clock = clock
        self._vector_queue = vector_queue
        self._touches = Touches()
        self._storing = threading.Lock()
        self._db = Database(parse_address(url), durability=durability, timeout_s=busy_timeout_s)

    def batch(self, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        """See SlotStore."""
        if not ops:
            return []
        if is_read(ops):
            is_one = all(isinstance(op, GetSlot) for op in ops)
            results, touches = self._db.read(lambda db: self._read(db, ops), apps=apps_of(ops), is_one=is_one)
            if touches and self._touches.add(touches):
                self.flush()
            return results
        if len(ops) == 1 and isinstance(ops[0], SweepSlots) and not ops[0].spared:
            return [self._in_slices(lambda: self._run(ops, most=SWEEP_ROWS)[0])]
        return self._run(ops)

    def apply(self, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        """See MemoryStore."""
        if not ops:
            return []
        if is_memory_read(ops):
            is_one = len(ops) == 1 and isinstance(ops[0], UserOf)
            return self._db.read(lambda db: self._run_memories(db, ops, None), apps=apps_of(ops), is_one=is_one)
        if len(ops) == 1 and isinstance(ops[0], SweepMemories):
            return [self._in_slices(lambda: self._change(ops, most=SWEEP_ROWS)[0])]
        return self._change(ops)

    def events(
        self, *, scope: Scope | None = None, op: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[Event]:
        """See SlotStore. What this object kept back is stored first; so is what others are just storing."""
        self.flush()
        locks = locks_of_scope(scope, subtree=True)
        return self._db.settled(lambda db: PgSlots(db).events(scope, op, after, limit), locks)

    def flush(self) -> None:
        """See SlotStore."""
        with self._storing:
            waiting = self._touches.waiting()
            if waiting:
                self._db.write(lambda db: PgSlots(db).store_touches(waiting), _locks_of_touches(waiting))
                self._touches.drop(len(waiting))

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
        locks = locks_of_scope(scope)
        return digest_key(
            scope,
            self._sealer,
            lambda: self._db.read(lambda db: sessions.digest_key(db, scope), apps=[scope.app]),
            lambda new, lost: self._write(lambda db: sessions.make_digest_key(db, scope, new, lost), locks),
        )

    def load(self, scope: Scope) -> SessionRecord | None:
        """See SessionStore."""
        row = self._db.read(lambda db: sessions.load(db, scope), apps=[scope.app])
        return opened_one(row, self._sealer, record_of(scope))

    def commit(self, change: SessionChange) -> None:
        """See SessionStore."""
        sealed = sealed_change(change, self._sealer)

        def work(db: Statements) -> None:
            scope, is_first = sealed.record.scope, sealed.record.revision == 1
            if is_first and self._sealer is not None and is_lost(sessions.load(db, scope), self._sealer):
                sessions.drop_one(db, scope)
            sessions.commit(db, sealed)
            PgSlots(db).log(change.events)

        self._write(work, locks_of_scope(change.record.scope) | locks_of_events(change.events))

    def journal(self, scope: Scope, *, after: int = 0) -> list[JournalEntry]:
        """See SessionStore."""
        rows = self._db.read(lambda db: sessions.journal(db, scope, after), apps=[scope.app])
        return opened_all(rows, self._sealer, opened_entry(scope))

    def body(self, scope: Scope, body_id: str) -> Body | None:
        """See SessionStore."""
        row = self._db.read(lambda db: sessions.body(db, scope, body_id), apps=[scope.app])
        return opened_one(row, self._sealer, opened_body(scope))

    def bodies(self, scope: Scope) -> list[Body]:
        """See SessionStore."""
        rows = self._db.read(lambda db: sessions.bodies(db, scope), apps=[scope.app])
        return opened_all(rows, self._sealer, opened_body(scope))

    def ledger(self, scope: Scope) -> list[LedgerEntry]:
        """See SessionStore."""
        return self._db.read(lambda db: sessions.ledger(db, scope), apps=[scope.app])

    def sessions(self, scope: Scope | None = None) -> list[SessionRecord]:
        """See SessionStore."""
        rows = self._db.read(lambda db: sessions.sessions(db, scope), apps=None if scope is None else [scope.app])
        return opened_all(rows, self._sealer, records_in(scope))

    def drop_sessions(self, *, scope: Scope | None = None, idle_before: float | None = None) -> int:
        """See SessionStore."""
        return self._write(lambda db: sessions.drop(db, scope, idle_before), locks_of_scope(scope, subtree=True))

    def part_with(self, scope: Scope, pseudonym: str) -> int:
        """See Store."""
        return self._write(lambda db: erasing.part_with(db, scope, pseudonym), Locks(apps=frozenset({scope.app})))

    def scour(self) -> Reached:
        """See Scourable."""
        return self._db.read(erasing.scour, apps=[])

    def words(self, terms: Sequence[str], sought: Sought, *, limit: int) -> WordHits:
        """See WordIndex."""
        now = self._clock.now()
        return self._db.read(lambda db: words.search(db, terms, sought, limit, now), apps=[sought.scope.app])

    def beside(self, app: str, ids: Sequence[str]) -> tuple[str, ...]:
        """See WordIndex."""
        now = self._clock.now()
        return self._db.read(lambda db: words.beside(db, app, ids, now), apps=[app])

    def vectors(self, *, embedder: str, dimension: int) -> PgVectors:
        """An index of vectors in the same schema; it ends with this store."""
        return PgVectors(self._db, embedder=embedder, dimension=dimension)

    def check(self, *, fix: bool = False) -> list[Finding]:
        """See Checkable. fix: graphs of vectors are made where very large scopes lack one; it may take minutes."""
        self.flush()
        confined, now = self._db.is_confined, self._clock.now()
        if confined:
            return self._db.read(lambda db: check_store(db, now, is_confined=True), apps=())
        findings = self._db.read(lambda db: check_store(db, now, is_confined=False), apps=None)
        lacking = self._db.read(lambda db: without_graph(db, self._db.address.schema), apps=None)
        for embedder, dimension, largest in lacking:
            what = f"a scope has {largest:,} vectors of {embedder}, which are all compared by each recall"
            if fix:
                self.vectors(embedder=embedder, dimension=dimension).build_graph()
                findings.append(Finding("graph", "ok", f"{what}; now there is a graph of them"))
            else:
                findings.append(Finding("graph", "warn", what, "let doctor make a graph of them (--fix)"))
        return findings

    def tables(self) -> tuple[str, ...]:
        """See Portable."""
        return tuple(TABLES)

    def scan(self, table: str, *, after: Row | None = None, limit: int = 1000) -> list[Row]:
        """See Portable."""
        self.flush()

        def work(db: Statements) -> list[Row]:
            rows = portable.scan(db, table, after, limit)
            if self._sealer is None:
                return rows
            sealed = self._rows_for(partial(portable.scope_of, db))
            while rows:
                # Rows that nobody can open are none; there may be others behind a page of them.
                if opened := sealed.opened(table, rows):
                    return opened
                rows = portable.scan(db, table, TABLES[table].key_of(rows[-1]), limit)
            return []

        return self._db.read(work, apps=None)

    def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        """See Portable."""

        def work(db: Statements) -> None:
            sealed = rows
            if self._sealer is not None:
                sealed = self._rows_for(partial(portable.scope_of, db)).sealed(table, rows)
            portable.put_rows(db, table, sealed)

        self._write(work, WHOLE_STORE)

    def reseal(self, table: str, work: ResealWork, *, after: Row | None = None, limit: int = 500) -> Resealed:
        """See Sealable."""
        self.flush()

        def whole(db: Statements) -> Resealed:
            rows = portable.scan(db, table, after, limit)
            page = self._rows_for(partial(portable.scope_of, db)).looked_at(table, rows, work)
            if page.changed:
                portable.put_rows(db, table, page.changed)
            for row in page.gone:
                portable.remove_row(db, table, row)
            return page.result(TABLES[table].key_of(rows[-1]) if len(rows) == limit else None)

        return self._db.read(whole, apps=None) if work == "look" else self._write(whole, WHOLE_STORE)

    def clear_rows(self, table: str) -> None:
        """See Portable."""
        self._write(lambda db: portable.clear_rows(db, table), WHOLE_STORE)

    def note(self, name: str) -> str | None:
        """See Notes."""
        return self._db.read(lambda db: portable.note(db, name), apps=[])

    def set_note(self, name: str, text: str | None, *, was: str | None, events: Sequence[Event] = ()) -> bool:
        """See Notes."""

        def work(db: Statements) -> bool:
            is_set = portable.set_note(db, name, text, was)
            if is_set:
                PgSlots(db).log(events)
            return is_set

        return self._write(work, Locks(frozenset({("", "note", name)})) | locks_of_events(events))

    def notes(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """See Notes."""
        return self._db.read(lambda db: portable.notes(db, prefix, after, limit), apps=[])

    def drop_notes(self, known: Sequence[tuple[str, str]]) -> int:
        """See Notes."""
        locks = Locks(frozenset(("", "note", name) for name, _ in known))
        return self._write(lambda db: portable.drop_notes(db, known), locks)

    def _read(self, db: Statements, ops: Sequence[SlotOp[Any]]) -> tuple[list[Any], list[Touch]]:
        table = PgSlots(db, self._touches)
        table.expect(ops)
        return run_ops(sealed_slots(table, self._sealer), ops, self._clock.now()), table.touches

    def _run(self, ops: Sequence[SlotOp[Any]], *, most: int | None = None) -> list[Any]:
        def work(db: Statements) -> list[Any]:
            table = PgSlots(db, most=most)
            table.expect(ops)
            return run_ops(sealed_slots(table, self._sealer), ops, self._clock.now())

        return self._write(work, locks_of(ops))

    def _change(self, ops: Sequence[MemoryOp[Any]], *, most: int | None = None) -> list[Any]:
        locks = locks_of(ops)
        try:
            return self._write(lambda db: self._run_memories(db, ops, locks, most), locks)
        except ElsewhereError:
            whole = Locks(apps=frozenset(locks.touched() or ()), store=locks.store)
            return self._write(lambda db: self._run_memories(db, ops, whole, most), whole)

    def _run_memories(
        self, db: Statements, ops: Sequence[MemoryOp[Any]], locks: Locks | None, most: int | None = None
    ) -> list[Any]:
        table = PgMemories(db, locks, queues=self._vector_queue, most=most)
        table.expect(ops)
        results = run_memory_ops(sealed_memories(table, self._sealer), ops, self._clock.now())
        table.finish()
        return results

    def _write(self, work: Callable[[Statements], R], locks: Locks) -> R:
        """One write transaction, with the uses that wait, unless another thread is storing them."""
        if not self._touches.waiting() or not self._storing.acquire(blocking=False):
            return self._db.write(work, locks)
        try:
            waiting = self._touches.waiting()

            def whole(db: Statements) -> R:
                PgSlots(db).store_touches(waiting)
                return work(db)

            result = self._db.write(whole, locks | _locks_of_touches(waiting))
            self._touches.drop(len(waiting))
            return result
        finally:
            self._storing.release()

    def _in_slices(self, once: Callable[[], int]) -> int:
        """Sweep until nothing is left; how many in all."""
        total = 0
        while found := once():
            total += found
            if found < SWEEP_ROWS:
                break
        return total


def _locks_of_touches(waiting: Sequence[Touch]) -> Locks:
    return Locks(frozenset(key_owner(touch.event.scope) for touch in waiting))
