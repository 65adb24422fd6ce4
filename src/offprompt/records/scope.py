"""Scope: whose memory a record is."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Final, Literal, TypeAlias

from offprompt.errors import ScopeError

Within: TypeAlias = Literal["exact", "inherit", "subtree"]
"""Where a question looks: this scope only, the scopes that it inherits, every scope with all its ids."""

WITHIN: Final[tuple[Within, ...]] = ("exact", "inherit", "subtree")

MAX_ID_BYTES = 256
SCOPE_IDS = ("user", "agent", "session")


def clean_id(kind: str, value: object) -> str:
    """A user, agent, session or app id in NFC, checked.

    Raises   ScopeError unless it is 1–256 bytes of printable text. Ids are opaque: no other rule.
    """
    if not isinstance(value, str):
        raise ScopeError(f"the {kind} id {value!r} is not text; pass a str such as {kind}={str(value)!r}")
    text = unicodedata.normalize("NFC", value)
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as exc:
        raise ScopeError(f"the {kind} id {text!r} holds half a character (a lone surrogate); pass valid text") from exc
    if not text or size > MAX_ID_BYTES:
        raise ScopeError(f"the {kind} id {text[:40]!r} has {size} bytes; ids have 1 to {MAX_ID_BYTES} bytes")
    if not text.isprintable() or text != text.strip():
        raise ScopeError(
            f"the {kind} id {text[:40]!r} has control characters or spaces at its ends; ids are printable text"
        )
    return text


Ids: TypeAlias = tuple[str, str | None, str | None, str | None]


def _clean(app: str, user: str | None, agent: str | None, session: str | None, *, shared: bool) -> Ids:
    """The ids of a scope, each checked, and all together."""
    ids = [
        None if value is None else clean_id(kind, value)
        for kind, value in zip(SCOPE_IDS, (user, agent, session), strict=True)
    ]
    if ids == [None, None, None] and not shared:
        raise ScopeError(
            'no scope: say whose memory it is, e.g. scope(user="alice") or --user alice '
            "(or set OFFPROMPT_USER); for what everyone may read: scope(shared=True) or --shared"
        )
    if ids != [None, None, None] and shared:
        raise ScopeError("shared=True stands alone: leave out user, agent and session, or leave out shared")
    return (clean_id("app", app), *ids)  # pyright: ignore[reportReturnType] - three of them


_known: Final = lru_cache(maxsize=1024)(_clean)
"""Records are read by the thousand, and name the same few scopes."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A set of ids. At least one of user, agent, session, or `shared=True` for the app's shared scope.

    Raises   ScopeError when no id is given, or when an id breaks the rules; never a wildcard.
    """

    app: str = "default"
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        given = (self.app, self.user, self.agent, self.session)
        try:
            clean = _known(*given, shared=self.shared)
        except TypeError:  # not hashable, so no text
            clean = _clean(*given, shared=self.shared)
        if clean != given:
            for kind, value in zip(("app", *SCOPE_IDS), clean, strict=True):
                object.__setattr__(self, kind, value)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """App, user, agent, session; an absent id is the empty string. The stores' primary key."""
        return (self.app, self.user or "", self.agent or "", self.session or "")

    @classmethod
    def from_key(cls, key: tuple[str, str, str, str]) -> Scope:
        """The scope of a stored key."""
        return _of_key(key)

    def narrow(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> Scope:
        """This scope with further ids; an id that is set already must be the same.

        Raises   ScopeError if an id differs: a narrower scope never becomes another's.
        """
        ids: dict[str, str | None] = {}
        for kind, value in (("user", user), ("agent", agent), ("session", session)):
            own = getattr(self, kind)
            if value is not None and own is not None and clean_id(kind, value) != own:
                raise ScopeError(f"this scope has {kind}={own!r}; it cannot be narrowed to {kind}={value!r}")
            ids[kind] = own if value is None else value
        return replace(self, shared=not any(ids.values()), **ids)

    def without_session(self) -> Scope:
        """The scope that outlives the session: its user and agent, else the session itself."""
        return self if not (self.user or self.agent) else replace(self, session=None)

    def inherited(self) -> tuple[Scope, ...]:
        """The scopes whose records this one finds, most specific first: all subsets of its ids, shared last."""
        return _inherited(self)

    def holds(self, other: Scope) -> bool:
        """Whether `other` has all of this scope's ids: it lies in this scope's subtree."""
        if self.app != other.app:
            return False
        return all(getattr(self, kind) in (None, getattr(other, kind)) for kind in SCOPE_IDS)

    def __str__(self) -> str:
        parts = [f"{kind}={getattr(self, kind)}" for kind in SCOPE_IDS if getattr(self, kind) is not None]
        if self.app != "default":
            parts.insert(0, f"app={self.app}")
        return " ".join(parts) if parts else "shared"


class OwnScope(Scope):
    """A scope as somebody sees it who is of its user only; equal to the scope, and with the same subtree.

    It does not inherit what is stored under a session without a user: that is of somebody whom nobody has named, and
    ids of sessions can be guessed.
    """

    __slots__ = ()

    def inherited(self) -> tuple[Scope, ...]:
        """See Scope."""
        return tuple(one for one in _inherited(self) if one.user is not None or one.session is None)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Scope) else NotImplemented

    __hash__ = Scope.__hash__


@lru_cache(maxsize=1024)
def _of_key(key: tuple[str, str, str, str]) -> Scope:
    app, user, agent, session = key
    return Scope(app, user or None, agent or None, session or None, shared=not (user or agent or session))


@lru_cache(maxsize=1024)
def _inherited(scope: Scope) -> tuple[Scope, ...]:
    ids = {kind: getattr(scope, kind) for kind in SCOPE_IDS if getattr(scope, kind) is not None}
    subsets = [
        Scope(scope.app, **{kind: ids[kind] for kind in chosen})
        for size in range(len(ids), 0, -1)
        for chosen in combinations(ids, size)
    ]
    subsets.sort(key=lambda one: one.session is None)
    return (*subsets, Scope(scope.app, shared=True))
