"""Keys of an app over HTTP: for admins of the whole app."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from offprompt.records import DEFAULT, Issued, Key, Role
from offprompt.rest.endpoint import Answer, Call, Endpoint, Example, Shape
from offprompt.service.keys import OVERLAP_S

TAG: Final = "keys"
PLACE: Final = {"key_id": "0123456789abcdef"}
UNSTORED: Final = {"cache-control": "no-store"}


Few: TypeAlias = Annotated[list[str], Meta(min_length=1)]


class KeyMake(Shape, kw_only=True, frozen=True):
    """What a key is for.

    name     who it is issued to. users, agents: those whose memory it is for; null: any.
    roles    `read`, `write`, `admin`, which may all. expires_at: seconds since 1970; null: never.
    requests_per_minute  what it may ask for beside what its app may; null: that alone.
    """

    name: str
    users: Few | None = None
    agents: Few | None = None
    roles: tuple[Role, ...] = ("read", "write")
    expires_at: float | None = None
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None


class KeyRotate(Shape, kw_only=True, frozen=True):
    """overlap_s: seconds for which the token before stays valid. expires_at: null: never; left out: as it was."""

    overlap_s: Annotated[float, Meta(ge=0)] = OVERLAP_S
    expires_at: float | UnsetType | None = UNSET


class KeyList(Struct):
    """Keys in order of creation, without what proves that one has them."""

    keys: list[Key]


def make(call: Call) -> Answer:
    """Answers with the key and its token, which is shown this once: only a hash of it is stored."""
    body: KeyMake = call.body
    issued = call.memory.keys.create(
        body.name,
        app=call.whole_app,
        users=body.users,
        agents=body.agents,
        roles=body.roles,
        expires_at=body.expires_at,
        requests_per_minute=body.requests_per_minute,
        actor=call.identity.actor,
    )
    return Answer(issued, headers=UNSTORED)


def list_keys(call: Call) -> KeyList:
    """Those that have expired too."""
    return KeyList(call.memory.keys.list(call.whole_app))


def get(call: Call) -> Key:
    """What it is for."""
    return call.memory.keys.get(call.whole_app, call.path["key_id"])


def rotate(call: Call) -> Answer:
    """Answers with a new token of the key; the one before it stays valid for a time."""
    body: KeyRotate = call.body
    expires_at = DEFAULT if isinstance(body.expires_at, UnsetType) else body.expires_at
    issued = call.memory.keys.rotate(
        call.whole_app,
        call.path["key_id"],
        overlap_s=body.overlap_s,
        expires_at=expires_at,
        actor=call.identity.actor,
    )
    return Answer(issued, headers=UNSTORED)


def revoke(call: Call) -> Key:
    """Takes the key back, for good: other processes refuse it within seconds."""
    return call.memory.keys.revoke(call.whole_app, call.path["key_id"], actor=call.identity.actor)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/keys",
        "list_keys",
        list_keys,
        "List keys.",
        TAG,
        role="admin",
        answer=KeyList,
        is_scoped=False,
    ),
    Endpoint(
        "POST",
        "/v1/keys",
        "make_key",
        make,
        "Make a key.",
        TAG,
        role="admin",
        body=KeyMake,
        answer=Issued,
        status=201,
        is_scoped=False,
        is_secret=True,
        example=Example(body={"name": "support bot", "users": ["alice@example.com"]}),
    ),
    Endpoint(
        "GET",
        "/v1/keys/{key_id}",
        "get_key",
        get,
        "What a key is for.",
        TAG,
        role="admin",
        answer=Key,
        is_scoped=False,
        example=Example(path=PLACE, status=404),
    ),
    Endpoint(
        "POST",
        "/v1/keys/{key_id}/rotate",
        "rotate_key",
        rotate,
        "Give a key a new token.",
        TAG,
        role="admin",
        body=KeyRotate,
        answer=Issued,
        is_scoped=False,
        is_secret=True,
        example=Example(body={"overlap_s": 3600}, path=PLACE, status=404),
    ),
    Endpoint(
        "DELETE",
        "/v1/keys/{key_id}",
        "revoke_key",
        revoke,
        "Take a key back.",
        TAG,
        role="admin",
        answer=Key,
        is_scoped=False,
        example=Example(path=PLACE, status=404),
    ),
)
