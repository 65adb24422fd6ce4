"""What passes between Offprompt and a language model: what a call is for, what it brought, how it is called off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from offprompt.records.ledger import Usage

Purpose: TypeAlias = Literal["chat", "extract", "summarize", "rerank", "embed", "judge"]
PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)
"""`chat`: of the conversation itself; all others: for memory."""

ModelWire: TypeAlias = Literal["openai", "anthropic"]

Finish: TypeAlias = Literal["stop", "length", "calls", "refused", "cut"]
"""Why a reply ended: by itself, at its token limit, for tool calls, by the provider's filter, or mid-stream."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer to work for memory.

    text      what it answered, without thinking; may be empty. thinking: what came as reasoning, or in `<think>`.
    data      the JSON value that the text is, where a schema was asked for; None if it is not JSON, or was cut. It is
              as the model wrote it: nothing has checked it against the schema.
    usage     tokens as the provider counted them.
    """

    text: str
    data: Any = None
    finish: Finish = "stop"
    usage: Usage = field(default_factory=Usage)
    thinking: str = ""


@dataclass(slots=True, eq=False)
class Cancel:
    """Calls a request off from another thread: its connection is closed, and the call raises a ModelError `cancelled`.

    One may serve many calls. Thread-safe; a second `cancel` does nothing.
    """

    _event: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _calls: dict[int, Callable[[], object]] = field(default_factory=dict[int, Callable[[], object]])
    _next: int = 0

    @property
    def cancelled(self) -> bool:
        """Whether it was called off."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Call off what runs with it, and all that would begin with it later."""
        with self._lock:
            self._event.set()
            calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call()

    def add(self, call: Callable[[], object]) -> Callable[[], None]:
        """Have `call` called at the cancel (at once if that was before); what is returned takes it out again."""
        with self._lock:
            self._next += 1
            at = self._next
            late = self._event.is_set()
            if not late:
                self._calls[at] = call
        if late:
            call()
        return lambda: self._remove(at)

    def _remove(self, at: int) -> None:
        with self._lock:
            self._calls.pop(at, None)
