"""Connections to one SQLite file: lent one at a time, busy files waited for, errors said in our words."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, TypeAlias, TypeVar

from offprompt.errors import BackendError, UsageError, WouldWait
from offprompt.stores import _sqlite_files as files
from offprompt.stores._forks import follow
from offprompt.stores._sqlite_errors import failure, is_busy
from offprompt.stores._sqlite_held import Held, Own
from offprompt.stores._sqlite_schema import migrate

R = TypeVar("R")
Durability: TypeAlias = Literal["full", "process"]
Work: TypeAlias = Callable[[sqlite3.Connection], R]

SYNCHRONOUS: Final = {"full": "FULL", "process": "NORMAL"}
FIRST_WAIT_S: Final = 0.001
LONGEST_WAIT_S: Final = 0.05
CHECKED_S: Final = 0.5
"""Seconds for which a read at once does not look whether the file is still there: to look takes longer than to read."""


class Connections:
    """The connections of one process to one file.

    Each is lent to one thread at a time and comes back; there are as many as threads ever worked at once. Writers of
    the process queue on a lock; those of other processes are waited for with a jittered, growing pause. A fork waits
    until no thread is at work here and closes what is open: SQLite would take the parent's file locks for the child's
    own, and the parent's last close would then remove a log that the child writes to. Both open anew.
    """

    def __init__(self, path: Path, *, durability: Durability, busy_timeout_s: float) -> None:
        self.path = path
        self._durability: Durability = durability
        self._busy_timeout_s = busy_timeout_s
        self._is_closed = False
        self._checked_at = 0.0
        self._start()
        follow(self)
        self._retry(self._prepare)

    def read(self, work: Work[R]) -> R:
        """The work's result, all of it on one snapshot.

        Raises   BackendError if SQLite fails or stays busy; what `work` raises.
        """
        held = self.own.held
        return self._run("BEGIN", work) if held is None else held.read(work)

    def write(self, work: Work[R], *, after: Callable[[R], None] = lambda _: None) -> R:
        """The work's result, once it is stored; nothing is, if it raises. It may be run again while the file is busy.

        after    called with the result after the commit, before the next writer of this process.
        Raises   BackendError if SQLite fails or stays busy; what `work` raises.
        """
        held = self.own.held
        if held is not None:
            result = held.write(work)
            held.after.append(lambda: after(result))
            return result
        with self._writer():
            result = self._run("BEGIN IMMEDIATE", work)
            after(result)
            return result

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """All that this thread reads and writes within is one transaction; a write that raises is taken back alone.

        Raises   BackendError if it cannot be begun, or in the end not be stored: then nothing is of all that was
                 written within, whatever it returned.
        """
        with self._writer():
            held = self._retry(lambda: self.begun(writes=True))
            try:
                with self._holding(held):
                    yield
            finally:
                self.give_back(held.connection)
            for work in held.after:
                # It is stored: what else was to be done is no reason to say that it is not.
                with contextlib.suppress(BackendError):
                    work()

    def at_once(self, later: Callable[[Callable[[], object]], object]) -> AtOnce:
        """All that this thread reads within is of one moment, and waits for nothing.

        later    given what a read leaves to be stored, once for each.
        Raises   WouldWait for a write, and if the file is busy; what `read` raises.
        """
        return AtOnce(self, later)

    def afterwards(self, work: Callable[[], object]) -> None:
        """Do it now, or when the transaction is over that this thread holds open."""
        held = self.own.held
        if held is None:
            work()
        else:
            held.after.append(work)

    def bare(self, work: Work[R]) -> R:
        """The work's result, outside any transaction: for checkpoints and backups.

        Raises   BackendError if SQLite fails or stays busy; what `work` raises.
        """

        def attempt() -> R:
            with self._lent() as connection:
                return work(connection)

        return self._retry(attempt)

    def close(self) -> None:
        """Close what is not lent out; the rest closes when it comes back."""
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
        if self._pid != os.getpid():
            _LEFT_TO_PARENT.append(idle)
            return
        for connection in idle:
            connection.close()

    def before_fork(self) -> None:
        """See Forkable. Waits for `busy_timeout_s` at most; after that the child may not use the store."""
        self._guard.acquire()
        self._is_forking = True
        own = threading.get_ident()
        calm = self._guard.wait_for(lambda: all(user == own for user in self._users), self._busy_timeout_s)
        if calm and not self._users:
            idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()

    def after_fork(self, *, in_child: bool) -> None:
        """See Forkable."""
        if not in_child:
            self._is_forking = False
            self._guard.notify_all()
            self._guard.release()
        elif not self._users:
            self._start()
        else:
            _LEFT_TO_PARENT.append(self._idle)
            self._lock = threading.RLock()
            self._guard = threading.Condition(self._lock)

    @property
    def is_together(self) -> bool:
        """Whether this thread is within `together`."""
        return self.own.held is not None and self.own.held.writes

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._guard = threading.Condition(self._lock)
        self._writing = threading.RLock()
        self._idle: list[sqlite3.Connection] = []
        self._users: list[int] = []
        self._is_forking = False
        self.own = Own()

    @contextlib.contextmanager
    def _writer(self) -> Generator[None]:
        """This process's only writer."""
        self._check_process()
        if not self._writing.acquire(timeout=self._busy_timeout_s):
            raise self._busy()
        try:
            yield
        finally:
            self._writing.release()

    @contextlib.contextmanager
    def _holding(self, held: Held) -> Generator[None]:
        outer, self.own.held = self.own.held, held
        try:
            yield
        except BaseException:
            held.end(keep=False)
            raise
        else:
            held.end(keep=True)
        finally:
            self.own.held = outer

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise BackendError(
                f"the store {self.path} was in use when this process was forked, and SQLite cannot go on with it here; "
                "open it again in a process that is not forked (the method 'spawn'), or fork before it is used"
            )

    def _prepare(self) -> None:
        files.prepare_file(self.path)
        self._name, self._inode = str(self.path), self.path.stat().st_ino
        with self._lent():
            pass

    def _run(self, begin: str, work: Work[R]) -> R:
        def attempt() -> R:
            with self._lent() as connection:
                return _transaction(connection, begin, work)

        return self._retry(attempt)

    def _retry(self, attempt: Callable[[], R]) -> R:
        deadline, pause = time.monotonic() + self._busy_timeout_s, FIRST_WAIT_S
        while True:
            try:
                return attempt()
            except sqlite3.Error as exc:
                if not is_busy(exc):
                    raise failure(self.path, exc) from exc
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._busy() from exc
            time.sleep(min(left, random.uniform(pause / 2, pause)))  # noqa: S311 - spreads waiters, guards nothing
            pause = min(pause * 1.5, LONGEST_WAIT_S)

    def _busy(self) -> BackendError:
        return BackendError(
            f"the store {self.path} was kept busy by other writers for {self._busy_timeout_s:g} s; "
            "nothing was stored: try again, or raise busy_timeout_s"
        )

    def begun(self, *, writes: bool, checked_s: float = 0.0) -> Held:
        """A transaction on a connection of its own; sqlite3's error if the file is busy."""
        held = Held(self.take(checked_s=checked_s), self.path, writes=writes)
        try:
            held.begin()
        except BaseException:
            self.give_back(held.connection)
            raise
        return held

    @contextlib.contextmanager
    def _lent(self) -> Generator[sqlite3.Connection]:
        connection = self.take()
        try:
            yield connection
        finally:
            self.give_back(connection)

    def take(self, *, checked_s: float = 0.0) -> sqlite3.Connection:
        """A connection of one's own, until it is given back.

        checked_s  seconds for which it need not be looked again whether the file is still the same.
        Raises   UsageError if the store is closed; BackendError if the file was replaced; sqlite3's errors.
        """
        self._check_process()
        with self._lock:
            if self._is_forking:
                self._guard.wait_for(lambda: not self._is_forking)
            if self._is_closed:
                raise UsageError(f"the store {self.path} is closed; open it again")
            connection = self._idle.pop() if self._idle else None
            self._users.append(threading.get_ident())
        try:
            connection = connection or self._connect()
            if not checked_s or time.monotonic() - self._checked_at > checked_s:
                self._check_same_file()
        except BaseException:
            self.give_back(connection)
            raise
        return connection

    def give_back(self, connection: sqlite3.Connection | None) -> None:
        """Let others have it."""
        try:
            # An interrupt may have come between BEGIN and its block.
            if connection is not None and connection.in_transaction:
                connection.close()
                connection = None
        finally:
            with self._lock:
                self._users.remove(threading.get_ident())
                if connection is not None and not self._is_closed:
                    self._idle.append(connection)
                    connection = None
                if self._is_forking:
                    self._guard.notify_all()
        if connection is not None:
            connection.close()

    def _check_same_file(self) -> None:
        try:
            inode = os.stat(self._name).st_ino  # noqa: PTH116 - a read takes as long as pathlib's
        except OSError:
            inode = 0
        if inode != self._inode:
            raise BackendError(
                f"the store {self.path} was removed or replaced while it was open; "
                "nothing was stored: open it again, or restore a backup"
            )
        self._checked_at = time.monotonic()

    def _connect(self) -> sqlite3.Connection:
        # SQLite's own waiting has no jitter and does not cover every statement: ours does both.
        connection = sqlite3.connect(self.path.absolute(), timeout=0, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            # What is erased is overwritten, not only unlinked.
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[self._durability]}")
            migrate(connection, str(self.path))
            self._use_log(connection)
        except BaseException:
            connection.close()
            raise
        else:
            return connection

    def _use_log(self, connection: sqlite3.Connection) -> None:
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise BackendError(
                f"the store {self.path} cannot use a write-ahead log (journal mode {mode!r}); "
                "give a path on a local disk that may be written"
            )


class AtOnce:
    """The block of `Connections.at_once`; a class, since a generator takes as long as the read."""

    __slots__ = ("_db", "_held", "_later")

    def __init__(self, db: Connections, later: Callable[[Callable[[], object]], object]) -> None:
        self._db, self._later = db, later

    def __enter__(self) -> None:
        try:
            self._held = self._db.own.held = self._db.begun(writes=False, checked_s=CHECKED_S)
        except sqlite3.Error as exc:
            raise (WouldWait() if is_busy(exc) else failure(self._db.path, exc)) from exc

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._db.own.held = None
        try:
            self._held.end(keep=kind is None)
        finally:
            self._db.give_back(self._held.connection)
        for work in self._held.after:
            self._later(work)


_LEFT_TO_PARENT: Final[list[list[sqlite3.Connection]]] = []


def _transaction(connection: sqlite3.Connection, begin: str, work: Work[R]) -> R:
    connection.execute(begin)
    try:
        result = work(connection)
    except BaseException:
        _roll_back(connection)
        raise
    else:
        try:
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        return result


def _roll_back(connection: sqlite3.Connection) -> None:
    # A full disk or an I/O error may have rolled back already.
    if connection.in_transaction:
        connection.execute("ROLLBACK")
