"""Slots over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from offprompt.errors import UsageError
from offprompt.records import DEFAULT, Place, Policy, Slot, SlotVersion, Within
from offprompt.records.slot import fold_name
from offprompt.rest.cursors import MAX_PAGE, page_of
from offprompt.rest.endpoint import Answer, Call, Endpoint, Example, Shape
from offprompt.rest.session_shapes import Basis
from offprompt.rest.versions import expected_version, tag_of

TAG: Final = "slots"
CITY: Final = {"name": "city"}


Seconds: TypeAlias = Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0})]
"""Above 0, as the documents say; that it is, is looked at where the library looks, in its words."""


class SlotWrite(Shape, frozen=True):
    """A value and what is to hold for it; what is left out stays as it is.

    ttl_s   seconds to live; null: for ever. purpose: what it may be used for. consent: what it rests on.
    """

    value: Any
    ttl_s: Seconds | UnsetType | None = UNSET
    tags: list[str] | None = None
    importance: Annotated[float, Meta(ge=0, le=1)] | None = None
    policy: Policy | None = None
    split: bool = False
    schema: dict[str, Any] | None = None
    purpose: Basis | None = None
    consent: Basis | None = None


class SlotFind(Shape, frozen=True):
    """Which slots are listed; see the library's `slots.list`. cursor: what the page before says; empty: the first."""

    names: str | None = None
    tags: list[str] = []  # noqa: RUF012 - msgspec copies it
    since: float | None = None
    until: float | None = None
    within: Within = "inherit"
    forgotten: bool = False
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = MAX_PAGE


class Look(Shape, frozen=True):
    """Whether the look counts as a use."""

    touch: bool = True


class Guarding(Shape, frozen=True):
    """What is to be different: places in which the handle of a `never` slot resolves, and whether models may write."""

    allow: list[Place] = []  # noqa: RUF012 - msgspec copies it
    disallow: list[Place] = []  # noqa: RUF012
    locked: bool | None = None


class EraseWithin(Shape, frozen=True):
    """Where is erased: this scope, or every one below it too."""

    within: Literal["exact", "subtree"] = "exact"


class Slots(Struct):
    """Slots by name; of several scopes one after the other. cursor: of the next page, empty on the last."""

    slots: list[Slot]
    cursor: str = ""


class SlotVersions(Struct):
    """The kept versions of a slot, oldest first."""

    versions: list[SlotVersion]


class Name(Struct):
    """The name as stored."""

    name: str


class Guarded(Struct):
    """What holds for models and for the slot's handle."""

    locked: bool
    allow: tuple[Place, ...]


class Count(Struct):
    """How many."""

    count: int


def shown(slot: Slot, status: int = 200) -> Answer:
    """A slot with its tag."""
    kept = (slot.scope, slot.created_at, slot.updated_at, slot.policy, slot.tags, slot.importance, slot.ttl_s)
    return Answer(slot, version=tag_of(slot.version, *kept, slot.locked, slot.allow), status=status)


def wanted_version(call: Call, *, is_exact: bool) -> int | None:
    """The version that the change is asked of. is_exact: of this very scope, not of one that it inherits."""

    def current() -> tuple[int, str] | None:
        slot = call.scope.slots.get(call.path["name"], touch=False)
        is_there = slot is not None and (slot.scope == call.scope.scope or not is_exact)
        return (slot.version, shown(slot).version) if slot is not None and is_there else None

    return expected_version(call, current)


def write(call: Call) -> Answer:
    """Answers with the slot as stored; 201 if it was not there.

    With If-Match it is written only over that version, with `If-None-Match: *` only if none is there: else 412.
    """
    body: SlotWrite = call.body
    slot = call.scope.write(
        call.path["name"],
        body.value,
        ttl_s=DEFAULT if isinstance(body.ttl_s, UnsetType) else body.ttl_s,
        tags=body.tags,
        importance=body.importance,
        policy=body.policy,
        if_version=wanted_version(call, is_exact=True),
        split=body.split,
        schema=body.schema,
        purpose=body.purpose,
        consent=body.consent,
    )
    # One that is begun anew behind a hidden one goes on counting, and is as old as this write.
    return shown(slot, 201 if slot.version == 1 or slot.created_at == slot.updated_at else 200)


def read(call: Call) -> Answer:
    """The slot under that name, in any spelling that folds to it, in the scopes that this one inherits.

    With If-None-Match and the tag of what is there: 304.
    """
    name = call.path["name"]
    slot = call.scope.slots.get(name, touch=call.query.touch)
    if slot is None:
        raise call.scope.slots.missing(name)
    return shown(slot)


