"""Endpoint: one operation of the API, declared once; routing, checks and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from offprompt.errors import UsageError
from offprompt.records import Actor, Identity, Role, Scope
from offprompt.service.access import actor_for, check_role, check_whole_app, scope_for
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Headers: TypeAlias = Mapping[str, str]
"""Header values by name in small letters."""

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
BYTES: Final = "application/octet-stream"


class Shape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True, omit_defaults=True):
    """What a query or body is made of; a member that it does not name is an error.

    A field that may be left out and may be null has the type `… | None | msgspec.UnsetType` and the default `UNSET`.
    """


@dataclass
class Call:
    """One request as an endpoint gets it: who asks, and what, checked.

    path, query, body  as the endpoint's types say; path: the named parts of the path, decoded.
    op_key   the name of the change that it makes, if an Idempotency-Key gave it one.
    """

    memory: Offprompt
    identity: Identity
    endpoint: Endpoint
    headers: Headers
    path: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Any = None
    body: Any = None
    op_key: str | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether the request says what it expects to be there."""
        return "if-match" in self.headers or "if-none-match" in self.headers

    @property
    def whole_app(self) -> str:
        """The key's app, for what is not of one scope.

        Raises   ForbiddenError for another app, for a key of some users or agents only, and for a role that it lacks.
        """
        named = self.headers.get("offprompt-app")
        app = None if named is None else decoded("Offprompt-App", named)
        return check_whole_app(self.identity, app, role=self.endpoint.role or "read")

    @cached_property
    def scope(self) -> BoundScope:
        """The scope that the headers name within what the key allows, for the endpoint's role.

        Raises   ForbiddenError, ScopeError.
        """
        said = self.headers.get
        ids = tuple(said(f"offprompt-{kind}") for kind in ("app", "user", "agent", "session", "space"))
        scope, actor = _named(self.identity, self.endpoint.role or "read", ids, said("offprompt-shared", "false"))
        return self.memory.bound(scope, actor, op_key=self.op_key)


@lru_cache(maxsize=4096)
def _named(identity: Identity, role: Role, ids: tuple[str | None, ...], shared: str) -> tuple[Scope, Actor]:
    """What headers mean for an identity: the scope, and whose doing it is. ids: of app, user, agent, session, space."""
    if shared not in ("true", "false"):
        raise UsageError(f"Offprompt-Shared: {shared[:40]!r}; it is true or false")
    names = ("Offprompt-App", "Offprompt-User", "Offprompt-Agent", "Offprompt-Session", "Offprompt-Space")
    app, user, agent, session, space = (
        None if one is None else decoded(name, one) for name, one in zip(names, ids, strict=True)
    )
    if space is not None:
        check_role(identity, role)
        check_whole_app(identity, app, role="admin")
        scope = Scope(identity.app, user, agent, session, shared == "true", space)
    else:
        named = {"user": user, "agent": agent, "session": session}
        scope = scope_for(identity, app=app, shared=shared == "true", role=role, **named)
    return scope, actor_for(identity, scope.user)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is more than its content. version: of what it shows, by `versions.tag_of`; it becomes the ETag."""

    content: object
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """An answer of any length: one JSON document a line, written as they come; `msgspec.Raw` stands as it is.

    is_live   each is sent at once; else several together.
    Errors    before the first one they are problems as everywhere; later the answer breaks off, which clients see.
    """

    documents: Iterable[object]
    is_live: bool = False


@dataclass(frozen=True, slots=True)
class LinesOf:
    """A body of any length: one JSON document of this kind a line.

    `call.body` is an iterable over them, which waits for the client: `run` reads it while it comes.
    """

    kind: Any


@dataclass(frozen=True, slots=True)
class Pieces:
    """A body of any length and form: `call.body` is an iterable over its bytes as they come.

    wait_s   seconds for which nothing of it may come. is_file: a header says what the file is called.
    """

    wait_s: float = 60.0
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """One request that can be sent as it stands, for the documents; a test sends it and compares the status.

    before   names of endpoints whose first examples must have been sent.
    content  the body of a stream, as text.
    """

    body: Mapping[str, Any] | None = None
    content: str = ""
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    path: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    before: tuple[str, ...] = ()
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation: its place, what it takes, what it answers, and the function that does it.

    name     unique, the operationId. run: in a worker thread; returns content for `answer`, an Answer, or Lines.
    role     what the key must have; None: no key is asked for.
    body     the type of a JSON document; LinesOf: a stream of lines; Pieces: bytes; None: none is read.
    answer   the type of a JSON document; LinesOf: a stream of lines; None: text of the type that `media_type` says.
    problem_type  the media type of its errors, whose members are the same.
    is_versioned  its answers have a version, which If-Match and If-None-Match ask for.
    max_bytes     of a JSON body.
    is_secret     its answer is shown once, and kept for no repetition.
    runs     `waited`: for as long as it takes. `quick`: it reads or changes a slot or so, and may be begun twice: on a
             store that answers in microseconds it gets no thread of its own. `here`: it asks no store.
    """

    method: Method
    path: str
    name: str
    run: Callable[[Call], object]
    summary: str
    tag: str
    role: Role | None = "read"
    query: type[Shape] | None = None
    body: Any = None
    answer: Any = None
    status: int = 200
    is_scoped: bool = True
    example: Example = Example()
    media_type: str = ""
    problem_type: str = "application/problem+json"
    is_versioned: bool = False
    is_secret: bool = False
    max_bytes: int = 8 * 1024 * 1024
    runs: Literal["waited", "quick", "here"] = "waited"

    @property
    def is_change(self) -> bool:
        """Whether it may change what is stored."""
        return self.method != "GET" and self.role not in (None, "read")

    @property
    def is_once(self) -> bool:
        """Whether an Idempotency-Key is looked at. Streams are not kept, and say themselves how they go on."""
        return self.is_change and not (self.is_stream or self.is_secret or isinstance(self.answer, LinesOf))

    @property
    def is_stream(self) -> bool:
        """Whether its body is read while it comes."""
        return isinstance(self.body, (LinesOf, Pieces))

    @property
    def reads(self) -> str:
        """The media type of its body."""
        return LINES if isinstance(self.body, LinesOf) else BYTES if isinstance(self.body, Pieces) else JSON

    @property
    def answers(self) -> str:
        """The media type of its answer."""
        return self.media_type or (LINES if isinstance(self.answer, LinesOf) else JSON)


def decoded(name: str, value: str) -> str:
    """A header's percent-encoded UTF-8 value.

    Raises   UsageError if it is not that.
    """
    try:
        value.encode("ascii")
        return unquote(value, errors="strict") if "%" in value else value
    except UnicodeError as exc:
        raise UsageError(
            f"the header {name} is not percent-encoded UTF-8; write 小明 as %E5%B0%8F%E6%98%8E and % as %25"
        ) from exc
