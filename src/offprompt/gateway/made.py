"""Made: a gateway over an opened memory, by its options and by where it listens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from offprompt.errors import UnauthenticatedError
from offprompt.gateway.app import Gateway
from offprompt.gateway.options import GatewayOptions
from offprompt.gateway.upstream import Upstreams, targets
from offprompt.gateway.who import KEY, Who
from offprompt.records import Identity
from offprompt.rest.guarding import guard_for
from offprompt.rest.guards import LOOPBACK_NAMES, check_site, is_loopback
from offprompt.service.offprompt import Offprompt

NO_KEY: Final = (
    "no key: other machines reach this gateway, so each request shows one in the header Offprompt-Key; "
    "`offprompt key create NAME` makes it"
)


@dataclass(frozen=True, slots=True)
class Route:
    """What an operator's log and numbers call a request."""

    name: str
    path: str


ROUTES: Final = (
    Route("openai", "/chat/completions"),
    Route("responses", "/responses"),
    Route("anthropic", "/messages"),
    Route("through", "through"),
)


def gateway_for(
    memory: Offprompt, hosts: Sequence[str], options: GatewayOptions, *, user: str | None = None
) -> Gateway:
    """The gateway.

    hosts    the address that it listens on, last, and other names that it was given for it.
    user     whose memory it is where a request on this machine shows no key; None: nobody's.
    Raises   UsageError off the loopback while nobody could show who asks, and without an upstream.
    """
    guard = guard_for(memory, hosts)
    is_local = is_loopback(hosts[-1])

    def identify(headers: Mapping[str, str]) -> Identity:
        if not headers.get(KEY):
            raise UnauthenticatedError(NO_KEY)
        found = guard("POST", {**headers, "authorization": f"Bearer {headers[KEY]}"}, has_body=True)
        return found if isinstance(found, Identity) else found()

    names = LOOPBACK_NAMES | {host.lower() for host in hosts}
    return Gateway(
        Who(memory, identify, _without_key(memory, options, user) if is_local else None, needs_key=not is_local),
        Upstreams(targets(options.upstreams)),
        options,
        (lambda headers: check_site(headers, names)) if is_local else None,
    )


def _without_key(memory: Offprompt, options: GatewayOptions, user: str | None) -> Identity | None:
    """Who asks on this machine without a key: the user of the command line, or whoever the request names."""
    app = memory.parts.settings.app
    if options.trust_users:
        return Identity(app, default_user=user)
    return None if user is None else Identity(app, users=(user,), default_user=user)
