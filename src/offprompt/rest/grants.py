"""Grants over HTTP: for admins of the whole app."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from offprompt.records import Grant, GrantKind
from offprompt.rest.endpoint import Call, Endpoint, Example, Shape

TAG: Final = "grants"
Grantee: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": r"^(everyone|(user|agent|key):[!-~]{1,64})$"})]
"""Who it is for; what is no such text is the library's to refuse."""

MEANT: Final = {"kind": "space", "name": "legal", "to": "user:alice"}


class GrantMeant(Shape, kw_only=True, frozen=True):
    """One grant.

    kind     `space`, or `agent`: what it keeps for the same user, and for all its users. name: of it.
    to       `everyone` in the app, `user:ID`, `agent:ID`, or `key:ID`.
    """

    kind: GrantKind
    name: str
    to: Grantee


class GrantList(Struct):
    """Grants, the oldest first."""

    grants: list[Grant]


def add(call: Call) -> Grant:
    """Somebody finds what a space or an agent holds, and changes none of it; once more changes nothing."""
    body: GrantMeant = call.body
    return call.memory.grants.add(body.kind, body.name, to=body.to, app=call.whole_app, actor=call.identity.actor)


def list_grants(call: Call) -> GrantList:
    """Those of the app."""
    return GrantList(call.memory.grants.list(app=call.whole_app))


def remove(call: Call) -> Grant:
    """Takes a grant back: other processes find nothing more within seconds."""
    query: GrantMeant = call.query
    return call.memory.grants.remove(query.kind, query.name, to=query.to, app=call.whole_app, actor=call.identity.actor)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/grants",
        "list_grants",
        list_grants,
        "List grants.",
        TAG,
        role="admin",
        answer=GrantList,
        is_scoped=False,
    ),
    Endpoint(
        "POST",
        "/v1/grants",
        "add_grant",
        add,
        "Grant a space or an agent.",
        TAG,
        role="admin",
        body=GrantMeant,
        answer=Grant,
        status=201,
        is_scoped=False,
        example=Example(body=MEANT),
    ),
    Endpoint(
        "DELETE",
        "/v1/grants",
        "remove_grant",
        remove,
        "Take a grant back.",
        TAG,
        role="admin",
        query=GrantMeant,
        answer=Grant,
        is_scoped=False,
        example=Example(query=MEANT, before=("add_grant",)),
    ),
)
