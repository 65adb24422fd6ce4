"""Memories with what was derived from them: they are hidden, brought back and erased together."""

from __future__ import annotations

from collections.abc import Sequence

from offprompt.protocols import MemoryStore, apply
from offprompt.records import MEMORY_STATES, ListMemories, Memory, MemoryQuery, Scope


def with_derived(store: MemoryStore, memories: Sequence[Memory]) -> dict[Scope, list[str]]:
    """The ids of memories and of the facts that rules read in them alone, by their scopes.

    Left out  facts that something else said too; of hidden memories what was not hidden with them.
    Cost      O(facts of those scopes).
    """
    found: dict[Scope, list[str]] = {}
    for scope in dict.fromkeys(memory.scope for memory in memories):
        own = {memory.memory_id: memory for memory in memories if memory.scope == scope}
        facts = apply(store, ListMemories(MemoryQuery(scope, "exact", states=MEMORY_STATES, kinds=("fact",))))
        derived = [fact.memory_id for fact in facts if _belongs(fact, own.get(fact.source_id))]
        found[scope] = list(dict.fromkeys([*own, *derived]))
    return found


def _belongs(fact: Memory, source: Memory | None) -> bool:
    if source is None or fact.repeats:
        return False
    return source.state != "forgotten" or fact.state_at == source.state_at
