"""The event loop on which all calls to endpoints run, whoever makes them: one thread for the process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from offprompt.errors import ModelError
from offprompt.records import Cancel

T = TypeVar("T")


class CallLoop:
    """Runs coroutines for threads and for other loops. Connections stay on it, so any caller may use them.

    A call that is called off, interrupted or whose caller's task is cancelled has its coroutine cancelled.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="offprompt-models", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], cancel: Cancel | None) -> T:
        """The coroutine's result; the thread waits for it.

        Raises   what the coroutine raises; ModelError `cancelled`.
        """
        future, done = self._begin(work, cancel)
        try:
            return future.result()
        except CancelledError as exc:
            raise _called_off() from exc
        finally:
            done()
            future.cancel()

    async def wait(self, work: Coroutine[Any, Any, T], cancel: Cancel | None) -> T:
        """The coroutine's result, awaited on the caller's loop."""
        future, done = self._begin(work, cancel)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as exc:
            task = asyncio.current_task()
            if cancel is not None and cancel.cancelled and not (task is not None and task.cancelling()):
                raise _called_off() from exc
            raise
        finally:
            done()

    def later(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Have a coroutine run some time, such as one that closes a connection; nobody waits for it."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(work(), self._loop)

    def _begin(self, work: Coroutine[Any, Any, T], cancel: Cancel | None) -> tuple[Future[T], Callable[[], None]]:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future, cancel.add(future.cancel) if cancel is not None else _nothing


_lock = threading.Lock()
_loops: dict[int, CallLoop] = {}


def call_loop() -> CallLoop:
    """The loop of this process; a forked one gets its own."""
    with _lock:
        found = _loops.get(os.getpid())
        if found is None:
            _loops.clear()
            found = _loops[os.getpid()] = CallLoop()
        return found


def _called_off() -> ModelError:
    return ModelError(
        "the call was called off, and its connection closed; call again if it is still wanted", kind="cancelled"
    )


def _nothing() -> None:
    """There is nothing to take back."""
