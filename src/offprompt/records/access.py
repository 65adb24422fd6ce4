"""Identity: who asks over a network, and for whom they may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["read", "write", "admin"]
"""What one may do: find, change, or all: erase, users, keys, the shared scope, what wipes much at once."""

ROLES: Final[tuple[Role, ...]] = ("read", "write", "admin")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, and for whom they may. None as users or agents: any.

    key           the id of the key that was shown, "" without one. subject: who it was issued to, of a JWT its `sub`.
    roles         `admin` may what the others may.
    default_user  whose memory is meant where no id is named; of a key with one user: that one.
    """

    app: str = "default"
    users: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    roles: frozenset[Role] = frozenset({"read", "write"})
    key: str = ""
    subject: str = ""
    default_user: str | None = None

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


def _one_word(text: str) -> str:
    """An id that cannot look like two: the space is the only one among printable characters."""
    return text.replace("%", "%25").replace(" ", "%20")
