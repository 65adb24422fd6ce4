"""What is known of a user: a list that the user can see, correct, pin and forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offprompt.errors import NotFoundError, UsageError
from offprompt.recall.derive.records import USER
from offprompt.records import RULES, Known, Memory, Slot, text_of
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.slots import Slots

if TYPE_CHECKING:  # NumPy is loaded with the first memory, not with the first slot
    from offprompt.service.memories import Memories

MOST: Final = 1000
JOINT: Final = "; "


def known(slots: Slots, memories: Memories, limit: int = 100) -> list[Known]:
    """Slots and facts of a scope and those that it inherits: pinned ones first, then the newest.

    Once     a fact that a slot of the profile says already is told by the slot.
    Secrets  values of policy `never` are not told, their names are.
    Cost     reads the scope's slots, and its newest MOST facts.
    Raises   UsageError for a limit under 1.
    """
    if isinstance(limit, bool) or limit < 1:
        raise UsageError(f"limit={limit!r}: give 1 or more")
    found: list[Known] = []
    told: set[str] = set()
    for slot in slots.list():
        if slot.name.startswith("."):
            continue
        found.append(_of_slot(slot))
        if slot.actor == RULES:
            told |= {part.casefold() for part in found[-1].text.split(JOINT)}
    facts = memories.list(kinds=["fact"], limit=MOST)
    found += [_of(one) for one in facts if not (one.attribute and any(part in one.text.casefold() for part in told))]
    return sorted(found, key=lambda one: (not one.pinned, -one.at, one.name))[:limit]


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
    before = [one for one in memories.list(kinds=["fact"], limit=MOST) if _is_about(one, current.name)]
    done = memories.upsert_fact(USER, current.name, text)
    if others := [one.memory_id for one in before if one.memory_id not in done.replaced]:
        memories.forget(*others)
    return _of_slot(slots.get(name, touch=False) or current)


def _is_about(memory: Memory, name: str) -> bool:
    return memory.subject == USER and memory.attribute.partition(":")[0] == name


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
    said = (memory.source, memory.trust, memory.happened_at)
    return Known(memory.memory_id, "fact", memory.text, *said, pinned=memory.pinned)


def _of_slot(slot: Slot) -> Known:
    text = "" if slot.policy == "never" else text_of(slot.value)
    return Known(slot.name, "slot", text, slot.source, slot.trust, slot.updated_at)
