"""What the services of memories share."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from offprompt.config import Settings
from offprompt.errors import UsageError
from offprompt.protocols import Clock, Embedder, MemoryStore, Redactor
from offprompt.records import Scope
from offprompt.service.extract_background import Background
from offprompt.service.memory_index import IndexCache
from offprompt.service.memory_uses import Uses
from offprompt.service.model_calls import ModelCalls
from offprompt.service.redacting import redacted_value
from offprompt.service.slot_writer import Kit
from offprompt.service.vector_link import VectorLink

_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS: Final = 80

V = TypeVar("V")


class MemoryIds:
    """Ids in order of creation: 48 bits of milliseconds, 80 random ones, greater than all that this object gave.

    Source   the layout and letters of ULID (Feerasta 2016), in lower case. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def new(self, now: float) -> str:
        """`m_` and 26 letters and digits."""
        with self._lock:
            drawn = max(int(now * 1000), 0) << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
            if drawn <= self._last:
                drawn = self._last + 1
            self._last = drawn
        return "m_" + "".join(_LETTERS[drawn >> 5 * place & 31] for place in range(25, -1, -1))


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many turns of a scope waited for a language model at one of its revisions, and since when the first did."""

    revision: int
    turns: int
    since: float


@dataclass(frozen=True, slots=True)
class MemoryKit:
    """Shared by all scopes of an opened memory.

    embedder  None: memories are found by their words only. slots: for the profile that rules derive.
    models    language models for memory, None: there are none. background: lets one of them read turns later.
    waiting   by scope, what was found the last time; at the same revision it need not be looked for again.
    vectors   an index that is asked for what lies close; None: what is loaded of a scope has its vectors.
    """

    memories: MemoryStore
    clock: Clock
    settings: Settings
    embedder: Embedder | None
    redactors: Sequence[Redactor]
    slots: Kit
    index: IndexCache
    uses: Uses
    vectors: VectorLink | None = None
    models: ModelCalls | None = None
    background: Background | None = None
    ids: MemoryIds = field(default_factory=MemoryIds)
    waiting: dict[Scope, Waiting] = field(default_factory=dict[Scope, Waiting])

    def redacted(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text as it may be stored, and the kinds of what was taken out."""
        kinds: dict[str, None] = {}
        for redactor in self.redactors:
            done = redactor.redact(text)
            kinds |= dict.fromkeys(span.kind for span in done.found)
            text = done.text
        return text, tuple(kinds)

    def clean(self, value: V) -> V:
        """A text or metadata as it may be stored.

        Raises   UsageError for what is nested without end.
        """
        try:
            return redacted_value(value, lambda text: self.redacted(text)[0])
        except RecursionError as exc:
            raise UsageError("the metadata of a memory is nested too deep; write it flatter") from exc
