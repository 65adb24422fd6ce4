"""What concerns a whole scope: its events, values, order, and its removal."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from offprompt.errors import UsageError
from offprompt.records import Event, Scope, Slot
from offprompt.rest.endpoint import Call, Endpoint, Example, Shape

TAG: Final = "scopes"
MAX_PAGE: Final = 1000
MAX_NAMED: Final = 1000

Named: TypeAlias = Annotated[list[str], Meta(min_length=1, max_length=MAX_NAMED)] | Literal["all"]


class EventFind(Shape, kw_only=True, frozen=True):
    """Which events. op: the beginning of an operation's name; after: only those with a greater `seq`."""

    op: str | None = None
    after: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = MAX_PAGE


class Events(Struct):
    """Events, oldest first; never a value."""

    events: list[Event]


class RankFind(Shape, kw_only=True, frozen=True):
    """The best so many."""

    limit: Annotated[int, Meta(ge=0)] | None = None


class RankedSlot(Struct):
    """A slot and its score, the greater the better."""

    slot: Slot
    score: float


class Ranked(Struct):
    """Slots by use and importance, best first."""

    slots: list[RankedSlot]


class Snapshot(Struct):
    """All values that a scope sees, by name."""

    values: dict[str, Any]


class Erase(Shape, kw_only=True, frozen=True):
    """What is removed for good: slots by name, memories by id, or `all` of the scope; null: none.

    within   with `subtree` and `all`: of every scope below it too.
    """

    slots: Named | None = None
    memories: Named | None = None
    within: Literal["exact", "subtree"] = "exact"


class Erased(Struct):
    """How many of each."""

    slots: int = 0
    memories: int = 0


class Cleared(Struct):
    """How many of each went."""

    slots: int
    memories: int
    sessions: int


def scope(call: Call) -> Scope:
    """What the headers and the key say together; of ids that were joined the one that stands for them."""
    return call.scope.scope


def events(call: Call) -> Events:
    """Of this scope and those below it. The next page begins after the last one's `seq`."""
    query: EventFind = call.query
    return Events(call.scope.events(op=query.op, after=query.after, limit=query.limit))


def rank(call: Call) -> Ranked:
    """Those that this scope inherits."""
    return Ranked([RankedSlot(slot, score) for slot, score in call.scope.slots.rank(limit=call.query.limit)])


def snapshot(call: Call) -> Snapshot:
    """For the application, never for a prompt."""
    return Snapshot(call.scope.slots.snapshot())


def erase(call: Call) -> Erased:
    """With all their versions, what is hidden too; there is no undo."""
    body: Erase = call.body
    if body.slots is None and body.memories is None:
        raise UsageError('nothing is named; give slots or memories: names, ids, or "all"')
    return Erased(
        0 if body.slots is None else call.scope.slots.erase(*_chosen(body.slots), within=body.within),
        0 if body.memories is None else call.scope.memories.erase(*_chosen(body.memories), within=body.within),
    )


def clear(call: Call) -> Cleared:
    """With every scope below it: slots, memories, sessions, journals, bodies, ledgers; there is no undo."""
    return Cleared(**call.scope.clear())


def _chosen(named: Named) -> list[str]:
    return [] if isinstance(named, str) else named


ENDPOINTS: Final = (
    Endpoint("GET", "/v1/scope", "scope", scope, "Whose memory the request is about.", TAG, answer=Scope),
    Endpoint("GET", "/v1/events", "events", events, "What was done.", TAG, query=EventFind, answer=Events),
    Endpoint("GET", "/v1/rank", "rank_slots", rank, "Slots by use and importance.", TAG, query=RankFind, answer=Ranked),
    Endpoint("GET", "/v1/snapshot", "snapshot", snapshot, "All values of the scope.", TAG, answer=Snapshot),
    Endpoint(
        "POST",
        "/v1/erase",
        "erase",
        erase,
        "Remove slots and memories for good.",
        TAG,
        role="admin",
        body=Erase,
        answer=Erased,
        example=Example(body={"slots": ["old_address"]}),
    ),
    Endpoint("POST", "/v1/clear", "clear", clear, "Remove the scope whole.", TAG, role="admin", answer=Cleared),
)
