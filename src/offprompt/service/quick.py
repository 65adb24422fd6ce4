"""Calls on a store that answers in microseconds: reads without a thread of their own, writes that share a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from offprompt.errors import OffpromptError
from offprompt.service.parts import Parts


@runtime_checkable
class QuickStore(Protocol):
    """A store in a file of this machine: what it is asked costs less than handing it to another thread."""

    def at_once(self, later: Callable[[Callable[[], object]], object]) -> AbstractContextManager[None]:
        """Within it this thread's reads see one moment, and wait for nothing.

        later    takes what a read leaves to be stored; it is called when the block is over.
        Raises   WouldWait, inside, where something would be written or waited for; nothing was done then.
        """
        ...

    def together(self) -> AbstractContextManager[None]:
        """Within it all that this thread reads and writes is one transaction; a call that raises leaves no trace.

        Raises   BackendError if it cannot be begun, or, at the end, not be stored: nothing of it is stored then.
        """
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call returned, or the exception that it raised."""

    result: Any = None
    error: BaseException | None = None


def quick_store(parts: Parts) -> QuickStore | None:
    """The store of everything in an opened memory, if it is a quick one, and no write waits beside it."""
    is_one = parts.slots is parts.main and not (parts.spool is not None and parts.spool.is_on)
    return parts.main if is_one and isinstance(parts.main, QuickStore) else None


def done_together(store: QuickStore, calls: Sequence[Callable[[], Any]]) -> list[Outcome]:
    """The calls' outcomes, in order, once all of them are stored: each as if it had been made alone, after the last.

    Calls    may be run twice: what they do beside the store must stand that.
    Cost     one commit, for one call too, whatever it does. If that fails, each of several is made alone, and has its
             own error; if it cannot even be begun, all have that error: they would all wait as long.
    """
    is_begun = False
    try:
        with store.together():
            is_begun = True
            outcomes = [_outcome(call) for call in calls]
    except OffpromptError as exc:
        if not is_begun or len(calls) == 1:
            return [Outcome(error=exc)] * len(calls)
        return [done_together(store, [call])[0] for call in calls]
    return outcomes


def _outcome(call: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(call())
    except Exception as exc:  # noqa: BLE001 - kept for whoever made the call
        return Outcome(error=exc)