def guards(call: Call) -> Guarded:
    """Where its handle resolves, if it is a `never` slot, and whether models may write it."""
    slot = call.scope.slots.get(call.path["name"], touch=False)
    places = call.scope.slots.allowed(call.path["name"])
    return Guarded(slot is not None and slot.locked, places)


def guard(call: Call) -> Answer:
    """Changes what is named, and nothing else. Each change is a step of its own."""
    body: Guarding = call.body
    slots, name = call.scope.slots, call.path["name"]
    slot: Slot | None = None
    for place in body.allow:
        slot = slots.allow(name, place.tool, place.argument, host=place.host)
    for place in body.disallow:
        slot = slots.disallow(name, place.tool, place.argument, host=place.host)
    if body.locked is not None:
        slot = slots.lock(name) if body.locked else slots.unlock(name)
    if slot is None:
        raise UsageError("nothing is to be changed: name one of allow, disallow, locked")
    return shown(slot)


def forget(call: Call) -> Name:
    """Hides the slot; it can be undone for a time. With If-Match only that version."""
    return Name(call.scope.slots.forget(call.path["name"], if_version=wanted_version(call, is_exact=False)))


def undo(call: Call) -> Answer:
    """Brings back what was hidden in exactly this scope."""
    return shown(call.scope.slots.undo(call.path["name"]))


def erase(call: Call) -> Count:
    """Removes the slot with all its versions, for good."""
    return Count(call.scope.slots.erase(call.path["name"], within=call.query.within))


def list_slots(call: Call) -> Slots:
    """The slots that fit all conditions, by name."""
    query: SlotFind = call.query
    found = call.scope.slots.list(
        query.names,
        tags=query.tags,
        since=query.since,
        until=query.until,
        within=query.within,
        forgotten=query.forgotten,
    )

    def place(slot: Slot) -> tuple[str, ...]:
        return (*(() if query.within == "inherit" else slot.scope.key), fold_name(slot.name))

    return Slots(*page_of(found, place, cursor=query.cursor, limit=query.limit))


def history(call: Call) -> SlotVersions:
    """Its kept versions, oldest first."""
    return SlotVersions(call.scope.slots.history(call.path["name"]))


ENDPOINTS: Final = (
    Endpoint("GET", "/v1/slots", "list_slots", list_slots, "List slots.", TAG, query=SlotFind, answer=Slots),
    Endpoint(
        "PUT",
        "/v1/slots/{name}",
        "write_slot",
        write,
        "Write a slot.",
        TAG,
        role="write",
        body=SlotWrite,
        answer=Slot,
        is_versioned=True,
        runs="quick",
        example=Example(body={"value": "Shanghai"}, path=CITY, status=201),
    ),
    Endpoint(
        "GET",
        "/v1/slots/{name}",
        "read_slot",
        read,
        "Read a slot.",
        TAG,
        query=Look,
        answer=Slot,
        is_versioned=True,
        runs="quick",
        example=Example(path=CITY, before=("write_slot",)),
    ),
    Endpoint(
        "DELETE",
        "/v1/slots/{name}",
        "forget_slot",
        forget,
        "Hide a slot.",
        TAG,
        role="write",
        answer=Name,
        is_versioned=True,
        runs="quick",
        example=Example(path=CITY, before=("write_slot",)),
    ),
    Endpoint(
        "POST",
        "/v1/slots/{name}/undo",
        "undo_slot",
        undo,
        "Bring a hidden slot back.",
        TAG,
        role="write",
        answer=Slot,
        example=Example(path=CITY, before=("write_slot", "forget_slot")),
    ),
    Endpoint(
        "POST",
        "/v1/slots/{name}/erase",
        "erase_slot",
        erase,
        "Remove a slot for good.",
        TAG,
        role="admin",
        query=EraseWithin,
        answer=Count,
        example=Example(path=CITY, before=("write_slot",)),
    ),
    Endpoint(
        "GET",
        "/v1/slots/{name}/history",
        "slot_history",
        history,
        "The versions of a slot.",
        TAG,
        answer=SlotVersions,
        example=Example(path=CITY, before=("write_slot",)),
    ),
    Endpoint(
        "GET",
        "/v1/slots/{name}/guard",
        "slot_guards",
        guards,
        "What holds for models, and for the slot's handle.",
        TAG,
        answer=Guarded,
        example=Example(path=CITY, before=("write_slot",)),
    ),
    Endpoint(
        "POST",
        "/v1/slots/{name}/guard",
        "guard_slot",
        guard,
        "Allow places to the slot's handle, lock it for models.",
        TAG,
        role="write",
        body=Guarding,
        answer=Slot,
        example=Example(body={"locked": True}, path=CITY, before=("write_slot",)),
    ),
)
