"""Memories with what was derived from them: they are hidden, brought back and erased together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from offprompt.protocols import MemoryStore, apply
from offprompt.recall.derive.answers import answer_of
from offprompt.recall.derive.deriving import derive
from offprompt.recall.derive.records import Derived, Turn
from offprompt.records import MEMORY_STATES, Added, ListMemories, Memory, MemoryQuery, Scope
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.profile import ProfileWriter


def with_derived(store: MemoryStore, memories: Sequence[Memory]) -> dict[Scope, list[Memory]]:
    """Memories and the facts that rules read in them alone, by their scopes.

    Left out  facts that something else said too; of hidden memories what was not hidden with them.
    Cost      O(facts of those scopes).
    """
    found: dict[Scope, list[Memory]] = {}
    for scope in dict.fromkeys(memory.scope for memory in memories):
        own = {memory.memory_id: memory for memory in memories if memory.scope == scope}
        facts = apply(store, ListMemories(MemoryQuery(scope, "exact", states=MEMORY_STATES, kinds=("fact",))))
        derived = {fact.memory_id: fact for fact in facts if _belongs(fact, own.get(fact.source_id))}
        found[scope] = list({**derived, **own}.values())
    return found


def _belongs(fact: Memory, source: Memory | None) -> bool:
    if source is None or fact.repeats:
        return False
    return source.state != "forgotten" or fact.state_at == source.state_at


def mend_profile(
    kit: MemoryKit, scope: Scope, memories: Sequence[Memory], became: Literal["hidden", "shown", "erased"]
) -> None:
    """Let the profile's slots follow what became of a family of memories, as far as rules filled them from these.

    What is in a slot from elsewhere stays.
    """
    profile = ProfileWriter(kit.slots, scope, "user")
    for fact, memory in _told(memories):
        if became == "shown":
            now = _state(kit.memories, memory)
            profile.write(fact, Added("added" if now == "live" else "superseded", memory), None)
        else:
            profile.take_back(fact, for_good=became == "erased")


def _state(store: MemoryStore, memory: Memory) -> str:
    """A memory's state as it is now."""
    query = MemoryQuery(memory.scope, "exact", states=MEMORY_STATES, ids=(memory.memory_id,))
    return next((one.state for one in apply(store, ListMemories(query))), "")


def _told(memories: Sequence[Memory]) -> Iterator[tuple[Derived, Memory]]:
    """What the memories say for the profile, read once more, each with the one of them that holds the fact."""
    facts = {(one.subject, one.attribute): one for one in memories if one.attribute}
    # Most of a thousand that are erased together told nothing, and reading one again costs more than to erase it.
    telling = {one.source_id or one.memory_id for one in memories if one.attribute}
    for memory in memories:
        if (answer := answer_of(memory.rule, memory.quote)) is not None:
            yield answer, memory
        if memory.memory_id in telling and memory.role in ("", "user") and not memory.source_id:
            turn = Turn("0", memory.text, "user", memory.speaker, memory.event_at)
            for fact in derive([turn], memory.created_at):
                if fact.slot and (holder := facts.get((fact.subject.casefold(), fact.key))) is not None:
                    yield fact, holder
