"""Transactions on a PostgreSQL store: tried again where that helps, and never stored twice."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, NoReturn, TypeAlias, TypeVar

from offprompt.errors import BackendError, UnsupportedError
from offprompt.stores import _pg_schema as schema
from offprompt.stores._pg_address import Address
from offprompt.stores._pg_connection import Connection, Error, Statements, connect, place_of, transact
from offprompt.stores._pg_errors import failure, may_come_back, trouble_of
from offprompt.stores._pg_locks import TAKE, Locks
from offprompt.stores._pg_pool import Pool

R = TypeVar("R")
Durability: TypeAlias = Literal["full", "process"]
Work: TypeAlias = Callable[[Statements], R]

FIRST_WAIT_S: Final = 0.005
LONGEST_WAIT_S: Final = 0.5
ABSENT_S: Final = 5.0
"""How long a server that does not answer at all is waited for: as long as a restart takes."""

MOST_TRIES: Final = 20
"""Of work that others get in the way of, or whose connection is lost each time."""

READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_IS_STORED: Final = "SELECT 1 FROM writers WHERE writer = %s AND mark = %s"
_MARK: Final = (
    "INSERT INTO writers VALUES (%s, %s, extract(epoch FROM now())) "
    "ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark, at = excluded.at"
)


@dataclass(frozen=True, slots=True)
class _Sent(Generic[R]):
    """A write whose commit went out: its mark, and what it returns if it got through."""

    writer: str
    mark: int
    result: R


class Database:
    """A PostgreSQL schema of ours.

    Reads    one snapshot each. Writes hold the locks that they name, from before they look until they are stored.
    Retries  deadlocks and lost connections; at most `timeout_s` for one call, which is the server's limit for each
             statement and lock too.
    Certain  a write whose connection is lost while it is committed has left a mark, or not: under the same locks,
             which are free when it has ended either way, the next try looks for it.
    Raises   BackendError in our words; what the work raises.

    is_confined  whether the role sees only the apps that a transaction names.
    """

    def __init__(self, address: Address, *, durability: Durability, timeout_s: float) -> None:
        self.place = place_of(address)
        self.address = address
        self._durability: Durability = durability
        self._timeout_s = timeout_s
        self.is_confined = False
        self._pool = Pool(self._connect, place=self.place, size=address.pool, wait_s=timeout_s)
        try:
            self._retry(self._prepare)
        except BaseException:
            self._pool.close()
            raise

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._pool.is_closed

    def read(self, work: Work[R], *, apps: Sequence[str] | None, is_one: bool = False) -> R:
        """The work's result, all of it on one snapshot. apps: those that it looks into; None: all.

        is_one   the work is one statement, which has a snapshot of its own: the server is waited for once.
        """

        def attempt(connection: Connection) -> R:
            if is_one and not self.is_confined:
                return work(Statements(connection))

            def whole(statements: Statements) -> R:
                self._confine(statements, apps)
                return work(statements)

            return transact(connection, READ, whole, sent=_nothing)

        return self._retry(attempt)

    def settled(self, work: Work[R], locks: Locks) -> R:
        """The work's result while no write under these locks is on its way. The first statement sees all of them."""

        def attempt(connection: Connection) -> R:
            def whole(statements: Statements) -> R:
                self._lock(statements, locks)
                return work(statements)

            return transact(connection, WRITE, whole, sent=_nothing)

        return self._retry(attempt)

    def write(self, work: Work[R], locks: Locks) -> R:
        """The work's result, once it is stored; nothing is, if it raises. The work may be run more than once."""
        pending: list[_Sent[R]] = []

        def attempt(connection: Connection) -> R:
            def whole(statements: Statements) -> _Sent[R]:
                is_locked = self._lock(statements, locks)
                if pending:
                    (before,) = pending
                    if statements.row(_IS_STORED, (before.writer, before.mark)) is not None:
                        return before
                    pending.clear()
                result = work(statements)
                mark = secrets.randbits(62)
                statements.run(_MARK, (connection.writer, mark))
                is_locked()
                return _Sent(connection.writer, mark, result)

            def sent(write: _Sent[R]) -> None:
                pending[:] = [write]

            try:
                return transact(connection, WRITE, whole, sent=sent).result
            except Error:
                if not connection.closed:
                    # The server itself said that it was not stored.
                    pending.clear()
                raise

        return self._retry(attempt, pending)

    def bare(self, work: Callable[[Connection], R]) -> R:
        """The work's result, outside any transaction and without a time limit."""
        return self._retry(work)

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.close()

    def _connect(self) -> Connection:
        return connect(self.address, answer_s=self._timeout_s, relaxed=self._durability == "process")

    def _prepare(self, connection: Connection) -> None:
        schema.prepare(connection, self.address.schema, self.place)
        self.is_confined = schema.is_confined(connection)
        schema.forget_writers(connection)

    def _lock(self, statements: Statements, locks: Locks) -> Callable[[], object]:
        """Take the locks; what is returned waits until they are held."""
        self._confine(statements, locks.touched())
        return statements.later(TAKE, locks.wanted(self.address.schema))

    def _confine(self, statements: Statements, apps: Sequence[str] | None) -> None:
        """Say which apps the transaction may see, where the role sees no others.

        Raises   UnsupportedError if it asks for all.
        """
        if not self.is_confined:
            return
        if apps is None:
            raise UnsupportedError(
                f"the role that uses {self.place} sees the apps that it names, and this asks for all; "
                "name an app, or connect as the schema's owner"
            )
        statements.run("SELECT set_config('offprompt.apps', %s, true)", (schema.array_text(apps),))

    def _retry(self, attempt: Callable[[Connection], R], pending: Sequence[_Sent[R]] = ()) -> R:
        started, pause, tries = time.monotonic(), FIRST_WAIT_S, 0
        absent_since: float | None = None
        while True:
            tries, asked = tries + 1, time.monotonic()
            connection: Connection | None = None
            try:
                with self._pool.lent() as connection:
                    return attempt(connection)
            except Error as exc:
                now = time.monotonic()
                if connection is None:
                    absent_since = absent_since if absent_since is not None else asked
                    waited, limit = now - absent_since, self._timeout_s if pending else min(ABSENT_S, self._timeout_s)
                    if not may_come_back(exc) or waited > limit:
                        self._fail(exc, pending)
                else:
                    absent_since = None
                    trouble = trouble_of(exc, is_closed=bool(connection.closed))
                    if trouble == "lost":
                        self._pool.dismiss()
                    if trouble not in ("again", "lost") or tries >= MOST_TRIES or now - started > self._timeout_s:
                        self._fail(exc, pending)
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - spreads waiters, guards nothing
            pause = min(pause * 1.5, LONGEST_WAIT_S)

    def _fail(self, exc: Error, pending: Sequence[object]) -> NoReturn:
        if pending:
            raise BackendError(
                f"{self.place} was lost while a write was being stored, and did not come back: whether it is stored is "
                "not known; read it before you repeat it"
            ) from exc
        trouble = trouble_of(exc, is_closed=False)
        if trouble in ("busy", "slow"):
            what = "was kept busy by other writers" if trouble == "busy" else "did not answer"
            raise BackendError(
                f"{self.place} {what} for {self._timeout_s:g} s; nothing was stored: try again, or raise busy_timeout_s"
            ) from exc
        raise failure(self.place, exc) from exc


def _nothing(_: object) -> None:
    pass
