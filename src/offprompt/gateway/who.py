"""Who: whose memory a request is about, and which conversation it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from offprompt.errors import ScopeError
from offprompt.gateway.asked import Asked
from offprompt.records import Identity, as_dict
from offprompt.rest.endpoint import decoded
from offprompt.service.access import actor_for, scope_for
from offprompt.service.accounting import digester
from offprompt.service.offprompt import BoundScope, Offprompt

KEY: Final = "offprompt-key"
COMPOSITE: Final = re.compile(
    r"user_(?P<user>[0-9a-f]{16,})(?:_account_(?P<account>[0-9a-f-]*))?_session_(?P<session>[0-9a-f-]{8,})"
)
"""`metadata.user_id` of Claude Code: the machine's user, the account, the conversation."""

NOBODY: Final = (
    "no memory is named: send your key in the header Offprompt-Key, or say whose memory it is with Offprompt-User (or "
    "the request's own `user`, or `metadata.user_id`) where the gateway takes that; or start it with --user alice"
)

Identify = Callable[[Mapping[str, str]], Identity]


@dataclass(frozen=True, slots=True)
class Named:
    """What a request says of itself beside its key."""

    user: str | None = None
    agent: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Who:
    """Whose memory requests are about.

    identify     who shows this key; raises UnauthenticatedError for none that is known.
    without_key  who asks without a key; None: nobody may.
    """

    memory: Offprompt
    identify: Identify
    without_key: Identity | None

    def scope(self, headers: Mapping[str, str], asked: Asked) -> tuple[BoundScope, str]:
        """The scope and the session's id.

        Raises   UnauthenticatedError, ForbiddenError, ScopeError.
        """
        identity = self.identify(headers) if KEY in headers else self.without_key
        if identity is None:
            raise ScopeError(NOBODY)
        named = self._named(headers, asked, identity)
        session = named.session
        if named.user is None and named.agent is None and identity.default_user is None:
            raise ScopeError(NOBODY)
        scope = scope_for(identity, user=named.user, agent=named.agent, role="write")
        bound = self.memory.scope(
            app=scope.app, user=scope.user, agent=scope.agent, actor=actor_for(identity, scope.user)
        )
        return bound, session or self._known(bound, asked)

    def _known(self, scope: BoundScope, asked: Asked) -> str:
        """The id of a conversation that says none: the same words begin the same one, of this scope alone."""
        digest = digester(self.memory.parts.sessions.digest_key(scope.scope))
        return f"gw-{digest(asked.first_words())}"

    def _named(self, headers: Mapping[str, str], asked: Asked, identity: Identity) -> Named:
        said = {
            kind: decoded(f"Offprompt-{kind.title()}", value)
            for kind in ("user", "agent", "session")
            if (value := headers.get(f"offprompt-{kind}"))
        }
        body = _in_body(asked)
        # The request's own field is for the provider: who is of one user anyway is not asked what stands there.
        user = body.user if identity.users is None else None
        return Named(said.get("user") or user, said.get("agent"), said.get("session") or body.session)


def _in_body(asked: Asked) -> Named:
    """Whom the standard fields of a request name."""
    body = asked.body
    metadata = as_dict(body.get("metadata")) or {}
    given = metadata.get("user_id") if asked.wire == "anthropic" else body.get("user") or body.get("safety_identifier")
    if not isinstance(given, str) or not given:
        return Named()
    found = COMPOSITE.fullmatch(given)
    if found is None:
        return Named(user=given)
    return Named(user=found["account"] or found["user"], session=found["session"])
