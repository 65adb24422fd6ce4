"""Scope: whose memory a record is."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Final, Literal, TypeAlias, cast

from offprompt.errors import NameInvalidError, ScopeError

Within: TypeAlias = Literal["exact", "inherit", "subtree"]
"""Where a question looks: this scope only, the scopes that it inherits, every scope with all its ids."""

WITHIN: Final[tuple[Within, ...]] = ("exact", "inherit", "subtree")

MAX_ID_BYTES = 256
MAX_SPACES: Final = 32
SCOPE_IDS = ("user", "agent", "session")
SPACE_MARK: Final = "\x1f"
"""What the agent of a stored key begins with where the scope is a space: no id holds it, for ids are printable."""


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


def clean_space(name: object) -> str:
    """The name of a space in the one form of all that are spelled alike: NFKC, case folded.

    Raises   ScopeError for what could not be the name of a slot either.
    """
    from offprompt.records.slot import clean_name, fold_name  # noqa: PLC0415 - a slot has a scope, and its names rules

    try:
        return fold_name(clean_name(fold_name(clean_name(name))))
    except NameInvalidError as exc:
        raise ScopeError(str(exc).replace("the slot name", "the name of a space", 1)) from None


def clean_spaces(spaces: object) -> tuple[str, ...]:
    """Names of spaces, each once, in the one form of all that are spelled alike.

    Raises   ScopeError for what is no list of such names, and for more than MAX_SPACES.
    """
    if isinstance(spaces, str) or not isinstance(spaces, Iterable):
        raise ScopeError(f"spaces={spaces!r}: give a list of names, such as spaces=['legal']")
    names = tuple(dict.fromkeys(map(clean_space, cast("Iterable[object]", spaces))))
    if len(names) > MAX_SPACES:
        raise ScopeError(f"{len(names)} spaces: search at most {MAX_SPACES} at once")
    return names


Ids: TypeAlias = tuple[str, str | None, str | None, str | None, str | None]


def _clean(
    app: str, user: str | None, agent: str | None, session: str | None, space: str | None, *, shared: bool
) -> Ids:
    """The ids of a scope, each checked, and all together."""
    if space is not None:
        if shared or (user, agent, session) != (None, None, None):
            raise ScopeError(
                f"space={space!r} stands alone: leave out user, agent, session and shared, or leave it out"
            )
        return clean_id("app", app), None, None, None, clean_space(space)
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
    return (clean_id("app", app), *ids, None)  # pyright: ignore[reportReturnType] - three of them


_known: Final = lru_cache(maxsize=1024)(_clean)
"""Records are read by the thousand, and name the same few scopes."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A set of ids. At least one of user, agent, session, or `shared=True` for the app's shared scope.

    space    instead of all these: what is kept for whom it is granted to, found from no other scope.
    Raises   ScopeError when no id is given, or when an id breaks the rules; never a wildcard.
    """

    app: str = "default"
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    shared: bool = False
    space: str | None = None

    def __post_init__(self) -> None:
        given = (self.app, self.user, self.agent, self.session, self.space)
        try:
            clean = _known(*given, shared=self.shared)
        except TypeError:  # not hashable, so no text
            clean = _clean(*given, shared=self.shared)
        if clean != given:
            for kind, value in zip(("app", *SCOPE_IDS, "space"), clean, strict=True):
                object.__setattr__(self, kind, value)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """App, user, agent, session; an absent id is the empty string. The stores' primary key.

        A space stands in the place of the agent, behind SPACE_MARK.
        """
        if self.space is not None:
            return (self.app, "", SPACE_MARK + self.space, "")
        return (self.app, self.user or "", self.agent or "", self.session or "")

    @classmethod
    def from_key(cls, key: tuple[str, str, str, str]) -> Scope:
        """The scope of a stored key."""
        return _of_key(key)

    def narrow(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> Scope:
        """This scope with further ids; an id that is set already must be the same.

        Raises   ScopeError if an id differs, or if this is a space: a narrower scope never becomes another's.
        """
        if self.space is not None:
            if (user, agent, session) != (None, None, None):
                raise ScopeError(f"{self} stands alone: it has no scopes of users, agents or sessions below it")
            return self
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
        """The scopes whose records this one finds, most specific first: all subsets of its ids, shared last.

        A space finds its own records only.
        """
        return _inherited(self)

    def holds(self, other: Scope) -> bool:
        """Whether `other` has all of this scope's ids: it lies in this scope's subtree."""
        if self.app != other.app:
            return False
        if self.space is not None:
            return self.space == other.space
        return all(getattr(self, kind) in (None, getattr(other, kind)) for kind in SCOPE_IDS)

    def __str__(self) -> str:
        kinds = (*SCOPE_IDS, "space")
        parts = [f"{kind}={getattr(self, kind)}" for kind in kinds if getattr(self, kind) is not None]
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


class GrantedScope(Scope):
    """A scope with others behind its own ids whose records it finds too; equal to the scope, with the same subtree.

    bare     the scope as it was seen before, perhaps an OwnScope. also: what was granted to it, in the order in which
             it is found: behind all that is the scope's own, and before what is shared.
    """

    __slots__ = ("also", "bare")

    also: tuple[Scope, ...]
    bare: Scope

    @classmethod
    def of(cls, scope: Scope, also: Iterable[Scope]) -> Scope:
        """The scope with what was granted to it; the scope itself where that is nothing."""
        bare = scope.bare if isinstance(scope, GrantedScope) else scope
        own = set(bare.inherited())
        further = tuple(one for one in dict.fromkeys(also) if one not in own)
        if not further:
            return bare
        made = cls(bare.app, bare.user, bare.agent, bare.session, bare.shared, bare.space)
        object.__setattr__(made, "bare", bare)
        object.__setattr__(made, "also", further)
        return made

    def inherited(self) -> tuple[Scope, ...]:
        """See Scope."""
        own = self.bare.inherited()
        at = len(own) - 1 if own[-1].shared else len(own)
        return (*own[:at], *self.also, *own[at:])

    def narrow(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> Scope:
        """See Scope; what was granted stays."""
        return GrantedScope.of(self.bare.narrow(user=user, agent=agent, session=session), self.also)

    def without_session(self) -> Scope:
        """See Scope; what was granted stays."""
        return GrantedScope.of(self.bare.without_session(), self.also)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Scope) else NotImplemented

    __hash__ = Scope.__hash__

    def __reduce__(self) -> tuple[Callable[..., Scope], tuple[Scope, tuple[Scope, ...]]]:
        return GrantedScope.of, (self.bare, self.also)


def bare_of(scope: Scope) -> Scope:
    """The scope as it is without what was granted to it: where its own records are written."""
    return scope.bare if isinstance(scope, GrantedScope) else scope


def lent(scope: Scope, found: Scope) -> bool:
    """Whether what a scope finds in another one is found by a grant: read and left, and never taken for its own."""
    return isinstance(scope, GrantedScope) and found in scope.also


def is_others(scope: Scope, found: Scope) -> bool:
    """Whether it is lent, and does not lie below the scope either: a user's is what each agent keeps for them."""
    return lent(scope, found) and not scope.holds(found)


@lru_cache(maxsize=1024)
def _of_key(key: tuple[str, str, str, str]) -> Scope:
    app, user, agent, session = key
    if agent.startswith(SPACE_MARK):
        return Scope(app, space=agent.removeprefix(SPACE_MARK))
    return Scope(app, user or None, agent or None, session or None, shared=not (user or agent or session))


@lru_cache(maxsize=1024)
def _inherited(scope: Scope) -> tuple[Scope, ...]:
    if scope.space is not None:
        return (Scope(scope.app, space=scope.space),)
    ids = {kind: getattr(scope, kind) for kind in SCOPE_IDS if getattr(scope, kind) is not None}
    subsets = [
        Scope(scope.app, **{kind: ids[kind] for kind in chosen})
        for size in range(len(ids), 0, -1)
        for chosen in combinations(ids, size)
    ]
    subsets.sort(key=lambda one: one.session is None)
    return (*subsets, Scope(scope.app, shared=True))


def key_owner(scope: Scope) -> tuple[str, str, str]:
    """Whose keys a scope uses: app, kind and id of its user, else agent, else session; its space; else all."""
    for kind in ("user", "agent", "session", "space"):
        if value := getattr(scope, kind):
            return scope.app, kind, value
    return scope.app, "shared", ""
