"""Users of an app: who there is, and two ids of one person."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, Final

from msgspec import Meta, Struct

from offprompt.errors import UsageError
from offprompt.records import Scope
from offprompt.records.alias import Joined
from offprompt.records.holder import Holder
from offprompt.records.json import as_list
from offprompt.rest.endpoint import Call, Endpoint, Example, Shape

TAG: Final = "users"
MAX_PAGE: Final = 1000


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
    found, after = call.memory.users(app=call.whole_app), _place(query.cursor)
    rest = [one for one in found if after is None or one.scope.key > after]
    page = rest[: query.limit]
    return Users(page, _cursor(page[-1].scope) if len(rest) > query.limit else "")


def alias(call: Call) -> Joined:
    """From then on the first id means the second one; slots whose name is taken stay. There is no undo."""
    body: Alias = call.body
    return call.memory.alias(body.old, body.new, app=call.whole_app, preview=body.preview, actor=call.identity.actor)


def _cursor(scope: Scope) -> str:
    return base64.urlsafe_b64encode(json.dumps(scope.key).encode()).decode("ascii")


def _place(cursor: str) -> tuple[str, str, str, str] | None:
    if not cursor:
        return None
    try:
        key = as_list(json.loads(base64.urlsafe_b64decode(cursor.encode("ascii"))))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    if key is None or len(key) != len(Scope(shared=True).key) or not all(isinstance(one, str) for one in key):
        raise UsageError(f"cursor={cursor[:40]!r} is none that was answered here; leave it out for the first page")
    app, user, agent, session = key
    return app, user, agent, session


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
