"""A memory is changed: redacted, made findable anew, and its part of the profile with it."""

from __future__ import annotations

from dataclasses import replace

from offprompt.protocols import apply
from offprompt.records import Default, Memory, UpdateMemory
from offprompt.records.basis import basis_of
from offprompt.service.indexing import index_texts
from offprompt.service.memory_family import mend_profile
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.remembering import digest_of
from offprompt.service.sealing import Seal, mend_sealed


def update_memory(kit: MemoryKit, memory: Memory, change: UpdateMemory) -> Memory:
    """The memory changed.

    change   as the caller gives it, checked; what is stored of its text, metadata and tags is redacted. Its digest and
             what is derived from it are made here.
    Raises   NotFoundError, ConflictError, LimitError, UsageError; then nothing is changed.
    """
    seals: list[Seal] = []
    if change.metadata is not None:
        metadata, found = kit.sealed_value(change.metadata, memory.scope)
        seals += found
        change = replace(change, metadata=metadata)
    if change.tags is not None:
        cleaned, found = kit.sealed_value(list(change.tags), memory.scope)
        seals += found
        tags = tuple(cleaned)
        change = replace(change, tags=tags if basis_of(tags) else (*tags, *basis_of(memory.tags)))
    at = memory.event_at if isinstance(change.event_at, Default) else change.event_at
    if change.text is not None or at != memory.event_at:
        done = None if change.text is None else kit.sealed(change.text, memory.scope)
        clean = memory.text if done is None else done.text
        seals += () if done is None else done.seals
        gist = memory.gist if clean == memory.text else ""
        indexed, _ = index_texts(kit.embedder, [replace(memory, text=clean, gist=gist, event_at=at)])
        change = replace(change, text=clean, digest=digest_of(clean, memory.tags), indexed=indexed[0])
    with kit.sealing(memory.scope, seals, memory.trust):
        changed = apply(kit.memories, change)
    if changed.text != memory.text:
        mend_profile(kit, memory.scope, [memory], "hidden")
        mend_profile(kit, memory.scope, [changed], "shown")
    if (changed.text, changed.metadata, changed.tags) != (memory.text, memory.metadata, memory.tags):
        mend_sealed(kit.slots, kit.memories, memory.scope, [memory], "hidden")
    return changed
