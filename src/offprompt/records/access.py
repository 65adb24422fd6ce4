"""Identity: who asks over a network, and for whom they may."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from offprompt.errors import ForbiddenError
from offprompt.records.scope import OwnScope, Scope, Within, is_others

Role: TypeAlias = Literal["read", "write", "admin"]
"""What one may do: find, change, or all: erase, users, keys, the shared scope, what wipes much at once."""

ROLES: Final[tuple[Role, ...]] = ("read", "write", "admin")

TOKEN: Final = re.compile(r"\bop_[0-9a-f]{16}_[\w-]{43}")
"""What a key's token looks like, in whatever text."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, and for whom they may. None as users or agents: any.

    key           the id of the key that was shown, "" without one. subject: who it was issued to, of a JWT its `sub`.
    roles         `admin` may what the others may.
    default_user  whose memory is meant where no id is named; of a key with one user: that one.
    requests_per_minute  what the key may ask for beside what its app may; None: that alone.
    """

    app: str = "default"
    users: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    roles: frozenset[Role] = frozenset({"read", "write"})
    key: str = ""
    subject: str = ""
    default_user: str | None = None
    requests_per_minute: int | None = None

    @property
    def whole_app(self) -> bool:
        """Whether any user's and any agent's memory may be asked for."""
        return self.users is None and self.agents is None

    @property
    def actor(self) -> str:
        """What events say of who did it: `key:K subject:S`; `app` without either."""
        return self.acting_for(None)

    def may(self, role: Role) -> bool:
        """Whether the role, or `admin`, was given."""
        return role in self.roles or "admin" in self.roles

    def acting_for(self, user: str | None) -> str:
        """`actor`, with ` for:USER` for a user who is not the subject. A space in an id is `%20`, a `%` is `%25`."""
        parts = [("key", self.key), ("subject", self.subject)]
        if user is not None and user != self.subject and (self.key or self.subject):
            parts.append(("for", user))
        return " ".join(f"{kind}:{_one_word(name)}" for kind, name in parts if name) or "app"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of an app, without what proves that one has it.

    name        who it was issued to; events name it beside the id. users, agents: those it is for, None: any.
    expires_at  seconds since 1970, as all times; None: never.
    old_until   until when the secret before the last rotation is still taken; 0: it is not.
    requests_per_minute  what it may ask for beside what its app may; None: that alone.
    """

    key_id: str
    name: str
    app: str
    users: tuple[str, ...] | None
    agents: tuple[str, ...] | None
    roles: tuple[Role, ...]
    created_at: float
    expires_at: float | None = None
    rotated_at: float | None = None
    old_until: float = 0.0
    requests_per_minute: int | None = None

    @property
    def identity(self) -> Identity:
        """Who shows it."""
        only = self.users[0] if self.users is not None and len(self.users) == 1 else None
        roles, rate = frozenset(self.roles), self.requests_per_minute
        return Identity(self.app, self.users, self.agents, roles, self.key_id, self.name, only, rate)


@dataclass(frozen=True, slots=True)
class Issued:
    """A key with its token, which is shown this once: only a hash of it is stored."""

    key: Key
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something in a scope; unless told, the application itself, which may all.

    name     what events say.
    bounded  from a user's scope it changes that user's records only, from others what is not shared; from the shared
             scope it sees what is shared and nothing of the app's users and agents, who lie below it.
    of_user  it is one user's, or a few users': it does not see what is stored under a session alone.
    key      the id of the key that was shown, "" without one: what is granted to it is found.
    """

    name: str = "app"
    bounded: bool = False
    of_user: bool = False
    key: str = ""

    def view(self, scope: Scope) -> Scope:
        """The scope as this one sees it."""
        is_own = self.of_user and scope.user is not None
        return OwnScope(scope.app, scope.user, scope.agent, scope.session) if is_own else scope

    def via(self, part: str) -> str:
        """What events say of what a part of ours, such as `model`, does on its behalf."""
        return part if self.name == "app" else f"{part} {self.name}"

    def sees_below(self, scope: Scope) -> bool:
        """Whether the scopes below one may be looked into from it."""
        return not (self.bounded and scope.shared)

    def check_within(self, scope: Scope, within: Within) -> None:
        """Raises ForbiddenError for what is asked of all below the shared scope: that is the whole app."""
        if within == "subtree" and not self.sees_below(scope):
            raise ForbiddenError(
                "below the shared scope lies the whole app; name a user, an agent or a session, or use a key with the "
                "role 'admin' that is of no user"
            )

    def may_change(self, scope: Scope, found: Scope) -> bool:
        """Whether what was found in another scope from `scope` may be changed from there; never what was granted."""
        if is_others(scope, found):
            return False
        if not self.bounded or found == scope:
            return True
        return not found.shared and scope.user in (None, found.user)

    def check_change(self, scope: Scope, found: Scope, what: str) -> None:
        """Raises ForbiddenError unless `may_change`. what: such as `slot 'city'`."""
        if not self.may_change(scope, found):
            raise ForbiddenError(f"{what} belongs to {found}, not to {scope}; change it in its own scope, if you may")


APPLICATION: Final = Actor()
"""Whoever has the library in hand."""


def _one_word(text: str) -> str:
    """An id that cannot look like two: the space is the only one among printable characters."""
    return text.replace("%", "%25").replace(" ", "%20")
