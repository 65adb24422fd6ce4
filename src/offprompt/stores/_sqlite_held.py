"""A transaction that a thread holds open, for all that it reads and writes meanwhile."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from offprompt.errors import BackendError, WouldWait
from offprompt.stores._sqlite_errors import failure, is_busy

R = TypeVar("R")
Work: TypeAlias = Callable[[sqlite3.Connection], R]


class Held:
    """An open transaction.

    writes   False: what would write, or would have to wait, is a WouldWait.
    after    what is to be done when it is over.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, *, writes: bool) -> None:
        self.connection, self._path = connection, path
        self.writes = writes
        self.after: list[Callable[[], object]] = []

    def begin(self) -> None:
        """Begin it: sqlite3's error, if the file is busy."""
        self.connection.execute("BEGIN IMMEDIATE" if self.writes else "BEGIN")

    def read(self, work: Work[R]) -> R:
        """The work's result; it sees what was written before."""
        try:
            return work(self.connection)
        except sqlite3.Error as exc:
            if is_busy(exc) and not self.writes:
                raise WouldWait from exc
            raise failure(self._path, exc) from exc

    def write(self, work: Work[R]) -> R:
        """The work's result, which is stored with all the rest, or not; if it raises, what it wrote is taken back."""
        if not self.writes:
            raise WouldWait
        try:
            self.connection.execute("SAVEPOINT part")
            result = self.read(work)
        except BaseException:
            # A full disk or an I/O error may have rolled back all of it.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO part")
                self.connection.execute("RELEASE part")
            raise
        else:
            self.connection.execute("RELEASE part")
            return result

    def end(self, *, keep: bool) -> None:
        """Store it, or take it back.

        Raises   BackendError if it is not stored.
        """
        try:
            if self.connection.in_transaction:
                self.connection.execute("COMMIT" if keep else "ROLLBACK")
            elif keep:
                raise BackendError(f"the store {self._path} took back what was being written: nothing was stored")
        except sqlite3.Error as exc:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise failure(self._path, exc) from exc


class Own(threading.local):
    """What this thread holds."""

    held: Held | None = None
