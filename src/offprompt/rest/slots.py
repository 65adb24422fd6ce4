"""Slots over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from offprompt.records import DEFAULT, Policy, Slot, SlotVersion, Within
from offprompt.rest.endpoint import Answer, Call, Endpoint, Example, Shape

TAG: Final = "slots"
CITY: Final = {"name": "city"}


class SlotWrite(Shape, frozen=True):
    """A value and what is to hold for it; what is left out stays as it is.

    ttl_s   seconds to live; null: for ever.
    """

    value: Any
    ttl_s: float | UnsetType | None = UNSET
    tags: list[str] | None = None
    importance: Annotated[float, Meta(ge=0, le=1)] | None = None
    policy: Policy | None = None
    split: bool = False
    schema: dict[str, Any] | None = None


class SlotFind(Shape, frozen=True):
    """Which slots are listed; see the library's `slots.list`."""

    names: str | None = None
    tags: list[str] = []  # noqa: RUF012 - msgspec copies it
    since: float | None = None
    until: float | None = None
    within: Within = "inherit"
    forgotten: bool = False


class EraseWithin(Shape, frozen=True):
    """Where is erased: this scope, or every one below it too."""

    within: Literal["exact", "subtree"] = "exact"


class Slots(Struct):
    """Slots by name."""

    slots: list[Slot]


class SlotVersions(Struct):
    """The kept versions of a slot, oldest first."""

    versions: list[SlotVersion]


class Name(Struct):
    """The name as stored."""

    name: str


class Count(Struct):
    """How many."""

    count: int


def write(call: Call) -> Answer:
    """Answers with the slot as stored; 201 if it was not there."""
    body: SlotWrite = call.body
    slot = call.scope.write(
        call.path["name"],
        body.value,
        ttl_s=DEFAULT if isinstance(body.ttl_s, UnsetType) else body.ttl_s,
        tags=body.tags,
        importance=body.importance,
        policy=body.policy,
        split=body.split,
        schema=body.schema,
    )
    return Answer(slot, version=str(slot.version), status=201 if slot.version == 1 else 200)


def read(call: Call) -> Answer:
    """The slot under that name, in any spelling that folds to it, in the scopes that this one inherits."""
    name = call.path["name"]
    slot = call.scope.slots.get(name)
    if slot is None:
        call.scope.slots.read(name)  # says what is spelled alike
    assert slot is not None  # noqa: S101
    return Answer(slot, version=str(slot.version))


def forget(call: Call) -> Name:
    """Hides the slot; it can be undone for a time."""
    return Name(call.scope.slots.forget(call.path["name"]))


def undo(call: Call) -> Slot:
    """Brings back what was hidden in exactly this scope."""
    return call.scope.slots.undo(call.path["name"])


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
    return Slots(found)


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
        example=Example(body={"value": "Shanghai"}, path=CITY, status=201),
    ),
    Endpoint(
        "GET",
        "/v1/slots/{name}",
        "read_slot",
        read,
        "Read a slot.",
        TAG,
        answer=Slot,
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
)
