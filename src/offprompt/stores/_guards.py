"""What models may do with slots: locks, places of handles, how often they write; functions of what is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from offprompt.errors import ConflictError, LimitError, NotFoundError, UsageError
from offprompt.records import GuardSlot, PutSlot, Slot, Source

MINUTE_S: Final = 60.0
MAX_PLACES: Final = 16


def check_lock(source: Source, held: Slot | None) -> None:
    """Nothing, unless a model would change a locked slot, hidden or not.

    Raises   ConflictError.
    """
    if source == "model" and held is not None and held.locked:
        raise ConflictError(
            f"the application has locked the name {held.name!r}: models may neither write nor forget it; "
            "unlock it first, or let the application write it"
        )


def check_shared(op: PutSlot, name: str) -> None:
    """Nothing, unless foreign text would become what everyone reads.

    Raises   ConflictError.
    """
    if op.trust == "tool" and op.scope.shared:
        raise ConflictError(
            f"slot {name!r} would be shared with trust 'tool'; write it in a user's or session's scope, "
            "or let the application write it"
        )


def recent_writes(op: PutSlot, name: str, held: Slot | None, now: float) -> tuple[float, ...]:
    """The times of the model's newest writes, with this one if it is the model's.

    Raises   LimitError if it is one too many for a minute.
    """
    before = held.recent if held is not None else ()
    limit = op.limits.model_writes
    if op.source != "model" or not limit:
        return before
    # Times later than now are of a clock that was turned back: they count for nothing.
    before = tuple(at for at in before if now - MINUTE_S < at <= now)
    if len(before) >= limit:
        raise LimitError(
            f"slot {name!r} written by the model",
            used=len(before) + 1,
            limit=limit,
            unit="writes a minute",
            way_out="write it later, or raise writes_per_minute",
        )
    return (*before, now)


def plan_guard(op: GuardSlot, live: Slot | None) -> Slot:
    """The slot with its places and its lock changed; `live`: None if reads do not find it.

    Raises   NotFoundError if it is not there; UsageError for places of a slot that is not `never`; LimitError for more
             than 16 of them.
    """
    if live is None:
        raise NotFoundError(
            f"no slot {op.name!r} in scope {op.scope}; write it there first, or name the scope that it is in",
            name=op.name,
        )
    if op.allow and live.policy != "never":
        raise UsageError(
            f"slot {live.name!r} has the policy {live.policy!r}, whose handle works anywhere; "
            "write it with policy='never' first, then allow its places"
        )
    places = tuple(place for place in dict.fromkeys([*live.allow, *op.allow]) if place not in op.disallow)
    if len(places) > MAX_PLACES:
        raise LimitError(
            f"slot {live.name!r} with its places",
            used=len(places),
            limit=MAX_PLACES,
            unit="places",
            way_out="disallow one first",
        )
    return replace(live, allow=places, locked=live.locked if op.locked is None else op.locked)
