"""Erasures and legal holds over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from offprompt.records import ErasureReceipt, Hold
from offprompt.records.withdrawn import Withdrawn
from offprompt.rest.endpoint import Call, Endpoint, Example, Lines, LinesOf, Shape
from offprompt.rest.session_shapes import Basis
from offprompt.service.erasing import erase_whole
from offprompt.service.holding import MAX_REASON_CHARS
from offprompt.service.subject_export import lines, subject_records

TAG: Final = "erasures"


class HoldAdd(Shape, kw_only=True, frozen=True):
    """reason: such as a case's number; who is refused reads it."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON_CHARS)]


class Withdrawal(Shape, kw_only=True, frozen=True):
    """consent: its name, as `remember`, slots and sessions gave it."""

    consent: Basis


class SubjectQuery(Shape, kw_only=True, frozen=True):
    """secrets: values of `never` slots too; else they are left out."""

    secrets: bool = False


class HoldList(Struct):
    """Holds, the oldest first."""

    holds: list[Hold]


def erase(call: Call) -> ErasureReceipt:
    """The one user, agent or session that the headers name, from every store, for good.

    Keep the receipt: `offprompt verify-erased` checks by it, where the store is.
    """
    memory, bound = call.memory, call.scope
    return erase_whole(memory.parts, memory.keys, bound.scope, bound.actor)


def export_subject(call: Call) -> Lines:
    """A head; then each record of the one user that the headers name, with its place; a manifest as the last line.

    All that `POST /v1/erasures` would remove, and what names the user; never another person's.
    """
    memory, bound, query = call.memory, call.scope, call.query
    records = subject_records(memory.parts, memory.keys, bound.scope, bound.actor, secrets=query.secrets)
    return Lines(lines(records, bound.actor))


def withdraw(call: Call) -> Withdrawn:
    """What rests on the consent in the scope and below it goes for good, and nothing is stored under it any more."""
    body: Withdrawal = call.body
    return call.scope.withdraw(body.consent)


def add(call: Call) -> Hold:
    """Nothing of the scope is erased, cleared or swept until the hold is lifted. For keys of the whole app."""
    body: HoldAdd = call.body
    _ = call.whole_app
    return call.memory.holds.add(call.scope.scope, body.reason, actor=call.identity.actor)


def list_holds(call: Call) -> HoldList:
    """Those of the app."""
    return HoldList(call.memory.holds.list(call.whole_app))


def lift(call: Call) -> Hold:
    """Ends the hold of exactly the scope that the headers name. For keys of the whole app."""
    _ = call.whole_app
    return call.memory.holds.lift(call.scope.scope, actor=call.identity.actor)


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/v1/erasures",
        "erase_whole",
        erase,
        "Erase a user, an agent or a session whole.",
        TAG,
        role="admin",
        answer=ErasureReceipt,
        status=201,
        example=Example(before=("write_slot",)),
    ),
    Endpoint(
        "POST",
        "/v1/withdrawals",
        "withdraw",
        withdraw,
        "Withdraw a consent.",
        TAG,
        role="admin",
        body=Withdrawal,
        answer=Withdrawn,
        example=Example(body={"consent": "c-2026-01"}),
    ),
    Endpoint(
        "GET",
        "/v1/subject-export",
        "export_subject",
        export_subject,
        "Tell all that is stored of a user.",
        TAG,
        role="admin",
        query=SubjectQuery,
        answer=LinesOf(dict[str, Any]),
        example=Example(before=("write_slot",)),
    ),
    Endpoint(
        "GET",
        "/v1/holds",
        "list_holds",
        list_holds,
        "List legal holds.",
        TAG,
        role="admin",
        answer=HoldList,
        is_scoped=False,
    ),
    Endpoint(
        "POST",
        "/v1/holds",
        "add_hold",
        add,
        "Put a scope under a legal hold.",
        TAG,
        role="admin",
        body=HoldAdd,
        answer=Hold,
        status=201,
        example=Example(body={"reason": "case 2026/117"}),
    ),
    Endpoint(
        "DELETE",
        "/v1/holds",
        "lift_hold",
        lift,
        "Lift a legal hold.",
        TAG,
        role="admin",
        answer=Hold,
        example=Example(before=("add_hold",)),
    ),
)
