"""An opened memory's parts around a store that a test made itself."""

from __future__ import annotations

from offprompt.config import Settings
from offprompt.models.tokenizers import tokenizer_for
from offprompt.protocols import Clock
from offprompt.service.granting import Grants
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.parts import Parts
from offprompt.service.slot_writer import Kit
from offprompt.stores.coordination import NotedCoordinator
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.wire.prices import builtin_sheets


def parts_of(store: InProcessStore | SqliteStore, clock: Clock, settings: Settings | None = None) -> Parts:
    """The parts, without an embedder and without redaction."""
    settings, tokenizer = settings or Settings(), tokenizer_for("")
    grants = Grants(store, clock)
    kit = Kit(store, clock, tokenizer, settings, grants=grants)
    memories = MemoryAccess(store, kit, embedder_for=lambda: None, redactors=lambda: ())
    place, coordinator = ":memory:", NotedCoordinator(store, clock)
    models = builtin_sheets(), tokenizer_for, memories
    return Parts(store, store, clock, tokenizer, settings, *models, place, place, coordinator, grants)
