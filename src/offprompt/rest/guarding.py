"""The guard of a server, made of its memory and settings."""

from __future__ import annotations

from collections.abc import Sequence

from offprompt.config import Settings
from offprompt.errors import UnsupportedError
from offprompt.protocols import Clock
from offprompt.records import ROLES, Identity
from offprompt.rest.guards import Guard, Verify, check_guarded, is_loopback
from offprompt.service.offprompt import Offprompt


def guard_for(memory: Offprompt, hosts: Sequence[str], *, token: str = "", user: str | None = None) -> Guard:
    """Who asks of a server: by keys of its store, by signed tokens, and on the loopback by the token of this machine.

    hosts    the address that it listens on, last, and other names that it was given for it.
    user     whose memory is meant with that token where none is named; None: the memory's own default.
    Raises   UsageError off the loopback while nobody could show who asks, and for settings of signed tokens that do
             not fit; UnsupportedError where these need an extra.
    """
    settings = memory.parts.settings
    verify = _tokens(settings, memory.parts.clock)
    check_guarded(memory.keys, hosts[-1], has_issuer=verify is not None)
    local = Identity(settings.app, roles=frozenset(ROLES), default_user=user or memory.default_user)
    return Guard(
        memory.keys,
        local=local,
        token=token,
        hosts=hosts if is_loopback(hosts[-1]) else None,
        verify=verify,
        quotas=memory.parts.quotas,
    )


def _tokens(settings: Settings, clock: Clock) -> Verify | None:
    """What verifies signed tokens; None if the settings name no issuer of them."""
    if not settings.oidc_issuer:
        return None
    try:
        from offprompt.rest.tokens import Tokens  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise UnsupportedError("signed tokens need PyJWT; run: pip install 'offprompt[oidc]'") from exc
    return Tokens.of(settings, clock)
