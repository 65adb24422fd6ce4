"""Extraction beside the conversation: a thread that lets a language model read turns once enough of them wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from offprompt.errors import OffpromptError, UnsupportedError
from offprompt.protocols import Clock
from offprompt.records import Cancel, Scope
from offprompt.service.model_calls import CountedModel, ModelCalls

if TYPE_CHECKING:  # what reads is loaded when something is read
    from offprompt.service.extracting import Extracted

log = logging.getLogger("offprompt")

LOOK_S: Final = 30.0
"""How long the thread waits before it looks at the clock again: that may be moved, and stand still."""

CLOSE_S: Final = 5.0


def extract_model(models: ModelCalls | None) -> CountedModel:
    """The model that reads turns.

    Raises   UnsupportedError if none is set.
    """
    if models is None:
        raise UnsupportedError(
            "this memory was made without models; use offprompt.open with models, or with a config file that names one"
        )
    return models.needed("extract")


@dataclass(slots=True)
class _Due:
    """Turns that wait in a scope since then. now: they are not waited for longer."""

    turns: int
    since: float
    now: bool = False


class Background:
    """Reads what waits in a scope after `turns` turns, at a session's end, or `every_s` after the first of them.

    Thread   one, begun with the first turn, daemonic: a process that ends leaves what waits to the next one, or to
             `offprompt consolidate`. Trouble is logged, and tried again `every_s` later.
    run      reads what waits in a scope; called in the thread, or by `run_due` in the caller's.
    Safety   any number of threads.
    """

    def __init__(self, run: Callable[[Scope, Cancel], Extracted], clock: Clock, *, turns: int, every_s: float) -> None:
        self._run, self._clock = run, clock
        self._turns, self._every_s = max(turns, 1), every_s
        self._changed = threading.Condition()
        self._due: dict[Scope, _Due] = {}
        self._busy = False
        self._cancel = Cancel()
        self._thread: threading.Thread | None = None

    def said(self, scope: Scope, turns: int = 1) -> None:
        """So many more turns of users are stored in the scope."""
        with self._changed:
            due = self._due.setdefault(scope, _Due(0, self._clock.now()))
            due.turns += turns
            due.now = due.now or due.turns >= self._turns
            self._start()
            self._changed.notify_all()

    def ended(self, scope: Scope) -> None:
        """A session of the scope is over: what waits is read now."""
        with self._changed:
            if scope in self._due:
                self._due[scope].now = True
                self._changed.notify_all()

    def run_due(self) -> list[Extracted]:
        """Read in this thread what is due; what became of it."""
        done: list[Extracted] = []
        while (scope := self._take()) is not None:
            try:
                done.append(self._run(scope, self._cancel))
                if done[-1].stopped:
                    self._again(scope)
            except OffpromptError as exc:
                log.warning("turns of %s wait for a language model: %s", scope, exc)
                self._again(scope)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
        return done

    def wait(self, timeout_s: float = 60.0) -> bool:
        """Whether, within that time, nothing is due or being read any more."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy and self._first() is None, timeout_s)

    def close(self) -> None:
        """Break off what is being read, and end; what waits, waits on in the store."""
        with self._changed:
            self._due.clear()
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        self._cancel.cancel()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_S)

    def _again(self, scope: Scope) -> None:
        """What stopped a run is not asked at each turn: after as many new ones, or as long, as ever."""
        with self._changed:
            self._due.setdefault(scope, _Due(0, self._clock.now()))

    def _first(self) -> Scope | None:
        """A scope that is due."""
        now = self._clock.now()
        return next((s for s, due in self._due.items() if due.now or now - due.since >= self._every_s), None)

    def _take(self) -> Scope | None:
        with self._changed:
            scope = None if self._cancel.cancelled else self._first()
            if scope is not None:
                del self._due[scope]
                self._busy = True
            return scope

    def _start(self) -> None:
        # A forked child has no thread; one that was closed begins no new one.
        if (self._thread is None or not self._thread.is_alive()) and not self._cancel.cancelled:
            self._thread = threading.Thread(target=self._loop, name="offprompt-extract", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        while not self._cancel.cancelled:
            self.run_due()
            with self._changed:
                if self._thread is None:
                    return
                self._changed.wait_for(lambda: self._thread is None or self._first() is not None, self._pause())

    def _pause(self) -> float:
        """Seconds until the clock is to be looked at."""
        now = self._clock.now()
        ends = [due.since + self._every_s - now for due in self._due.values()]
        return max(min([LOOK_S, *ends]), 0.05)
