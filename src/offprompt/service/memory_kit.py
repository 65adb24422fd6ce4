"""What the services of memories share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from offprompt.config import Settings
from offprompt.errors import UsageError
from offprompt.protocols import Clock, Embedder, MemoryStore, Redactor
from offprompt.records import Scope, Trust
from offprompt.service.extract_background import Background
from offprompt.service.memory_index import IndexCache
from offprompt.service.memory_uses import Uses
from offprompt.service.model_calls import ModelCalls
from offprompt.service.redacting import redacted_value
from offprompt.service.sealing import Clean, Seal, Sealer, cleaned
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
    sealer    puts what is taken out of texts into slots; None: marks stand there alone.
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
    sealer: Sealer | None = None

    def redacted(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text as it may be stored, with marks alone, and the kinds of what was taken out."""
        done = cleaned(self.redactors, text)
        return done.text, done.taken

    def sealed(self, text: str, scope: Scope) -> Clean:
        """The text as it may be stored in a scope, and what is to be sealed before it is."""
        return cleaned(self.redactors, text, self.sealer, scope)

    def sealed_value(self, value: V, scope: Scope) -> tuple[V, tuple[Seal, ...]]:
        """Metadata or tags as they may be stored in a scope, and what is to be sealed before they are.

        Raises   UsageError for what is nested without end.
        """
        seals: list[Seal] = []

        def clean(text: str) -> str:
            done = self.sealed(text, scope)
            seals.extend(done.seals)
            return done.text

        return _redacted(value, clean), tuple(seals)

    def for_later(self, value: V) -> V:
        """A text or metadata as it may wait for a store that does not answer: what is to be sealed stands in it yet."""

        def clean(text: str) -> str:
            return cleaned(self.redactors, text, None if self.sealer is None else self.sealer.later()).text

        return _redacted(value, clean)

    @contextmanager
    def sealing(self, scope: Scope, seals: Iterable[Seal], trust: Trust = "user") -> Generator[None]:
        """Seal the values; they are taken back if what is done with them fails."""
        names = self.sealer.keep(scope, seals, trust) if self.sealer is not None else ()
        try:
            yield
        except BaseException:
            if self.sealer is not None:
                self.sealer.take_back(scope, names)
            raise

    def clean(self, value: V) -> V:
        """A text or metadata as it may be stored.

        Raises   UsageError for what is nested without end.
        """
        return _redacted(value, lambda text: self.redacted(text)[0])


def _redacted(value: V, clean: Callable[[str], str]) -> V:
    try:
        return redacted_value(value, clean)
    except RecursionError as exc:
        raise UsageError("the metadata of a memory is nested too deep; write it flatter") from exc
