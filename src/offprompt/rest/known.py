"""What is known of a user over HTTP: a list to see, correct and pin; facts of business systems."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from offprompt.records import Known, Remembered
from offprompt.rest.endpoint import Call, Endpoint, Example, Shape

TAG: Final = "known"
MAX_LISTED: Final = 1000


class KnownFind(Shape, kw_only=True, frozen=True):
    """The first so many: pinned ones, then the newest."""

    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED)] = 100


class KnownList(Struct):
    """What is known, in words; of secrets the names alone."""

    known: list[Known]


class KnownChange(Shape, kw_only=True, frozen=True):
    """The text that is right."""

    text: Annotated[str, Meta(min_length=1)]


class KnownPin(Shape, kw_only=True, frozen=True):
    """Whether it is kept for ever, and listed first."""

    pinned: bool = True


class FactPut(Shape, kw_only=True, frozen=True):
    """That `attribute` of `subject` is `value`, in place of what was known of it.

    subject   `user`: whom the scope is of. text: the sentence that is found and shown; made of the three unless given.
    event_at  since when, in seconds since 1970: an older one does not replace a newer one. null: now.
    """

    attribute: Annotated[str, Meta(min_length=1)]
    value: Annotated[str, Meta(min_length=1)]
    subject: Annotated[str, Meta(min_length=1)] = "user"
    text: str | None = None
    event_at: float | None = None


def list_known(call: Call) -> KnownList:
    """Slots and facts, each thing once. Ask for `DELETE` of a slot or memory by its name to have it forgotten."""
    return KnownList(call.scope.known(limit=call.query.limit))


def correct(call: Call) -> Known:
    """A slot gets a new version; a fact a new text; what rules read, a new fact in place of the old one."""
    return call.scope.correct(call.path["name"], call.body.text)


def pin(call: Call) -> Known:
    """For facts, by their ids; slots without a ttl never expire."""
    return call.scope.pin(call.path["name"], pinned=call.body.pinned)


def put_fact(call: Call) -> Remembered:
    """From business systems; what the profile has of it is written too."""
    body: FactPut = call.body
    return call.scope.upsert_fact(body.subject, body.attribute, body.value, text=body.text, event_at=body.event_at)


ENDPOINTS: Final = (
    Endpoint("GET", "/v1/known", "list_known", list_known, "What is known.", TAG, query=KnownFind, answer=KnownList),
    Endpoint(
        "PUT",
        "/v1/known/{name}",
        "correct_known",
        correct,
        "Correct what is known.",
        TAG,
        role="write",
        body=KnownChange,
        answer=Known,
        example=Example(body={"text": "Lisbon"}, path={"name": "city"}, before=("write_slot",)),
    ),
    Endpoint(
        "POST",
        "/v1/known/{name}/pin",
        "pin_known",
        pin,
        "Pin what is known.",
        TAG,
        role="write",
        body=KnownPin,
        answer=Known,
        example=Example(body={"pinned": True}, path={"name": "m_01K0000000000000000000000"}, status=404),
    ),
    Endpoint(
        "PUT",
        "/v1/facts",
        "put_fact",
        put_fact,
        "Store what a business system knows.",
        TAG,
        role="write",
        body=FactPut,
        answer=Remembered,
        example=Example(body={"attribute": "plan", "value": "pro"}),
    ),
)
