"""Slots that a question asks for in other words than their names have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offprompt.errors import BackendError, UnsupportedError
from offprompt.records import Slot, text_of
from offprompt.records.basis import plain_tags
from offprompt.service.turn import Turn
from offprompt.wire.referring import asks_of_oneself

FLOOR: Final = 0.2
"""The closeness, 0 for unrelated texts and 1 for the same, from which a slot is what the question asks for."""

MAX_VALUE_CHARS: Final = 200


def similar_slot(turn: Turn, text: str, slots: Sequence[Slot]) -> str:
    """The name of the one slot that a question of the user about themselves is closest to; empty if none is close.

    text     the user's own words. slots: those that may be shown when asked for.
    Cost     one vector for the question, and one for each slot whose text was not met before; none for other texts.
    """
    if not slots or not asks_of_oneself(text):
        return ""
    embedder = turn.kit.memories.kit.embedder
    if embedder is None:
        return ""
    from offprompt.models.by_kind import part_of  # noqa: PLC0415 - loads NumPy
    from offprompt.recall.chunks import embed  # noqa: PLC0415

    embedder = part_of(embedder, "fact")

    try:
        question = embed(embedder, [text], kind="query")[0]
        cosines = embed(embedder, [_told(slot) for slot in slots], kind="passage") @ question
    except (BackendError, UnsupportedError) as exc:
        turn.warnings.append(f"slots were looked for by their names alone: {exc}")
        return ""
    best = int(cosines.argmax())
    close = (float(cosines[best]) - embedder.unrelated) / (1 - embedder.unrelated)
    return slots[best].name if close >= FLOOR else ""


def _told(slot: Slot) -> str:
    """The slot as a sentence tells it: name, tags, value."""
    names = ", ".join([slot.name.replace("_", " ").replace("-", " "), *plain_tags(slot.tags)])
    return f"{names}: {text_of(slot.value)[:MAX_VALUE_CHARS]}"
