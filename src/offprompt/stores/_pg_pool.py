"""The PostgreSQL connections of one process: lent one at a time, opened when needed, left behind by a fork."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Final

from offprompt.errors import BackendError, UsageError
from offprompt.stores._forks import follow
from offprompt.stores._pg_connection import Connection

IDLE_S: Final = 300.0
"""Connections that nobody used for so long are closed, when another one comes back."""


class Pool:
    """At most `size` connections, made by `connect`; a thread that finds none free waits `wait_s`.

    A forked child leaves the parent's open to it, and opens its own. Thread-safe.
    """

    def __init__(self, connect: Callable[[], Connection], *, place: str, size: int, wait_s: float) -> None:
        self._connect = connect
        self._place, self._size, self._wait_s = place, size, wait_s
        self._is_closed = False
        self._start()
        follow(self)

    @contextlib.contextmanager
    def lent(self) -> Generator[Connection]:
        """A connection that is nobody else's meanwhile.

        Raises   UsageError if the store is closed, BackendError if all are in use too long; what `connect` raises.
        """
        connection = self._take()
        try:
            connection = connection or self._connect()
            yield connection
        finally:
            self._give_back(connection)

    def dismiss(self) -> None:
        """Close what is idle: a server that went away has closed it too."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close what is not lent out; the rest closes when it comes back."""
        self._is_closed = True
        self.dismiss()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def before_fork(self) -> None:
        """See Forkable."""
        self._guard.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """See Forkable."""
        if in_child:
            _LEFT_TO_PARENT.append(self._idle)
            self._start()
        else:
            self._guard.release()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._guard = threading.Condition(threading.RLock())
        self._idle: list[Connection] = []
        self._lent = 0

    def _take(self) -> Connection | None:
        """An idle connection, or None and the right to open one."""
        with self._guard:
            if not self._guard.wait_for(lambda: self._is_closed or self._lent < self._size, self._wait_s):
                raise BackendError(
                    f"all {self._size} connections to {self._place} were in use for {self._wait_s:g} s; nothing was "
                    "stored: try again, or raise pool=… in the URL"
                )
            if self._is_closed:
                raise UsageError(f"the store {self._place} is closed; open it again")
            self._lent += 1
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Connection | None) -> None:
        if self._pid != os.getpid():
            return
        over: list[Connection] = []
        with self._guard:
            self._lent -= 1
            if connection is not None and not connection.closed:
                connection.used_at = now = time.monotonic()
                over = [one for one in self._idle if self._is_closed or now - one.used_at > IDLE_S]
                self._idle = [one for one in self._idle if one not in over]
                (over if self._is_closed else self._idle).append(connection)
            self._guard.notify()
        for one in over:
            one.close()


_LEFT_TO_PARENT: Final[list[list[Connection]]] = []
