"""Users of an app: who there is, and two ids of one person."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from offprompt.records.alias import Joined
from offprompt.records.holder import Holder
from offprompt.rest.cursors import MAX_PAGE, page_of
from offprompt.rest.endpoint import Call, Endpoint, Example, Shape

TAG: Final = "users"


class UserPage(Shape, kw_only=True, frozen=True):
    """A page of a list. cursor: what the page before says; empty: the first. limit: at most so many."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = MAX_PAGE


class Users(Struct):
    """Users and agents, the shared scope first. cursor: of the next page, empty on the last."""

    users: list[Holder]
    cursor: str = ""


class Alias(Shape, kw_only=True, frozen=True):
    """Two ids of one person. preview: only say what would move, and what conflicts."""

    old: str
    new: str
    preview: bool = False


def users(call: Call) -> Users:
    """For whom something is stored, and how much. Cost: O(all slots and sessions of the app)."""
    query: UserPage = call.query
    found = call.memory.users(app=call.whole_app)
    return Users(*page_of(found, lambda one: one.scope.key, cursor=query.cursor, limit=query.limit))


def alias(call: Call) -> Joined:
    """From then on the first id means the second one; slots whose name is taken stay. There is no undo."""
    body: Alias = call.body
    return call.memory.alias(body.old, body.new, app=call.whole_app, preview=body.preview, actor=call.identity.actor)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/users",
        "users",
        users,
        "Who there is.",
        TAG,
        role="admin",
        query=UserPage,
        answer=Users,
        is_scoped=False,
    ),
    Endpoint(
        "POST",
        "/v1/alias",
        "alias",
        alias,
        "Join two ids of one person.",
        TAG,
        role="admin",
        body=Alias,
        answer=Joined,
        is_scoped=False,
        example=Example(body={"old": "alice@old.example", "new": "alice@example.com", "preview": True}),
    ),
)
