"""Workers: several processes that answer on one socket, looked after by the one that began them.

They are forked before anything is opened: what a store, a pool of connections or a loop is, each worker has of its own.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, TypeAlias

LOG: Final = logging.getLogger("offprompt.rest")

Work: TypeAlias = Callable[[int, Callable[[], None]], int]
"""What a worker does: gets a descriptor that is at its end when it is alone, and what to call when it listens; returns
its exit code."""

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
LOOK_S: Final = 0.1
LONGEST_WAIT_S: Final = 30.0
LASTED_S: Final = 1.0
"""Seconds after which the end of a worker is an accident, and no sign that the next one will not work either."""
LATE_S: Final = 10.0
"""Seconds beyond its own limit after which a worker that was told to stop is killed."""


class Workers:
    """Runs `count` workers until it is told to stop; one that ends meanwhile is begun again.

    stop_s    the workers' own limit for what runs when they are told to stop.
    on_ready  called when all of them listen for the first time. on_end: with the process id of each that ended.
    """

    def __init__(
        self,
        work: Work,
        count: int,
        *,
        stop_s: float,
        on_ready: Callable[[], None],
        on_end: Callable[[int], None] | None = None,
    ) -> None:
        self._work, self._count, self._stop_s = work, count, stop_s
        self._on_ready, self._on_end = on_ready, on_end
        self._begun: dict[int, float] = {}
        self._failures = 0
        self._not_before = 0.0
        self._signals = 0

    def run(self) -> int:
        """The exit code: 0 when told to stop; the first worker's own if it does not come to listen."""
        self._alone, self._held = os.pipe()  # its end is reached when this process is gone, however it went
        before = {number: signal.signal(number, self._told) for number in STOPPING}
        try:
            for _ in range(self._count):
                code = self._begin_and_wait()
                if code is not None:
                    return code
            if not self._signals:
                self._on_ready()
            while not self._signals:
                self._look()
                time.sleep(LOOK_S)
            return 0
        finally:
            self._end_all()
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._alone)
            os.close(self._held)

    def _begin_and_wait(self) -> int | None:
        """Begin a worker and wait until it listens; its exit code if it ended before."""
        ready, said = os.pipe()
        pid = self._fork(said)
        os.close(said)
        try:
            while not self._signals:
                if select.select([ready], [], [], LOOK_S)[0]:
                    if os.read(ready, 1):
                        return None
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    del self._begun[pid]
                    return code if code > 0 else 1
            return 0
        finally:
            os.close(ready)

    def _fork(self, said: int | None = None) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal that came while the worker still has the handlers of this process would be lost to it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        pid = os.fork()
        if pid:
            self._begun[pid] = time.monotonic()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return pid
        code = 1
        try:
            for number in STOPPING:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(self._held)
            code = self._work(self._alone, lambda: _say_ready(said))
            sys.stdout.flush()
        except BaseException as exc:
            sys.excepthook(type(exc), exc, exc.__traceback__)
            raise
        finally:
            os._exit(code)  # the rest of the program is the parent's

    def _look(self) -> None:
        """Begin a worker for each that ended; sooner or later, by how many ended soon after they began."""
        for pid, at in list(self._begun.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self._begun[pid]
            if self._on_end is not None:
                self._on_end(pid)
            has_lasted = time.monotonic() - at > LASTED_S
            self._failures = 0 if has_lasted else self._failures + 1
            wait_s = 0.0 if self._failures < 3 else min(2.0 ** (self._failures - 3), LONGEST_WAIT_S)
            self._not_before = time.monotonic() + wait_s
            code = os.waitstatus_to_exitcode(status)
            LOG.warning("worker %d ended with %d; another one begins in %g s", pid, code, wait_s)
        while len(self._begun) < self._count and time.monotonic() >= self._not_before:
            self._fork()

    def _told(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signals += 1
        if self._signals > 1:
            self._signal_all(signal.SIGKILL)
            os._exit(128 + number)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in list(self._begun):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _end_all(self) -> None:
        """Tell all to stop, and wait until they have."""
        self._signal_all(signal.SIGTERM)
        deadline = time.monotonic() + self._stop_s + LATE_S
        while self._begun:
            for pid in list(self._begun):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del self._begun[pid]
            if self._begun and time.monotonic() > deadline:
                self._signal_all(signal.SIGKILL)
            time.sleep(0.01)


def _say_ready(said: int | None) -> None:
    if said is not None:
        os.write(said, b"r")
        os.close(said)
