"""What the calls of memories take and answer."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from offprompt.records import MEMORY_KINDS, Memory, MemoryKind, MemoryState, MemoryVersion, Remembered, Within
from offprompt.rest.endpoint import Shape
from offprompt.rest.session_shapes import Basis, SpaceNames
from offprompt.wire.options import Derive

MAX_PAGE: Final = 1000

Time: TypeAlias = float | str
"""Seconds since 1970, or ISO 8601; without a zone it is UTC."""

Share: TypeAlias = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
"""What the library checks itself is only shown here, so that everybody is told the same."""

Weights: TypeAlias = Annotated[dict[str, Any], Meta(extra_json_schema={"additionalProperties": {"type": "number"}})]
Ids: TypeAlias = Annotated[list[str], Meta(min_length=1, max_length=MAX_PAGE)]


class Remember(Shape, kw_only=True, frozen=True):
    """What is to be remembered.

    what        a text (a fact), a message `{"role": …, "content": …}` (an episode), or a list of them.
    event_at    when it happened. expires_at: when it is over. pinned: it never expires.
    idempotency_key  the memory's own name, for ever: once more with it changes nothing. (The header of that name is of
                the request, and known for a day.)
    purpose     what it may be used for. consent: what it rests on, see `/v1/withdrawals`.
    derive      `rules` read it for facts and profile, `model` lets a language model read it later too, or `none`.
    """

    what: str | dict[str, Any] | list[str | dict[str, Any]]
    metadata: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    importance: Share | None = None
    event_at: Time | None = None
    expires_at: Time | None = None
    pinned: bool = False
    idempotency_key: str | None = None
    derive: Derive = "rules"
    purpose: Basis | None = None
    consent: Basis | None = None


class Recall(Shape, kw_only=True, frozen=True):
    """A question.

    query    a text, or the conversation so far. top_k: at most so many; null: the server's setting.
    filters  conditions over fields and metadata; see docs/memories.md. since, until: when it happened.
    as_of    what was known then. floor: the evidence from which a memory counts.
    rerank   by the server's model, or not; null: as its setting says. weights: parts of the score to weigh otherwise.
    purposes what the answer is for: memories are found that are for one of these, or name no purpose; null: any.
    spaces   to look in besides, as far as they are granted; of others nothing is found. explain: each score by part.
    """

    query: str | list[dict[str, Any]]
    top_k: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_PAGE})] | None = None
    within: Within = "inherit"
    filters: dict[str, Any] | None = None
    since: Time | None = None
    until: Time | None = None
    as_of: Time | None = None
    kinds: tuple[MemoryKind, ...] = MEMORY_KINDS
    floor: Share | None = None
    rerank: bool | None = None
    weights: Annotated[dict[str, Any], Meta(extra_json_schema={"additionalProperties": {"type": "number"}})] | None = (
        None
    )
    explain: bool = False
    spaces: SpaceNames = ()
    purposes: Annotated[tuple[Basis, ...], Meta(min_length=1)] | None = None


class MemoryPageAsked(Shape, kw_only=True, frozen=True):
    """Which page of a list. cursor: what the page before said; empty: the first. limit: at most so many."""

    kinds: tuple[MemoryKind, ...] = MEMORY_KINDS
    states: tuple[MemoryState, ...] = ("live",)
    since: Time | None = None
    until: Time | None = None
    within: Within = "inherit"
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100
    cursor: str = ""


class MemoryFind(MemoryPageAsked, kw_only=True, frozen=True):
    """Which memories are listed. filters: as of a recall. session: said in it."""

    filters: dict[str, Any] | None = None
    session: str | None = None


class MemoryChange(Shape, kw_only=True, frozen=True):
    """What changes; what is left out stays.

    metadata  members to set; null takes one out. event_at, expires_at: null takes them away.
    archived  true: out of recall, and kept; false: back.
    """

    text: str | None = None
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    importance: Share | None = None
    event_at: Time | UnsetType | None = UNSET
    expires_at: Time | UnsetType | None = UNSET
    pinned: bool | None = None
    archived: bool | None = None


class MemoryIds(Shape, kw_only=True, frozen=True):
    """Memories by their ids; one that is not there is passed over."""

    ids: Ids


class RememberedAll(Struct):
    """What became of each text, followed by what rules derived from it."""

    remembered: list[Remembered]


class Memories(Struct):
    """Memories."""

    memories: list[Memory]


class Versions(Struct):
    """The versions of a memory, oldest first."""

    versions: list[MemoryVersion]


class SaidIn(Struct):
    """The sessions in which something was remembered, with how much, in order of their beginnings."""

    sessions: dict[str, int]


class Counted(Struct):
    """How many."""

    count: int


class Where(Shape, kw_only=True, frozen=True):
    """Which memories go out. secrets: values of secrets that they quote too, for the role `admin`."""

    within: Within = "subtree"
    secrets: bool = False


class ImportOptions(Shape, kw_only=True, frozen=True):
    """How an import is read.

    rescope  all into this scope, whatever ids it names. derive: whether facts are read in a chat log.
    """

    rescope: bool = False
    derive: Literal["rules", "none"] = "rules"
