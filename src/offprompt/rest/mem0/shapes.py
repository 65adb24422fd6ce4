"""What mem0's client sends, for the documents. What is not used is taken too, and said in the answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from offprompt.rest.endpoint import JSON, Call, Endpoint, Shape

if TYPE_CHECKING:
    from offprompt.compat.mem0.reach import Reach

TAG: Final = "mem0"
MANY: Final = 1000
Found = dict[str, Any]
"""An answer in mem0's shape; docs/from-mem0.md says what stands in it."""


class NoQuery(Shape, frozen=True):
    """What every route may be sent, and none needs: whose project it is says the key."""

    org_id: str | None = None
    project_id: str | None = None


class Paged(NoQuery, frozen=True):
    """Which page."""

    page: Annotated[int, Meta(ge=1)] = 1
    page_size: Annotated[int, Meta(ge=1, le=MANY)] = 100


class Linked(NoQuery, frozen=True):
    """Whether the older memories that it superseded go too."""

    delete_linked: bool = False


class Ids(NoQuery, frozen=True):
    """Whose memories: ids, or filters as JSON or as their client writes them."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    filters: str | None = None


class Fields(NoQuery, frozen=True):
    """Which members are wanted."""

    fields: list[str] = []  # noqa: RUF012 - msgspec copies it


class Member(NoQuery, frozen=True):
    """Who."""

    email: str | None = None


class OfKind(NoQuery, frozen=True):
    """Of which type: user, agent, app or run."""

    type: str | None = None


class After(Shape, frozen=True):
    """Events behind this one, at most so many."""

    after: Annotated[int, Meta(ge=0)] = 0
    page_size: Annotated[int, Meta(ge=1, le=MANY)] = 100


def body_of(kind: type[Struct]) -> Any:
    """The type of a body that has the members of a record, and maybe others."""
    return Annotated[Found, Meta(extra_json_schema=_open(kind))]


def batch_of(kind: type[Struct]) -> Any:
    """The type of a body with a list of such records under `memories`."""
    items = {"type": "array", "minItems": 1, "maxItems": MANY, "items": {"type": "object", **_open(kind)}}
    return Annotated[Found, Meta(extra_json_schema={"properties": {"memories": items}, "required": ["memories"]})]


def _open(kind: type[Struct]) -> dict[str, Any]:
    schema = msgspec.json.schema(kind)
    own = schema["$defs"][kind.__name__]
    return {name: own[name] for name in ("properties", "required") if own.get(name)}


endpoint = partial(Endpoint, tag=TAG, query=NoQuery, answer=Found, is_scoped=False, problem_type=JSON)
"""An operation of mem0's API: no header says whose memory it is about, and its errors are plain JSON."""


def reach(call: Call) -> Reach:
    """What who asks reaches."""
    from offprompt.compat.mem0.reach import Reach  # noqa: PLC0415 - loads NumPy and the rules

    return Reach(call.memory, call.identity)
