"""Slots on a Redis or Valkey server, for any number of machines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from offprompt.errors import UsageError
from offprompt.protocols import Clock
from offprompt.protocols.sealing import Resealed, ResealWork
from offprompt.records import Event, Finding, Reached, Scope, SlotOp, SweepSlots
from offprompt.records.tables import SLOT_TABLES, TABLES, Row
from offprompt.stores._forks import follow
from offprompt.stores._redis_check import check_server, log_id, open_store, scour_server
from offprompt.stores._redis_connection import RedisServer
from offprompt.stores._redis_coordination import RedisCoordinator
from offprompt.stores._redis_portable import RedisRows, check_table
from offprompt.stores._redis_rows import Keys, entry_after, event_at
from offprompt.stores._redis_slots import RedisTable
from offprompt.stores._redis_step import RedisStep
from offprompt.stores._redis_url import parse_redis_url
from offprompt.stores._sealed_slots import sealed_slots
from offprompt.stores._sealing import Sealing
from offprompt.stores._slot_ops import is_read, run_ops
from offprompt.stores._touches import Touch, Touches

R = TypeVar("R")

PAGE = 1000
SWEPT_AT_ONCE = 500
"""Slots that one step of a sweep removes at most: a script holds up everybody else."""


class RedisStore(Sealing):
    """SlotStore, Checkable and Portable on one Redis (7 or newer) or Valkey server, or a primary with replicas.

    url             `redis://[user[:password]@]host[:port][/db][?prefix=offprompt]`; `rediss`, `valkey`, `valkeys` too.
    busy_timeout_s  seconds for which a step is tried again while others change what it read, and for which a write
                    whose connection broke is asked after; then BackendError.
    Transactions    a batch is one Lua script that runs only if what the batch read is still so: no owner (user, agent,
                    session, app) has changed meanwhile. A sweep is one for each 500 slots.
    Durability      the server's: see `check`. A write whose connection breaks is asked after: it is stored and
                    acknowledged, or was not and is written anew; never twice.
    Expiry          by this clock alone: the server removes nothing by itself, the sweep does.
    Touching reads  as in the SQLite engine: kept back until this object's next change, `flush` or `close`.
    Events          a log that waits to be moved to the memories' engine; see `CombinedSlots`.
    Raises          UnsupportedError for a server that is too old, a cluster, or without the Redis client;
                    BackendError if it may evict keys, does not answer, refuses the user, or is a replica.
    """

    def __init__(self, url: str, *, clock: Clock, busy_timeout_s: float = 60.0) -> None:
        self._clock = clock
        self._server = RedisServer(parse_redis_url(url), busy_timeout_s=busy_timeout_s)
        self._keys = Keys(self._server.url.prefix)
        self._touches = Touches()
        self._rows = RedisRows(self._server, self._keys)
        self._start()
        open_store(self._server, self._keys)
        follow(self)

    def batch(self, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        """See SlotStore."""
        if not ops:
            return []
        if is_read(ops):
            results, touches = self._server.anew(lambda: self._read(ops))
            if touches and self._touches.add(touches):
                self.flush()
            return results
        if len(ops) == 1 and isinstance(ops[0], SweepSlots) and not ops[0].spared:
            return [self._sweep(ops[0])]
        return self._write(lambda table: self._run(table, ops), ops)

    def events(
        self, *, scope: Scope | None = None, op: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[Event]:
        """See SlotStore: those that wait to be moved."""
        self.flush()
        found: list[Event] = []
        while len(found) < limit:
            page = self.log_page(after)
            found += [
                event for event in page if (scope is None or scope.holds(event.scope)) and event.op.startswith(op or "")
            ]
            if len(page) < PAGE:
                break
            after = page[-1].seq
        return found[: max(0, limit)]

    @property
    def log_id(self) -> str:
        """The log's name; asked of the server each time, which may have lost its data meanwhile."""
        self._check_open()
        return log_id(self._server, self._keys)

    def log_page(self, after: int) -> list[Event]:
        """The next events of the log, at most 1000."""
        self._check_open()
        entries = self._server.call("XRANGE", self._keys.log, entry_after(after), "+", "COUNT", PAGE)
        return [event_at(entry_id, fields[1]) for entry_id, fields in entries]

    def drop_events(self, upto: int) -> None:
        """Remove the events of the log with seq ≤ upto: they are stored elsewhere."""
        self._check_open()
        self._server.call("XTRIM", self._keys.log, "MINID", entry_after(upto))

    def flush(self) -> None:
        """See SlotStore."""
        self._check_open()
        if self._touches.waiting():
            self._write(lambda _: None, waits=True)

    def close(self) -> None:
        """See SlotStore."""
        if not self._server.is_closed:
            try:
                self.flush()
            finally:
                self._server.close()

    def check(self, *, fix: bool = False) -> list[Finding]:  # noqa: ARG002 - there is nothing to mend
        """See Checkable."""
        self.flush()
        return check_server(self._server, self._keys, self._clock.now())

    def scour(self) -> Reached:
        """See Scourable."""
        return scour_server(self._server)

    def tables(self) -> tuple[str, ...]:
        """See Portable. Its events are moved to the memories' engine instead."""
        return SLOT_TABLES

    def scan(self, table: str, *, after: Row | None = None, limit: int = 1000) -> list[Row]:
        """See Portable. Some scopes are of one moment, not all of them."""
        check_table(table)
        self.flush()
        rows = self._rows.scan(table, after, limit)
        while self._sealer is not None and rows:
            # Rows that nobody can open are none; there may be others behind a page of them.
            if opened := self._rows_for(_no_scope).opened(table, rows):
                return opened
            rows = self._rows.scan(table, TABLES[table].key_of(rows[-1]), limit)
        return rows

    def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        """See Portable. The rows of `slots` come first."""
        check_table(table)
        self._rows.put(table, rows if self._sealer is None else self._rows_for(_no_scope).sealed(table, rows))

    def reseal(self, table: str, work: ResealWork, *, after: Row | None = None, limit: int = 500) -> Resealed:
        """See Sealable. A page is whole scopes."""
        check_table(table)
        self.flush()
        return self._rows.reseal(table, work, self._rows_for(_no_scope), after, limit)

    def clear_rows(self, table: str) -> None:
        """See Portable. Some scopes at a time."""
        check_table(table)
        self._rows.clear(table)

    def coordinator(self) -> RedisCoordinator:
        """A Coordinator on the same server, as long as this store is open."""
        return RedisCoordinator(self._server, self._clock)

    def before_fork(self) -> None:
        """See Forkable. Nothing to wait for: connections know their process."""

    def after_fork(self, *, in_child: bool) -> None:
        """See Forkable."""
        if in_child:
            self._start()

    def _start(self) -> None:
        self._carrying = threading.Lock()

    def _check_open(self) -> None:
        if self._server.is_closed:
            raise UsageError("this store is closed; open it again")

    def _read(self, ops: Sequence[SlotOp[Any]]) -> tuple[list[Any], list[Touch]]:
        table = RedisTable(RedisStep(self._server, self._keys), self._touches)
        table.look_ahead(ops)
        return run_ops(sealed_slots(table, self._sealer), ops, self._clock.now()), table.touches

    def _run(self, table: RedisTable, ops: Sequence[SlotOp[Any]]) -> list[Any]:
        return run_ops(sealed_slots(table, self._sealer), ops, self._clock.now())

    def _sweep(self, op: SweepSlots) -> int:
        swept = 0
        while True:
            (count,) = self._write(lambda table: self._run(table, [op]), at_once=SWEPT_AT_ONCE)
            swept += count
            if count < SWEPT_AT_ONCE:
                return swept

    def _write(
        self,
        work: Callable[[RedisTable], R],
        ops: Sequence[SlotOp[Any]] = (),
        *,
        waits: bool = False,
        at_once: int | None = None,
    ) -> R:
        """One step, with the uses that wait unless another thread is storing them just now, and nobody `waits`."""
        carries = self._carrying.acquire(blocking=waits)
        try:
            waiting = self._touches.waiting() if carries else []

            def step() -> R:
                made = RedisStep(self._server, self._keys)
                table = RedisTable(made, None, at_once=at_once)
                table.look_ahead(ops)
                table.store_touches(waiting)
                result = work(table)
                made.commit()
                return result

            result = self._server.anew(step)
            self._touches.drop(len(waiting))
            return result
        finally:
            if carries:
                self._carrying.release()


def _no_scope(_app: str, _memory_id: str) -> None:
    """Rows of slots tell their scope."""
