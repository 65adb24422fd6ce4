"""What is known of a user: a list that the user can see, correct, pin and forget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from offprompt.errors import NotFoundError, UsageError
from offprompt.recall.derive.records import USER, topic_of
from offprompt.records import RULES, Known, Memory, Scope, Slot, Within, text_of
from offprompt.records.scope import bare_of
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.slot_writer import Writer
from offprompt.service.slots import Slots

if TYPE_CHECKING:  # NumPy is loaded with the first memory, not with the first slot
    from offprompt.service.memories import Memories

PAGE: Final = 1000


def known(slots: Slots, memories: Memories, limit: int = 100, *, agents: bool = False) -> list[Known]:
    """Slots and facts of a scope and those that it inherits: pinned ones first, then the newest.

    agents   of a user's scope, which names no agent: what each agent keeps for the user too.
    Once     a fact that a slot of the profile says already is told by the slot.
    Secrets  values of policy `never` are not told, their names are.
    Cost     reads the scope's slots and facts, whatever the limit: the newest facts are the last ones.
    Raises   UsageError for a limit under 1.
    """
    if isinstance(limit, bool) or limit < 1:
        raise UsageError(f"limit={limit!r}: give 1 or more")
    scope = bare_of(slots.scope)
    if agents and scope.user is not None and scope.agent is None and scope.session is None:
        found = _of_all_agents(scope, slots, memories)
    else:
        found = _once(slots.list(), _facts(memories))
    return sorted(found, key=lambda one: (not one.pinned, -one.at, one.name))[:limit]


def _once(listed: Iterable[Slot], facts: Iterable[Memory]) -> list[Known]:
    listed = [slot for slot in listed if not slot.name.startswith(".")]
    told = {topic_of(slot.name) for slot in listed if slot.actor == RULES}
    return [*map(_of_slot, listed), *(_of(one) for one in facts if _topic(one) not in told)]


def _of_all_agents(user: Scope, slots: Slots, memories: Memories) -> list[Known]:
    """What a user's scope finds of its own, and what each agent keeps for the user."""
    own = set(user.inherited())
    listed: dict[Scope, list[Slot]] = {user: [slot for slot in slots.list() if slot.scope in own]}
    facts: dict[Scope, list[Memory]] = {user: [one for one in _facts(memories) if one.scope in own]}
    for slot in slots.list(within="subtree"):
        if slot.scope not in own and slot.scope.session is None:
            listed.setdefault(slot.scope, []).append(slot)
    for one in _facts(memories, "subtree"):
        if one.scope not in own and one.scope.session is None:
            facts.setdefault(one.scope, []).append(one)
    return [one for scope in {**listed, **facts} for one in _once(listed.get(scope, ()), facts.get(scope, ()))]


def correct(slots: Slots, memories: Memories, name: str, text: str) -> Known:
    """Put another text in place of what is known under a name: a slot's new version, or a fact's.

    A part of the profile that rules read stands in facts too: the new one replaces them.
    Raises   NotFoundError if nothing is known under the name, naming what is spelled alike.
    """
    if name.startswith(RESERVED_PREFIX):
        return _of(memories.update(name, text=text))
    current = slots.get(name, touch=False)
    if current is None:
        raise slots.missing(name)
    if current.actor != RULES:
        return _of_slot(slots.write(name, text, policy=current.policy))
    before = facts_behind(memories, current)
    done = memories.upsert_fact(USER, current.name, text)
    if others := [one for one in before if one not in done.replaced]:
        memories.forget(*others)
    return _of_slot(slots.get(name, touch=False) or current)


def forget_behind(memories: Memories, slot: Slot, writer: Writer) -> None:
    """Hide the facts that say what a slot of the profile said, which was forgotten or says something else now."""
    memories.forget(*facts_behind(memories, slot), actor=writer.actor, trust=writer.trust)


def facts_behind(memories: Memories, slot: Slot) -> list[str]:
    """The ids of the facts that say what a slot of the profile says. Cost: O(facts)."""
    return [one.memory_id for one in _facts(memories) if _topic(one) == topic_of(slot.name)]


def _facts(memories: Memories, within: Within = "inherit") -> Iterator[Memory]:
    """All facts of the scope and those that it inherits, or that lie below it, in order of creation."""
    page = memories.list(kinds=["fact"], limit=PAGE, within=within)
    yield from page
    while page.cursor:
        page = memories.list(kinds=["fact"], limit=PAGE, cursor=page.cursor, within=within)
        yield from page


def _topic(memory: Memory) -> tuple[str, str]:
    return memory.subject, memory.attribute.partition(":")[0]


def pin(memories: Memories, name: str, *, pinned: bool = True) -> Known:
    """Keep a fact for ever and list it first; or no longer.

    Raises   NotFoundError for what is no fact's id: a slot's life is its ttl.
    """
    if not name.startswith(RESERVED_PREFIX):
        raise NotFoundError(
            f"no fact {name[:40]!r}; pin a fact by its id (m_…), as `known` has it; slots without a ttl never expire",
            name=name[:40],
        )
    return _of(memories.update(name, pinned=pinned))


def _of(memory: Memory) -> Known:
    said = (memory.source, memory.trust, memory.happened_at, memory.pinned, memory.purpose, memory.consent)
    return Known(memory.memory_id, "fact", memory.text, *said, agent=memory.scope.agent or "")


def _of_slot(slot: Slot) -> Known:
    text = "" if slot.policy == "never" else text_of(slot.value)
    said = (slot.source, slot.trust, slot.updated_at)
    rests = (slot.purpose, slot.consent, slot.scope.agent or "")
    return Known(slot.name, "slot", text, *said, False, *rests)  # noqa: FBT003 - the record's order
