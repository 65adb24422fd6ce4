"""Memory: a text in a scope that is found by meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from offprompt.records.scope import Scope, Within
from offprompt.records.slot import Source, Trust

MemoryKind: TypeAlias = Literal["fact", "episode", "passage"]
"""`fact`: a statement that stands for itself. `episode`: a turn that happened. `passage`: a part of a document."""

MemoryState: TypeAlias = Literal["live", "superseded", "archived", "forgotten"]
"""Recall finds the live ones. `superseded`: a newer statement took its place. `archived`: out of recall, kept."""

Precision: TypeAlias = Literal["", "year", "month", "week", "day", "minute"]
"""How exactly `event_at` is known; empty: the time at which it was said stands for it."""

AddOutcome: TypeAlias = Literal["added", "merged", "superseded", "refused", "pending", "spooled"]
"""`merged`: into one that says the same. `superseded`: stored, but something newer stands. `pending`: no vector yet.
`spooled`: the store did not take it in time; it waits on this machine until it does."""

MEMORY_KINDS: Final = ("fact", "episode", "passage")
MEMORY_STATES: Final = ("live", "superseded", "archived", "forgotten")
MAX_MEMORY_CHARS: Final = 20_000
PENDING: Final = "pending"
"""`Memory.extracted` of a turn of which a language model gave no answer of use."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as stored.

    memory_id    `m_` and 26 letters and digits, in order of creation.
    role, speaker, session, order  of the turn that it is, or was derived from: who said it, by role and name, in which
                 session, as which message of it (-1: none). Its scope is without the session.
    subject, attribute  of a fact: who it is about, and what of them. Of one (scope, subject, attribute) only the newest
                 statement is live. Both empty: nothing supersedes it. ends: the value that holds no more, where it
                 says only that ("I no longer live in Porto"): it touches no statement of another value.
    gist         the text once more, as a rule understood it, in a sentence that stands for itself; recall reads both.
    rule, quote  of a derived fact: the rule that found it, and the words that carry it. source_id: the memory of the
                 turn, if that is stored.
    event_at     when it happened or holds from, with its precision; created_at: when it was stored; updated_at: when
                 text or metadata last changed. All in seconds since 1970.
    expires_at   None: never. pinned: never expires, and no retention touches it.
    extracted    of an episode: under which instructions a language model has read it, or `pending` where it gave no
                 answer of use; empty: none has.
    importance   0 to 1. repeats: how often the same was added beyond the first. uses, used_at: recalls.
    digest       of the normalised text; the key of duplicates.
    revision     of its scope at the last change.
    """

    memory_id: str
    scope: Scope
    kind: MemoryKind
    text: str
    role: str = ""
    speaker: str = ""
    session: str = ""
    order: int = -1
    subject: str = ""
    attribute: str = ""
    ends: str = ""
    gist: str = ""
    rule: str = ""
    quote: str = ""
    source_id: str = ""
    source: Source = "app"
    trust: Trust = "user"
    actor: str = "app"
    created_at: float = 0.0
    updated_at: float = 0.0
    event_at: float | None = None
    precision: Precision = ""
    expires_at: float | None = None
    pinned: bool = False
    importance: float = 0.5
    repeats: int = 0
    uses: int = 0
    used_at: float | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: int = 1
    state: MemoryState = "live"
    state_at: float | None = None
    superseded_by: str = ""
    digest: str = ""
    revision: int = 0
    extracted: str = ""

    @property
    def purpose(self) -> str:
        """What it may be used for; empty: for anything. Of several, with commas."""
        return ",".join(tag.removeprefix("purpose:") for tag in self.tags if tag.startswith("purpose:"))

    @property
    def consent(self) -> str:
        """The consent that it rests on; empty: none. Of several, with commas."""
        return ",".join(tag.removeprefix("consent:") for tag in self.tags if tag.startswith("consent:"))

    @property
    def happened_at(self) -> float:
        """`event_at`, or when it was stored."""
        return self.created_at if self.event_at is None else self.event_at


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """One version of a memory's text and metadata, and what became of the memory then."""

    version: int
    text: str
    metadata: Mapping[str, Any]
    actor: str
    at: float
    outcome: Literal["added", "updated", "merged", "superseded", "archived", "forgotten", "restored"] = "added"


@dataclass(frozen=True, slots=True)
class Added:
    """What became of one added memory.

    memory    as stored now; of a `merged` one the memory that holds it. Of a `refused` one None.
    replaced  ids of the memories that it supersedes. why: in words, never the text.
    """

    outcome: AddOutcome
    memory: Memory | None
    replaced: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """Which memories a list returns; every condition given must hold. Order: creation, then id.

    within   `exact`: this scope only · `inherit`: the scopes it inherits · `subtree`: every scope with all its ids.
    since/until  over `happened_at`, since ≤ t < until. after: the id behind which the page begins. limit: at most.
    about    facts with subject and attribute only.
    """

    scope: Scope
    within: Within = "inherit"
    states: tuple[MemoryState, ...] = ("live",)
    kinds: tuple[MemoryKind, ...] = MEMORY_KINDS
    ids: tuple[str, ...] | None = None
    session: str | None = None
    since: float | None = None
    until: float | None = None
    expired: bool = False
    about: bool = False
    after: str = ""
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Indexed:
    """What is derived from a memory's text for recall; can be made again at any time.

    content   the packed terms and vector of its text (`recall`). version: of the memory whose text that was.
    embedder  the name of what made the vector; empty: there is none yet.
    """

    memory_id: str
    version: int
    content: bytes
    embedder: str = ""


@dataclass(frozen=True, slots=True)
class IndexPage:
    """Memories of one scope that changed since a revision, with what is derived from them.

    revision  of the scope now. whole: the list is all that there is, and what is known from before is void.
    gone      memories that are no longer live. rows: live ones, an Indexed is None where there is none.
    """

    revision: int
    whole: bool
    rows: tuple[tuple[Memory, Indexed | None], ...]
    gone: tuple[str, ...] = ()
