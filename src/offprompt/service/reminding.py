"""What a user's words ask of a memory, as a frame for one request that somebody else makes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

from offprompt.records import Memory, Slot, text_of
from offprompt.service.bound import BoundScope
from offprompt.service.exporting import secret_hider
from offprompt.service.offprompt import Offprompt
from offprompt.service.session_kit import date_of
from offprompt.wire.asking import asked_for
from offprompt.wire.head import ShownValue, frame, language_of, memory_source
from offprompt.wire.referring import asks_of_oneself, is_question, refers_back

FLOOR: Final = 0.4
"""Evidence from which a memory is shown: a session's own."""

MAX_MEMORIES: Final = 5


def reminder(memory: Offprompt, bound: BoundScope, text: str, *, is_held: Callable[[Memory], bool]) -> str:
    """The values and memories that a user's text asks for, framed as data; empty where it asks for none.

    Slots     that may be shown by themselves (`when_asked`, `card`), asked for by name, alias or identity.
    Memories  where the text asks for something that concerns the user, or refers back; not what the request holds.
    is_held   whether the request holds what a memory says. Limit: the setting `shown_tokens`.
    Stable    the same text and memory give the same bytes: the frame's mark is a digest of what stands in it.
    """
    count, left = memory.parts.tokenizer.count, memory.parts.settings.shown_tokens
    shown: list[ShownValue] = []
    for value in (*_slots(bound, text), *_memories(bound, text, is_held)):
        if (tokens := count(value.text) + count(value.name)) <= left:
            shown.append(value)
            left -= tokens
    if not shown:
        return ""
    hide = secret_hider(memory.parts.memories.kit, bound.scope)
    values = [ShownValue(each.name, hide(each.text), each.source, each.date) for each in shown]
    mark = hashlib.blake2b(repr(values).encode(), digest_size=4).hexdigest()
    return frame(values, mark)


def _slots(bound: BoundScope, text: str) -> Iterator[ShownValue]:
    slots: dict[str, Slot] = {each.name: each for each in bound.slots.list() if each.policy in ("when_asked", "card")}
    for name in asked_for(text, {name: slot.tags for name, slot in slots.items()}):
        slot = slots[name]
        source = "tool" if slot.trust == "tool" else slot.source
        yield ShownValue(name, text_of(slot.value), source, date_of(slot.updated_at))


def _memories(bound: BoundScope, text: str, is_held: Callable[[Memory], bool]) -> Iterator[ShownValue]:
    if not (asks_of_oneself(text) or refers_back(text)) or not bound.memories.list(limit=1):
        return
    language = language_of(text)
    found = [hit.memory for hit in bound.recall(text, top_k=MAX_MEMORIES, floor=FLOOR)]
    ids = {one.memory_id for one in found}
    for one in found:
        if one.source_id in ids:  # its turn says the same, in the user's words
            continue
        asks = one.role == "user" and one.kind == "episode" and is_question(one.text)
        if not asks and not is_held(one):
            speaker = "tool" if one.trust == "tool" else one.role or one.source
            yield ShownValue(one.memory_id, one.text, memory_source(speaker, language), date_of(one.happened_at))
