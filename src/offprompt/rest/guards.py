"""Guards: who asks, by what a request shows, and whether it may come from where it comes."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from offprompt.errors import ForbiddenError, UnauthenticatedError, UsageError
from offprompt.records import ROLES, Identity
from offprompt.rest.endpoint import Headers
from offprompt.service.keys import Keys
from offprompt.service.quotas import Quotas

Deferred: TypeAlias = Callable[[], Identity]
"""Says who asks, or raises as `Identify` does; it may wait for the store."""

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SCHEMES: Final = ("bearer", "token")
"""Words before a key in Authorization; `Token` is what some clients of other memories send."""

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:@/?#\s]+?)\.?)(?::([0-9]{1,5}))?", re.IGNORECASE)

SEND_KEY: Final = (
    "send 'Authorization: Bearer KEY'. On the machine of the server that is the token whose file it names when it "
    "starts, elsewhere a key that `offprompt key create` makes in its store"
)
NO_KEY: Final = f"no key: {SEND_KEY}"
NO_BEARER: Final = f"the header Authorization does not say 'Bearer KEY': {SEND_KEY}"


class Identify(Protocol):
    """Says who asks: at once, or by a function to be called in a thread, where a store has to be asked.

    Raises   UnauthenticatedError, ForbiddenError, RateError.
    """

    def __call__(self, method: str, headers: Headers, *, has_body: bool) -> Identity | Deferred:
        """headers: by name in small letters. has_body: the endpoint takes one."""
        ...


class Verify(Protocol):
    """Says who a signed token of another issuer speaks for."""

    def __call__(self, token: str) -> Identity:
        """Raises UnauthenticatedError; BackendError if what proves it cannot be had."""
        ...


class Guard:
    """Identifies by key, by a token of this machine, or by a signed token.

    keys     of the store. local: whom the token of this machine stands for; token: "" where there is none.
    hosts    what the Host header may say: a page of another site that resolves to this machine says its own name.
             None: anything, for a server that others reach; a key is needed there in any case.
    verify   of signed tokens; None: there are none. quotas: count what is asked; None: nothing is counted.
    """

    def __init__(
        self,
        keys: Keys,
        *,
        local: Identity = Identity(roles=frozenset(ROLES)),  # noqa: B008 - frozen
        token: str = "",
        hosts: Iterable[str] | None = None,
        verify: Verify | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self._keys, self._local, self._verify, self._quotas = keys, local, verify, quotas
        self._token = token.encode()
        self._hosts = None if hosts is None else LOOPBACK_NAMES | {host.lower() for host in hosts}

    def __call__(self, method: str, headers: Headers, *, has_body: bool) -> Identity | Deferred:
        """See Identify."""
        del method, has_body
        if self._hosts is not None:
            check_site(headers, self._hosts)
        token = token_of(headers)
        if self._token and hmac.compare_digest(self._token, token.encode("utf-8", "surrogatepass")):
            return self._counted(self._local)
        if token.count(".") == 2 and self._verify is not None:
            verify = self._verify
            return lambda: self._taken(verify(token))
        known = self._keys.known(token)
        return self._counted(known) if known is not None else lambda: self._taken(self._keys.find(token))

    def _counted(self, identity: Identity) -> Identity | Deferred:
        """The identity, or in a thread where its requests are counted: that asks the store."""
        is_free = self._quotas is None or not self._quotas.counts_requests(identity)
        return identity if is_free else lambda: self._taken(identity)

    def _taken(self, identity: Identity) -> Identity:
        if self._quotas is not None:
            self._quotas.take(identity)
        return identity


def token_of(headers: Headers) -> str:
    """What the header Authorization shows.

    Raises   UnauthenticatedError if it shows nothing, or something of another kind.
    """
    given = headers.get("authorization", "")
    if not given:
        raise UnauthenticatedError(NO_KEY)
    scheme, _, token = given.partition(" ")
    if scheme.lower() not in SCHEMES or not token.strip():
        raise UnauthenticatedError(NO_BEARER)
    return token.strip()


def check_site(headers: Headers, hosts: frozenset[str]) -> None:
    """Nothing, if the request was sent to one of the hosts, by no page of another site.

    Raises   ForbiddenError. Pages cannot choose what Host, Origin and Sec-Fetch-Site say.
    """
    host = host_of(headers.get("host", ""))
    if host not in hosts:
        raise ForbiddenError(
            f"Host: {headers.get('host', '')[:80]!r} is not a name of this server; ask it as one of "
            f"{', '.join(sorted(hosts))}, or let it listen on an address that others reach, with keys"
        )
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site", "none").lower()
    if (origin is not None and not _is_same(origin, headers.get("host", ""))) or site not in ("none", "same-origin"):
        raise ForbiddenError("this comes from a page of another site, which may not ask here; ask without a browser")


def host_of(header: str) -> str | None:
    """The name or address of a Host header, in small letters, without its port; None if it is none."""
    found = _HOST.fullmatch(header.strip())
    return None if found is None else (found[1] or found[2]).lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def check_guarded(keys: Keys, host: str, *, has_issuer: bool) -> None:
    """Nothing, if a server on that address would know who asks.

    Raises   UsageError off the loopback while there is neither a key nor an issuer of signed tokens.
    """
    if not (is_loopback(host) or has_issuer or keys.exist()):
        raise UsageError(
            f"{host} is reached by other machines, and there is no key yet: make one with `offprompt key create NAME`, "
            "or let an issuer of signed tokens be known (oidc_issuer), or listen on 127.0.0.1"
        )


def _is_same(origin: str, host: str) -> bool:
    """Whether an Origin is the very server that is asked."""
    try:
        asked = urlsplit(origin)
        return asked.scheme in ("http", "https") and asked.netloc.lower() == host.strip().lower()
    except ValueError:
        return False
