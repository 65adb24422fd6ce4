"""The three short routes that agents know: write, read, forget."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from offprompt.rest.endpoint import Call, Endpoint, Example, Shape

TAG: Final = "mem"


class Write(Shape, frozen=True):
    """A value for a slot."""

    slot: str
    value: Any


class Named(Shape, frozen=True):
    """A slot by its name."""

    slot: str


class Written(Struct):
    """What was written: name and version; never the value."""

    slot: str
    version: int


class Value(Struct):
    """A slot's value."""

    slot: str
    value: Any


class Forgotten(Struct):
    """What was hidden."""

    slot: str


def write(call: Call) -> Written:
    """The value is stored when this is answered."""
    body: Write = call.body
    slot = call.scope.write(body.slot, body.value)
    return Written(slot.name, slot.version)


def read(call: Call) -> Value:
    """The value, from the scopes that this one inherits."""
    query: Named = call.query
    return Value(query.slot, call.scope.read(query.slot))


def forget(call: Call) -> Forgotten:
    """Hides the slot; `undo` brings it back for a time."""
    body: Named = call.body
    return Forgotten(call.scope.slots.forget(body.slot))


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/mem/write",
        "mem_write",
        write,
        "Write a slot.",
        TAG,
        role="write",
        body=Write,
        answer=Written,
        runs="quick",
        example=Example(body={"slot": "user_pref", "value": "concise, Chinese"}),
    ),
    Endpoint(
        "GET",
        "/mem/read",
        "mem_read",
        read,
        "Read a slot.",
        TAG,
        query=Named,
        answer=Value,
        runs="quick",
        example=Example(query={"slot": "user_pref"}, before=("mem_write",)),
    ),
    Endpoint(
        "POST",
        "/mem/forget",
        "mem_forget",
        forget,
        "Hide a slot.",
        TAG,
        role="write",
        body=Named,
        answer=Forgotten,
        runs="quick",
        example=Example(body={"slot": "user_pref"}, before=("mem_write",)),
    ),
)
