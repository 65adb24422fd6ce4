"""The engine that ends with the process; the other engines are tested against it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from offprompt.errors import UsageError
from offprompt.protocols import Clock
from offprompt.records import (
    RULES,
    Body,
    Event,
    JournalEntry,
    LedgerEntry,
    MemoryOp,
    Scope,
    SessionChange,
    SessionRecord,
    Slot,
    SlotOp,
    SlotVersion,
    fold_name,
)
from offprompt.stores import _rules as rules
from offprompt.stores import _session_rules as session_rules
from offprompt.stores._blobs import decode, encode
from offprompt.stores._forks import follow
from offprompt.stores._memory_ops import run_memory_ops
from offprompt.stores._memory_rows import MemoryRows
from offprompt.stores._slot_ops import run_ops

Key: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Row:
    """A slot as kept, with its versions, oldest first, each with the key of the write that made it."""

    slot: Slot
    versions: tuple[tuple[SlotVersion, str | None], ...]


@dataclass(frozen=True, slots=True)
class _Session:
    """A session as kept: texts, so that nobody holds what is stored."""

    record: str
    revision: int
    used_at: float
    journal: dict[str, str] = field(default_factory=dict[str, str])
    bodies: dict[str, str] = field(default_factory=dict[str, str])
    ledger: dict[int, str] = field(default_factory=dict[int, str])


class InProcessStore:
    """SlotStore, MemoryStore and SessionStore in memory. Thread-safe; durability: none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._table = _Table()
        self._memories = MemoryRows(self._table.log)
        self._sessions: dict[Key, _Session] = {}
        self._keys: dict[tuple[str, str, str], bytes] = {}
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
                for event in self._table.events[max(0, after) :]
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
            return self._keys.setdefault(session_rules.key_owner(scope), session_rules.new_key())

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
            kept = _Session(encode(record), record.revision, record.used_at, journal, bodies, ledger)
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


class _Table:
    """Slots by scope and folded name; what a batch changed can be taken back."""

    def __init__(self) -> None:
        self.scopes: dict[Key, dict[str, _Row]] = {}
        self.events: list[Event] = []
        self._undo: list[tuple[Key, str, _Row | None]] = []

    def mark(self) -> int:
        """Begin a batch: what `back_to` takes."""
        self._undo.clear()
        return len(self.events)

    def back_to(self, mark: int) -> None:
        """Take back all since the mark."""
        del self.events[mark:]
        for key, folded, row in reversed(self._undo):
            self._place(key, folded, row)
        self._undo.clear()

    def load(self, scope: Scope, folded: str) -> Slot | None:
        row = self.scopes.get(scope.key, {}).get(folded)
        return _copy(row.slot) if row is not None else None

    def marks(self, scope: Scope, folded: str) -> list[rules.Mark]:
        row = self.scopes.get(scope.key, {}).get(folded)
        return [rules.Mark(kept.version, kept.trust, op_key) for kept, op_key in row.versions] if row else []

    def versions(self, scope: Scope, folded: str) -> list[SlotVersion]:
        row = self.scopes.get(scope.key, {}).get(folded)
        return [replace(kept, value=copy.deepcopy(kept.value)) for kept, _ in row.versions] if row else []

    def count_live(self, scope: Scope, now: float) -> int:
        slots = [row.slot for row in self.scopes.get(scope.key, {}).values()]
        return sum(rules.is_live(slot, now) and slot.actor != RULES for slot in slots)

    def rows(self, scope: Scope, *, subtree: bool) -> list[Slot]:
        if not subtree:
            return [_copy(row.slot) for row in self.scopes.get(scope.key, {}).values()]
        keys = [key for key in self.scopes if scope.holds(Scope.from_key(key))]
        return [_copy(row.slot) for key in keys for row in self.scopes[key].values()]

    def over(self, app: str | None, *, now: float, hidden_before: float) -> list[tuple[Scope, str]]:
        return [
            (row.slot.scope, folded)
            for key, rows in self.scopes.items()
            if app is None or key[0] == app
            for folded, row in rows.items()
            if rules.is_expired(row.slot, now)
            or (row.slot.forgotten_at is not None and row.slot.forgotten_at <= hidden_before)
        ]

    def put(self, folded: str, planned: rules.PlannedPut) -> None:
        slot = _copy(planned.slot)
        version = SlotVersion(
            slot.version, slot.value, slot.policy, slot.trust, slot.source, slot.actor, slot.updated_at, slot.bytes
        )
        old = None if planned.fresh else self.scopes.get(slot.scope.key, {}).get(folded)
        kept = [item for item in (old.versions if old is not None else ()) if item[0].version not in planned.drop]
        self._set(slot.scope.key, folded, _Row(slot, (*kept, (version, planned.op_key))))

    def show(self, slot: Slot, outcome: rules.Outcome) -> None:
        folded = fold_name(slot.name)
        row = self.scopes[slot.scope.key][folded]
        *before, (current, op_key) = row.versions
        self._set(slot.scope.key, folded, _Row(_copy(slot), (*before, (replace(current, outcome=outcome), op_key))))

    def guard(self, slot: Slot) -> None:
        folded = fold_name(slot.name)
        row = self.scopes[slot.scope.key][folded]
        self._set(slot.scope.key, folded, replace(row, slot=_copy(slot)))

    def touch(self, before: Slot, after: Slot, event: Event) -> None:
        folded = fold_name(before.name)
        row = self.scopes[after.scope.key][folded]
        self._set(after.scope.key, folded, replace(row, slot=_copy(after)))
        self.log([event])

    def miss(self, event: Event) -> None:
        self.log([event])

    def remove(self, scope: Scope, folded: str) -> None:
        self._set(scope.key, folded, None)

    def move(self, slot: Slot, to: Scope) -> None:
        folded = fold_name(slot.name)
        row = self.scopes[slot.scope.key][folded]
        self._set(slot.scope.key, folded, None)
        self._set(to.key, folded, replace(row, slot=replace(row.slot, scope=to)))

    def log(self, events: Sequence[Event]) -> None:
        for event in events:
            self.events.append(replace(event, seq=len(self.events) + 1))

    def _set(self, key: Key, folded: str, row: _Row | None) -> None:
        self._undo.append((key, folded, self.scopes.get(key, {}).get(folded)))
        self._place(key, folded, row)

    def _place(self, key: Key, folded: str, row: _Row | None) -> None:
        if row is not None:
            self.scopes.setdefault(key, {})[folded] = row
        elif key in self.scopes:
            self.scopes[key].pop(folded, None)
            if not self.scopes[key]:
                del self.scopes[key]


def _copy(slot: Slot) -> Slot:
    return replace(slot, value=copy.deepcopy(slot.value), schema=copy.deepcopy(slot.schema))
