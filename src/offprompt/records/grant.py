"""Grant: who may find what a space or an agent holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from offprompt.errors import UsageError
from offprompt.records.scope import Scope, clean_id

GrantKind: TypeAlias = Literal["space", "agent"]
"""What is granted: a space, or what an agent keeps: for the same user, and for all its users."""

GranteeKind: TypeAlias = Literal["everyone", "key", "agent", "user"]

GRANT_KINDS: Final[tuple[GrantKind, ...]] = get_args(GrantKind)
GRANTEE_KINDS: Final[tuple[GranteeKind, ...]] = get_args(GranteeKind)
EVERYONE: Final = "everyone"


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant to find; never to change.

    name     of the space, or the agent's id. to: the id of the key, agent or user; "" for everyone in the app.
    at       when it was given, in seconds since 1970. actor: whose doing it was.
    """

    app: str
    kind: GrantKind
    name: str
    to_kind: GranteeKind
    to: str
    at: float
    actor: str = "app"

    @property
    def whom(self) -> str:
        """Who it is for, as `to` is given: `everyone`, `user:alice`, `agent:helper`, `key:0123456789abcdef`."""
        return f"{self.to_kind}:{self.to}" if self.to else self.to_kind

    @property
    def owners(self) -> tuple[Scope, ...]:
        """The scopes of the space, agents and user that it names: it goes with each of them."""
        of = Scope(self.app, space=self.name) if self.kind == "space" else Scope(self.app, agent=self.name)
        if self.to_kind == "user":
            return of, Scope(self.app, user=self.to)
        return (of, Scope(self.app, agent=self.to)) if self.to_kind == "agent" else (of,)


def grantee_of(to: object) -> tuple[GranteeKind, str]:
    """Whom a text such as `user:alice` means, and the id; of `everyone` it is empty.

    Raises   UsageError for another form, ScopeError for what is no id.
    """
    kind, colon, name = to.partition(":") if isinstance(to, str) else ("", "", "")
    if kind == EVERYONE and not colon:
        return EVERYONE, ""
    for known in GRANTEE_KINDS:
        if known == kind and known != EVERYONE and name:
            return known, clean_id(known, name)
    raise UsageError(f"to={to!r}: say who it is for: user:alice, agent:helper, key:0123456789abcdef or everyone")
