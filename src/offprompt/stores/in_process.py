"""The engine that ends with the process; the other engines are tested against it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from offprompt.errors import UsageError
from offprompt.protocols import Clock
from offprompt.records import (
    Body,
    Event,
    JournalEntry,
    LedgerEntry,
    MemoryOp,
    Scope,
    SessionChange,
    SessionRecord,
    SlotOp,
)
from offprompt.records.erasure import owner_of
from offprompt.records.scope import key_owner
from offprompt.records.tables import TABLES, Row
from offprompt.stores import _session_rules as session_rules
from offprompt.stores._blobs import decode, encode
from offprompt.stores._forks import follow
from offprompt.stores._in_process_tables import InProcessTables
from offprompt.stores._memory_ops import run_memory_ops
from offprompt.stores._memory_rows import MemoryRows
from offprompt.stores._parting import masked
from offprompt.stores._session_rows import KeptSession
from offprompt.stores._slot_ops import run_ops
from offprompt.stores._slot_rows import Key, SlotRows


class InProcessStore:
    """SlotStore, MemoryStore and SessionStore in memory. Thread-safe; durability: none.

    vector_queue  whether changes of memories wait for a vector index that lies elsewhere.
    """

    def __init__(self, clock: Clock, *, vector_queue: bool = False) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._table = SlotRows()
        self._memories = MemoryRows(self._table.log, vector_queue)
        self._sessions: dict[Key, KeptSession] = {}
        self._keys: dict[tuple[str, str, str], bytes] = {}
        self._tables = InProcessTables(self._table, self._memories, self._sessions, self._keys)
        self._notes: dict[str, str] = {}
        self._is_closed = False
        follow(self)

    def batch(self, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        """See SlotStore."""
        with self._open():
            mark = self._table.mark()
            try:
                return run_ops(self._table, ops, self._clock.now())
            except BaseException:
                self._table.back_to(mark)
                raise

    def apply(self, ops: Sequence[MemoryOp[Any]]) -> list[Any]:
        """See MemoryStore."""
        with self._open():
            mark = self._table.mark()
            self._memories.begin()
            try:
                return run_memory_ops(self._memories, ops, self._clock.now())
            except BaseException:
                self._memories.take_back()
                self._table.back_to(mark)
                raise

    def events(
        self, *, scope: Scope | None = None, op: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[Event]:
        """See SlotStore."""
        with self._open():
            found = (
                event
                for event in self._table.events_after(after)
                if (scope is None or scope.holds(event.scope)) and event.op.startswith(op or "")
            )
            return [event for event, _ in zip(found, range(max(0, limit)), strict=False)]

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """See SlotStore."""
        self._is_closed = True

    def digest_key(self, scope: Scope) -> bytes:
        """See SessionStore."""
        with self._open():
            return self._keys.setdefault(key_owner(scope), session_rules.new_key())

    def load(self, scope: Scope) -> SessionRecord | None:
        """See SessionStore."""
        with self._open():
            kept = self._sessions.get(scope.key)
            return decode(kept.record, SessionRecord) if kept is not None else None

    def commit(self, change: SessionChange) -> None:
        """See SessionStore."""
        record = change.record
        with self._open():
            old = self._sessions.get(record.scope.key)
            session_rules.check_commit(record, old.revision if old is not None else 0)
            journal = dict(old.journal) if old is not None else {}
            bodies = dict(old.bodies) if old is not None else {}
            ledger = dict(old.ledger) if old is not None else {}
            for entry in change.journal:
                there = journal.get(entry.key)
                journal[entry.key] = encode(
                    replace(entry, seq=len(journal) + 1)
                    if there is None
                    else session_rules.merged(decode(there, JournalEntry), entry)
                )
            for body in change.bodies:
                bodies.setdefault(body.body_id, encode(body))
            for entry in change.ledger:
                if entry.seq in ledger:
                    raise session_rules.twice(entry, record.scope)
                ledger[entry.seq] = encode(entry)
            kept = KeptSession(encode(record), record.revision, record.used_at, journal, bodies, ledger)
            self._sessions[record.scope.key] = kept
            self._table.log(change.events)

    def journal(self, scope: Scope, *, after: int = 0) -> list[JournalEntry]:
        """See SessionStore."""
        with self._open():
            kept = self._sessions.get(scope.key)
            texts = list(kept.journal.values())[max(0, after) :] if kept is not None else []
            return [decode(text, JournalEntry) for text in texts]

    def body(self, scope: Scope, body_id: str) -> Body | None:
        """See SessionStore."""
        with self._open():
            kept = self._sessions.get(scope.key)
            text = kept.bodies.get(body_id) if kept is not None else None
            return decode(text, Body) if text is not None else None

    def bodies(self, scope: Scope) -> list[Body]:
        """See SessionStore."""
        with self._open():
            kept = self._sessions.get(scope.key)
            return [decode(text, Body) for text in kept.bodies.values()] if kept is not None else []

    def ledger(self, scope: Scope) -> list[LedgerEntry]:
        """See SessionStore."""
        with self._open():
            kept = self._sessions.get(scope.key)
            return [decode(kept.ledger[seq], LedgerEntry) for seq in sorted(kept.ledger)] if kept is not None else []

    def sessions(self, scope: Scope | None = None) -> list[SessionRecord]:
        """See SessionStore."""
        with self._open():
            chosen = [key for key in self._sessions if scope is None or scope.holds(Scope.from_key(key))]
            chosen.sort(key=lambda key: (-self._sessions[key].used_at, key))
            return [decode(self._sessions[key].record, SessionRecord) for key in chosen]

    def drop_sessions(self, *, scope: Scope | None = None, idle_before: float | None = None) -> int:
        """See SessionStore."""
        with self._open():
            gone = [
                key
                for key, kept in self._sessions.items()
                if (scope is None or scope.holds(Scope.from_key(key)))
                and (idle_before is None or kept.used_at < idle_before)
            ]
            for key in gone:
                del self._sessions[key]
            return len(gone)

    def part_with(self, scope: Scope, pseudonym: str) -> int:
        """See Store."""
        with self._open():
            kind, value = owner_of(scope)
            self._keys.pop((scope.app, kind, value), None)
            self._memories.part_with(scope)
            found = [at for at, event in enumerate(self._table.events) if scope.holds(event.scope)]
            for at in found:
                self._table.events[at] = masked(self._table.events[at], scope, pseudonym)
            return len(found)

    def tables(self) -> tuple[str, ...]:
        """See Portable."""
        return tuple(TABLES)

    def scan(self, table: str, *, after: Row | None = None, limit: int = 1000) -> list[Row]:
        """See Portable."""
        with self._open():
            return self._tables.scan(TABLES[table], after)[:limit]

    def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        """See Portable."""
        with self._open():
            self._tables.put(table, rows)

    def clear_rows(self, table: str) -> None:
        """See Portable."""
        with self._open():
            self._tables.clear(table)

    def note(self, name: str) -> str | None:
        """See Notes."""
        with self._open():
            return self._notes.get(name)

    def set_note(self, name: str, text: str | None, *, was: str | None, events: Sequence[Event] = ()) -> bool:
        """See Notes."""
        with self._open():
            if self._notes.get(name) != was:
                return False
            self._notes.pop(name, None)
            if text is not None:
                self._notes[name] = text
            self._table.log(events)
            return True

    def notes(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """See Notes."""
        with self._open():
            return sorted(pair for pair in self._notes.items() if pair[0].startswith(prefix) and pair[0] > after)[
                :limit
            ]

    def drop_notes(self, known: Sequence[tuple[str, str]]) -> int:
        """See Notes."""
        with self._open():
            dropped = [name for name, text in known if self._notes.get(name) == text]
            for name in dropped:
                del self._notes[name]
            return len(dropped)

    def before_fork(self) -> None:
        """See Forkable."""
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:  # noqa: ARG002 - the same in both: a child has a store of its own
        """See Forkable."""
        self._lock.release()

    def _open(self) -> threading.RLock:
        if self._is_closed:
            raise UsageError("this store is closed; open it again")
        return self._lock
