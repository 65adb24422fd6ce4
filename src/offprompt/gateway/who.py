"""Who: whose memory a request is about, and which conversation it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from offprompt.errors import ForbiddenError, ScopeError, UnauthenticatedError, UsageError
from offprompt.gateway.asked import Asked, NotOursError
from offprompt.gateway.clients import conversation_of, user_of
from offprompt.gateway.upstream import OURS, Pairs
from offprompt.records import Identity, compact
from offprompt.records.access import TOKEN
from offprompt.rest.endpoint import decoded
from offprompt.service.access import actor_for, scope_for
from offprompt.service.accounting import digester
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt

KEY: Final = "offprompt-key"
NOBODY: Final = (
    "no memory is named: send your key in the header Offprompt-Key, or say whose memory it is with Offprompt-User (or "
    "the request's own `user`, or `metadata.user_id`) where the gateway takes that; or start it with --user alice"
)
ANYBODY: Final = (
    "no memory is named: the key is for any user, so say with Offprompt-User (or the request's own `user`, or "
    "`metadata.user_id`) whose it is; or use a key for one user"
)
ANOTHER: Final = (
    "without a key the gateway's own user (--user) is the only one; send a key that is for another in the header "
    "Offprompt-Key, or start it with --trust-users"
)
MISPLACED: Final = (
    "a key of this memory (op_…) stands where the provider's belongs, so nothing was sent; send it in the header "
    "Offprompt-Key, and the provider's own in its place"
)

Identify = Callable[[Mapping[str, str]], Identity]


@dataclass(frozen=True, slots=True)
class Who:
    """Whose memory requests are about.

    identify     who shows this key; raises UnauthenticatedError for none that is known.
    without_key  who asks without a key; None: nobody may.
    needs_key    nothing goes through without a key, whatever is asked.
    """

    memory: Offprompt
    identify: Identify
    without_key: Identity | None
    needs_key: bool = False

    def identity(self, headers: Mapping[str, str]) -> Identity:
        """Who asks.

        Raises   UnauthenticatedError, RateError; ScopeError if no key is shown and nobody may ask without.
        """
        found = self.identify(headers) if self.needs_key or headers.get(KEY) else self.without_key
        if found is None:
            raise ScopeError(NOBODY)
        return found

    def scope(
        self, headers: Mapping[str, str], asked: Asked, identity: Identity | None = None
    ) -> tuple[BoundScope, str]:
        """The scope and the session's id. identity: who asks, if that is known.

        Raises   as `identity`; ForbiddenError for another's memory, ScopeError if nothing says whose it is;
                 NotOursError for messages that are none of the wire's.
        """
        identity = identity or self.identity(headers)
        user, agent = _said(headers, "user"), _said(headers, "agent")
        if user is None and (identity.users is None or len(identity.users) > 1):
            # Whoever is of one user is not asked what stands in fields that are for the provider.
            user = user_of(headers, asked)
        if user is None and agent is None and identity.users is None and identity.default_user is None:
            raise ScopeError(ANYBODY if headers.get(KEY) else NOBODY)
        try:
            scope = scope_for(identity, app=_said(headers, "app"), user=user, agent=agent, role="write")
        except ForbiddenError as exc:
            if identity is not self.without_key:
                raise
            raise ForbiddenError(ANOTHER) from exc
        bound = self.memory.scope(
            app=scope.app, user=scope.user, agent=scope.agent, actor=actor_for(identity, scope.user)
        )
        return bound, _said(headers, "session") or self._known(bound, headers, asked)

    def _known(self, scope: BoundScope, headers: Mapping[str, str], asked: Asked) -> str:
        """The id of a conversation for which ours is not sent, of this scope alone.

        By the client's own id, and in it by wire and first user message: a client runs several conversations under one
        id (its helpers, another provider), which need not wait for each other. Without an id the same words begin the
        same one.
        """
        digest = digester(self.memory.parts.sessions.digest_key(scope.scope))
        own = conversation_of(headers, asked)
        try:
            words = asked.first_words() if own is None else compact([own, asked.wire, asked.first_said()])
        except (UsageError, RecursionError) as exc:
            raise NotOursError(str(exc)) from exc
        return f"gw-{digest(words)}"


def check_places(headers: Pairs, path: str) -> None:
    """Raises UnauthenticatedError for a key of ours in a header or an address that the provider would get."""
    theirs = [value.decode("latin-1") for name, value in headers if not name.startswith(OURS)]
    if any(TOKEN.search(text) for text in (*theirs, path)):
        raise UnauthenticatedError(MISPLACED)


def _said(headers: Mapping[str, str], kind: str) -> str | None:
    """What a header of ours says."""
    value = headers.get(f"offprompt-{kind}")
    return decoded(f"Offprompt-{kind.title()}", value) if value else None
