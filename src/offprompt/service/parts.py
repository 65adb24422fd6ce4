"""Parts: what an opened memory is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from offprompt.config import Settings
from offprompt.protocols import Clock, Coordinator, SessionStore, SlotStore, Store, Tokenizer
from offprompt.service.granting import Grants
from offprompt.service.holding import Holds
from offprompt.service.leak_watch import LeakWatches
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.model_calls import ModelCalls
from offprompt.service.quotas import Quotas
from offprompt.service.spooling import Spool
from offprompt.wire.prices import PriceSheet


@dataclass(frozen=True, slots=True)
class Parts:
    """What an opened memory is made of.

    main     the engine of memories, sessions and all the rest. slots: that of the slots, the same one or another.
    url      as it was given, without passwords. place: the same from whatever folder, and without the vectors' engine.
    coordinator  what processes that use these engines agree on. spool: writes that wait; None: none is kept.
    grants   who finds what spaces and agents hold; one object, which knows what was read of them.
    quotas   what an app may store and ask for; None: anything.
    """

    slots: SlotStore
    main: Store
    clock: Clock
    tokenizer: Tokenizer
    settings: Settings
    sheets: Sequence[PriceSheet]
    tokenizer_for: Callable[[str], Tokenizer]
    memories: MemoryAccess
    url: str
    place: str
    coordinator: Coordinator
    grants: Grants
    spool: Spool | None = None
    watches: LeakWatches = field(default_factory=LeakWatches)
    quotas: Quotas | None = None

    @property
    def models(self) -> ModelCalls | None:
        """The language models for memory, by purpose."""
        return self.memories.models

    @property
    def holds(self) -> Holds:
        """The legal holds: whose records are not erased."""
        return Holds(self.main, self.clock)

    @property
    def sessions(self) -> SessionStore:
        """The store of sessions."""
        return self.main
