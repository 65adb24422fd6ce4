"""Conversations: one request at a time in each, and nothing waits longer than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from offprompt.errors import BackendError, UsageError
from offprompt.service.agent_stream import in_thread

T = TypeVar("T")


async def in_time(work: Coroutine[Any, Any, T], seconds: float, behind: Held | None = None) -> T:
    """What the work gives, if it is done in time.

    Late     what waits for a store cannot be called off: it works on, and holds its conversation meanwhile (`behind`).
    Raises   TimeoutError, and what the work raises; UsageError for what is nested too deep for it.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    if not done:
        task.add_done_callback(_forgotten)
        if behind is not None:
            behind.late = task
        raise TimeoutError
    try:
        return task.result()
    except RecursionError as exc:
        raise UsageError("it is nested too deep to be read here") from exc


@dataclass(slots=True)
class Held:
    """A conversation while a request has it. seconds: how long each call may take; late: what works on behind it."""

    seconds: float
    late: asyncio.Future[Any] | None = None

    async def asks(self, call: Callable[..., T], *given: Any) -> T:
        """What the memory gives, asked in a worker thread.

        Raises   BackendError if it is late, or an earlier call still works on; and what the call raises.
        """
        if self.late is None or self.late.done():
            try:
                return await in_time(in_thread(call, *given), self.seconds, self)
            except TimeoutError:
                pass
        raise BackendError(f"the memory took longer than {self.seconds:g} s")


class Conversations:
    """The conversations that requests are about, each while one is."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def held(self, name: Hashable, seconds: float) -> AsyncGenerator[Held]:
        """For one request; the next one waits until it is over, and what works on behind it.

        Raises   TimeoutError if that is not so in time.
        """
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with asyncio.timeout(seconds):
            await lock.acquire()
        held = Held(seconds)
        try:
            yield held
        finally:
            if held.late is None or held.late.done():
                lock.release()
            else:
                held.late.add_done_callback(lambda _: lock.release())


def _forgotten(task: asyncio.Future[Any]) -> None:
    """What came too late is not asked for; an error of it is none of the event loop's."""
    if not task.cancelled():
        task.exception()
