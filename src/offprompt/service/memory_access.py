"""The memories of an opened memory, made ready with the first of them: NumPy and the rules are not loaded before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from offprompt.protocols import Embedder, MemoryStore, Redactor, VectorSearch
from offprompt.records import APPLICATION, Actor, Cancel, Scope
from offprompt.service.extract_background import Background, extract_model
from offprompt.service.granting import Grants
from offprompt.service.holding import Holds
from offprompt.service.model_calls import ModelCalls
from offprompt.service.sealing import Clean, Sealer, cleaned
from offprompt.service.slot_writer import Kit
from offprompt.service.spooling import Spool
from offprompt.service.telling_store import TellingStore
from offprompt.service.tombstones import Tombstones

if TYPE_CHECKING:
    from offprompt.service.extracting import Extracted
    from offprompt.service.memories import Memories
    from offprompt.service.memory_kit import MemoryKit


KEPT_TEXTS: Final = 4096
"""Texts of which it is known how they are stored: a session looks at its messages with each request."""


class MemoryAccess:
    """One kit for all scopes of an opened memory. Thread-safe.

    embedder_for  makes the embedder, None for none; called once. redactors: what runs before anything is stored.
    background    what lets a language model read turns later; it does nothing until it is told of some.
    sealer        puts what is taken out into slots; None: marks stand there alone.
    vectors_for   makes the index that knows what lies close, for the embedder; None: what is loaded has its vectors.
    """

    def __init__(
        self,
        store: MemoryStore,
        slots: Kit,
        *,
        embedder_for: Callable[[], Embedder | None],
        redactors: Callable[[], Sequence[Redactor]],
        models: ModelCalls | None = None,
        vectors_for: Callable[[Embedder], VectorSearch] | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self.store = store if vectors_for is None else TellingStore(store, lambda: self.kit.vectors)
        self._engine, self._slots = store, slots
        self._embedder_for, self._redactors, self._vectors_for = embedder_for, redactors, vectors_for
        self._lock = threading.Lock()
        self.models, self.sealer = models, sealer
        settings = slots.settings
        self.background = Background(
            self._extract, slots.clock, turns=settings.extract_turns, every_s=settings.extract_every_s
        )
        self._kit: MemoryKit | None = None
        self.cleaned = lru_cache(KEPT_TEXTS)(self._cleaned)

    def redacted(self, text: str) -> str:
        """The text as it may be stored, with marks alone."""
        return self.cleaned(text).text

    def _cleaned(self, text: str, scope: Scope | None = None) -> Clean:
        """The text as it may be stored; in a scope, with handles in place of what is to be sealed there."""
        return cleaned(self._redactors(), text, self.sealer, scope)

    @property
    def kit(self) -> MemoryKit:
        """What the services of memories share."""
        from offprompt.service.memory_index import IndexCache  # noqa: PLC0415 - loads NumPy
        from offprompt.service.memory_kit import MemoryKit  # noqa: PLC0415
        from offprompt.service.memory_uses import Uses  # noqa: PLC0415
        from offprompt.service.vector_link import VectorLink  # noqa: PLC0415

        with self._lock:
            if self._kit is None:
                embedder = self._embedder_for()
                clock, vectors = self._slots.clock, None
                if embedder is not None and self._vectors_for is not None:
                    vectors = VectorLink(self._vectors_for(embedder), self._engine, embedder, clock)
                self._kit = MemoryKit(
                    self.store,
                    clock,
                    self._slots.settings,
                    embedder,
                    tuple(self._redactors()),
                    self._slots,
                    IndexCache(embedder, vectors=vectors is None or vectors.words is not None),
                    Uses(self.store, clock),
                    vectors,
                    models=self.models,
                    background=self.background,
                    sealer=self.sealer,
                )
            return self._kit

    @property
    def grants(self) -> Grants | None:
        """Who finds what spaces and agents hold; None: nobody."""
        return self._slots.grants

    @property
    def holds(self) -> Holds | None:
        """Legal holds; None: there are none."""
        return self._slots.holds

    @property
    def stones(self) -> Tombstones | None:
        """Who was erased, and which consents were withdrawn; None: nobody, none."""
        return self._slots.stones

    @property
    def spool(self) -> Spool | None:
        """Writes that wait; None: none is kept."""
        return self._slots.spool

    @property
    def has_index(self) -> bool:
        """Whether vectors are in an index of their own."""
        return self._vectors_for is not None

    def _extract(self, scope: Scope, cancel: Cancel) -> Extracted:
        """Let the language model that is set for it read what waits in a scope."""
        from offprompt.service.consolidating import rules_of  # noqa: PLC0415 - loads NumPy and the rules
        from offprompt.service.extracting import Extractor  # noqa: PLC0415

        kit = self.kit
        return Extractor(kit, scope, extract_model(self.models), rules_of(kit.settings)).run(cancel=cancel)

    def of(self, scope: Scope, actor: Actor = APPLICATION) -> Memories:
        """The memories of a scope; actor: whose doing what is done there is."""
        from offprompt.service.memories import Memories  # noqa: PLC0415 - loads NumPy and the rules

        return Memories(self.kit, scope, actor)

    def drop(self, scope: Scope) -> None:
        """Let go of the texts that are kept in memory of a scope that was erased."""
        self.cleaned.cache_clear()
        if self._kit is not None:
            self._kit.index.drop(scope)

    def flush(self) -> None:
        """Store the uses that wait."""
        if self._kit is not None:
            self._kit.uses.flush()

    def close(self) -> None:
        """Break off what a language model reads, store the uses that wait, and let go of the vector index."""
        self.background.close()
        try:
            self.flush()
        finally:
            if self._kit is not None and self._kit.vectors is not None and self._kit.vectors.outside is not None:
                self._kit.vectors.outside.close()
