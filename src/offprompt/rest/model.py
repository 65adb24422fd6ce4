"""What a model writes and forgets, as who speaks for one says it: less than its key may, by the rules of sessions."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from offprompt.records import Remembered, Slot, Trust
from offprompt.rest.endpoint import Call, Endpoint, Example, Shape
from offprompt.service.model_doors import StoreDoor
from offprompt.service.model_memory import ModelMemory

TAG: Final = "model"
CITY: Final = {"name": "city"}

Version = Annotated[int, Meta(ge=0)]


class ModelWrite(Shape, kw_only=True, frozen=True):
    """A value that a model gives to a slot. trust: `tool` if untrusted text led to it.

    if_version   the version that must be there, 0: none.
    """

    name: str
    value: Any
    if_version: Version | None = None
    trust: Trust = "user"


class ModelRemember(Shape, kw_only=True, frozen=True):
    """A sentence of a model."""

    text: str
    trust: Trust = "user"


class ModelCorrect(Shape, kw_only=True, frozen=True):
    """A memory's id, with what is to be of it; null: as it is."""

    name: str
    text: Annotated[str, Meta(min_length=1)] | None = None
    pinned: bool | None = None
    trust: Trust = "user"


class ModelForget(Shape, kw_only=True, frozen=True):
    """A slot's name, or a memory's id."""

    name: str
    if_version: Version | None = None
    trust: Trust = "user"


class ModelRemembered(Struct):
    """What became of it, followed by what rules derived from it."""

    remembered: list[Remembered]


class ModelForgot(Struct):
    """The name as stored, or the id."""

    name: str


def write(call: Call) -> Slot:
    """The slot as stored. Locked names, secrets, `lock_names` and `writes_per_minute` hold as in sessions."""
    body: ModelWrite = call.body
    return _memory(call, body.trust).write(body.name, body.value, if_version=body.if_version)


def remember(call: Call) -> ModelRemembered:
    """Stored with the source `model` when it is answered, and found by meaning from then on."""
    body: ModelRemember = call.body
    return ModelRemembered(_memory(call, body.trust).remember(body.text))


def correct(call: Call) -> ModelForgot:
    """Its versions are kept. `tool` replaces nothing that the user said, and pins nothing."""
    body: ModelCorrect = call.body
    return ModelForgot(_memory(call, body.trust).correct(body.name, body.text, pinned=body.pinned))


def forget(call: Call) -> ModelForgot:
    """Hides it; `undo` brings it back for a time. What is locked, secret, or another's stays."""
    body: ModelForget = call.body
    return ModelForgot(_memory(call, body.trust).forget(body.name, if_version=body.if_version))


def _memory(call: Call, trust: Trust) -> ModelMemory:
    return ModelMemory(StoreDoor(call.memory.parts, call.scope, trust=trust, via="mcp", op_key=call.op_key))


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/v1/model/write",
        "model_write",
        write,
        "Write a slot as a model.",
        TAG,
        role="write",
        body=ModelWrite,
        answer=Slot,
        example=Example(body={**CITY, "value": "Shanghai"}),
    ),
    Endpoint(
        "POST",
        "/v1/model/remember",
        "model_remember",
        remember,
        "Remember a sentence as a model.",
        TAG,
        role="write",
        body=ModelRemember,
        answer=ModelRemembered,
        example=Example(body={"text": "She moved to Shanghai in May", "trust": "tool"}),
    ),
    Endpoint(
        "POST",
        "/v1/model/correct",
        "model_correct",
        correct,
        "Correct or pin a memory as a model.",
        TAG,
        role="write",
        body=ModelCorrect,
        answer=ModelForgot,
        example=Example(body={"name": "m_01K0000000000000000000000", "pinned": True}, status=404),
    ),
    Endpoint(
        "POST",
        "/v1/model/forget",
        "model_forget",
        forget,
        "Hide a slot or a memory as a model.",
        TAG,
        role="write",
        body=ModelForget,
        answer=ModelForgot,
        example=Example(body=CITY, before=("model_write",)),
    ),
)
