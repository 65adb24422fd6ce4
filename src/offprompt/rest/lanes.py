"""Lanes: where a request is worked on. A thread costs more than a store that answers in microseconds."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from offprompt.errors import WouldWait
from offprompt.service.quick import Outcome, QuickStore, done_together

R = TypeVar("R")

MOST: Final = 64
"""Changes that share a commit at most: those of other processes wait so long."""


@dataclass(slots=True)
class _Waiting:
    work: Callable[[], Any]
    future: asyncio.Future[Any]


class Lanes:
    """Runs work of requests. Called in the event loop.

    store    of all that is called quick; None: it has to be waited for, and everything gets a thread.
    threads  for all that waits.
    """

    def __init__(self, store: QuickStore | None, threads: Executor) -> None:
        self._store, self._threads = store, threads
        self._waiting: deque[_Waiting] = deque()
        self._is_writing = False

    async def waited(self, work: Callable[[], R], *, threads: Executor | None = None) -> R:
        """The result of work that may take long."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(threads or self._threads, context.run, work)

    async def read(self, work: Callable[[], R]) -> R:
        """The result of work that reads a little, here and now if the store can answer at once.

        work   may be begun twice: it changes nothing until it is past its first reads.
        """
        if self._store is not None:
            try:
                with self._store.at_once(self._threads.submit):
                    return work()
            except WouldWait:
                pass
        return await self.waited(work)

    async def changed(self, work: Callable[[], R]) -> R:
        """The result of work that changes a little, once it is stored: in one commit with what others change.

        work   may be run twice; see `done_together`.
        """
        if self._store is None:
            return await self.waited(work)
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        waiting = _Waiting(lambda: context.run(work), loop.create_future())
        self._waiting.append(waiting)
        if not self._is_writing:
            self._is_writing = True
            self._threads.submit(self._write, self._store, loop)
        return await waiting.future

    def _write(self, store: QuickStore, loop: asyncio.AbstractEventLoop) -> None:
        """Do what waits, in a thread of its own."""
        while taken := self._taken():
            try:
                outcomes = done_together(store, [one.work for one in taken])
            except Exception as exc:  # noqa: BLE001 - whoever waits is told; who comes next gets through
                outcomes = [Outcome(error=exc)] * len(taken)
            loop.call_soon_threadsafe(self._tell, taken, outcomes)
        loop.call_soon_threadsafe(self._rest, store, loop)

    def _taken(self) -> list[_Waiting]:
        found: list[_Waiting] = []
        while self._waiting and len(found) < MOST:
            found.append(self._waiting.popleft())
        return found

    def _rest(self, store: QuickStore, loop: asyncio.AbstractEventLoop) -> None:
        """The thread has found nothing more; what came since then wakes it again."""
        self._is_writing = bool(self._waiting)
        if self._is_writing:
            self._threads.submit(self._write, store, loop)

    def _tell(self, taken: list[_Waiting], outcomes: list[Outcome]) -> None:
        for one, outcome in zip(taken, outcomes, strict=True):
            if one.future.cancelled():
                continue
            if outcome.error is None:
                one.future.set_result(outcome.result)
            else:
                one.future.set_exception(outcome.error)
