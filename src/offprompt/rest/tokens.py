"""Signed tokens of another issuer (JWT, as OpenID Connect has them): who they speak for."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import jwt

from offprompt.config import Settings
from offprompt.errors import BackendError, ScopeError, UnauthenticatedError, UsageError
from offprompt.protocols import Clock
from offprompt.records import ROLES, Identity, Role, as_dict, as_list
from offprompt.records.scope import clean_id
from offprompt.rest.guards import is_loopback

KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""Algorithms that may be allowed, each with its kind of key: signatures that only the issuer's private key makes."""

CLAIMS: Final = ("exp", "iss", "aud", "sub")
LIFETIME_S: Final = 3600.0
"""Seconds after which the issuer's keys are fetched anew."""

REFETCH_S: Final = 30.0
"""Seconds that lie between two fetches at least, whatever key ids tokens name."""

FETCH_S: Final = 10.0
MAX_JWKS_BYTES: Final = 1_000_000
PREFIX: Final = "offprompt:"


@dataclass(frozen=True, slots=True)
class Claims:
    """What claims say which of ours; an empty name: none does."""

    user: str = "sub"
    app: str = ""
    roles: str = ""


class Tokens:
    """Verifies tokens and says whom they speak for. Thread-safe; may wait for the issuer's keys.

    algorithms  the only ones that are taken, whatever a token or key says. app: whose token it is unless a claim says.
    """

    def __init__(
        self,
        jwks: Jwks,
        *,
        issuer: str,
        audience: str,
        algorithms: tuple[str, ...],
        app: str = "default",
        claims: Claims = Claims(),
        leeway_s: float = 30.0,
    ) -> None:
        unknown = [each for each in algorithms if each not in KINDS]
        if unknown or not algorithms:
            wrong = unknown[0] if unknown else ""
            raise UsageError(f"oidc_algorithms: {wrong!r} is not one of {', '.join(KINDS)}; name one or more of them")
        for name, value in (("oidc_issuer", issuer), ("oidc_audience", audience)):
            if not value:
                raise UsageError(f"{name} is empty: a token is only good for whom it was made; set it")
        self._jwks, self._issuer, self._audience, self._algorithms = jwks, issuer, audience, algorithms
        self._app, self._claims, self._leeway_s = app, claims, leeway_s

    @classmethod
    def of(cls, settings: Settings, clock: Clock) -> Tokens:
        """As the settings say; UsageError for what does not fit."""
        own = settings
        return cls(
            Jwks(own.oidc_jwks, clock),
            issuer=own.oidc_issuer,
            audience=own.oidc_audience,
            algorithms=tuple(each.strip() for each in own.oidc_algorithms.split(",") if each.strip()),
            app=own.app,
            claims=Claims(own.oidc_user_claim, own.oidc_app_claim, own.oidc_roles_claim),
            leeway_s=own.oidc_leeway_s,
        )

    def __call__(self, token: str) -> Identity:
        """See Verify."""
        try:
            key = self._jwks.key(self._allowed(jwt.get_unverified_header(token)))
            claims = jwt.decode(
                token,
                key,
                algorithms=list(self._algorithms),
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway_s,
                options={"require": list(CLAIMS)},
            )
        except (jwt.PyJWTError, ValueError, RecursionError) as exc:
            raise UnauthenticatedError(
                f"the token is not valid ({type(exc).__name__}); get a new one from {self._issuer} for {self._audience}"
            ) from exc
        return self._identity(claims)

    def _allowed(self, header: Mapping[str, Any]) -> tuple[str, str | None]:
        """Algorithm and key id of a token's head, if they are taken."""
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._algorithms or not (kid is None or isinstance(kid, str)):
            raise ValueError("the algorithm is not one of those that are allowed")
        return algorithm, kid

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        named = self._claims
        user = _id("user", claims.get(named.user)) if named.user else None
        app = _id("app", claims.get(named.app)) if named.app else self._app
        return Identity(
            app,
            None if user is None else (user,),
            roles=_roles(claims.get(named.roles)) if named.roles else frozenset({"read", "write"}),
            subject=_id("sub", claims["sub"]),
            default_user=user,
        )


class Jwks:
    """The public keys of an issuer, from a URL or file; fetched when they are needed, and again now and then.

    Unknown  a key id that is not there is looked for anew, at most every REFETCH_S seconds: issuers rotate keys.
    Away     keys that are known are good while the issuer does not answer.
    """

    def __init__(self, place: str, clock: Clock) -> None:
        address = urlsplit(place)
        is_safe = address.scheme == "https" or (address.scheme == "http" and is_loopback(address.hostname or ""))
        if not place or ("://" in place and not is_safe):
            raise UsageError(f"oidc_jwks = {place!r}: give the https URL of the issuer's keys, or a file with them")
        self._place, self._clock = place, clock
        self._keys: list[dict[str, Any]] = []
        self._fetched_at = self._tried_at = float("-inf")
        self._lock = threading.Lock()

    def key(self, wanted: tuple[str, str | None]) -> jwt.PyJWK:
        """The key for an algorithm and key id; without an id the only one that fits.

        Raises   ValueError if there is none; BackendError if none is known and they cannot be fetched.
        """
        found = self._fitting(*wanted)
        # Whose key is known does not wait for others to be fetched.
        if self._is_due(found) and self._lock.acquire(blocking=not found):
            try:
                if self._is_due(self._fitting(*wanted)):
                    self._fetch(self._clock.now())
            finally:
                self._lock.release()
            found = self._fitting(*wanted)
        if self._fetched_at == float("-inf"):
            raise BackendError(f"the keys of the issuer at {self._place} are not known; is it there?")
        if len(found) != 1:
            raise ValueError("no key, or more than one, fits the token")
        return jwt.PyJWK(found[0], wanted[0])

    def _fitting(self, algorithm: str, kid: str | None) -> list[dict[str, Any]]:
        return [
            key
            for key in self._keys
            if key.get("kty") == KINDS[algorithm]
            and key.get("alg", algorithm) == algorithm
            and key.get("use", "sig") == "sig"
            and kid in (None, key.get("kid"))
        ]

    def _is_due(self, found: list[dict[str, Any]]) -> bool:
        now = self._clock.now()
        is_old = not 0 <= now - self._fetched_at < LIFETIME_S
        return (is_old or not found) and not 0 <= now - self._tried_at < REFETCH_S

    def _fetch(self, now: float) -> None:
        self._tried_at = now
        try:
            listed = as_list((as_dict(json.loads(_read(self._place))) or {}).get("keys"))
            if listed is None:
                raise ValueError("it is no JSON Web Key Set")  # noqa: TRY301 - told below with the rest
        except (OSError, URLError, HTTPException, ValueError, RecursionError) as exc:
            if not self._keys:
                raise BackendError(f"the issuer's keys cannot be read from {self._place}: {exc}") from exc
            return
        self._keys = [key for each in listed if (key := as_dict(each)) is not None]
        self._fetched_at = now


class _NoRedirect(HTTPRedirectHandler):
    """Keys come from where the settings say."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        """None: it is an error."""
        del req, fp, code, msg, headers, newurl


def _read(place: str) -> bytes:
    if "://" not in place:
        return Path(place).read_bytes()
    with build_opener(_NoRedirect).open(place, timeout=FETCH_S) as answer:
        body: bytes = answer.read(MAX_JWKS_BYTES + 1)
    if len(body) > MAX_JWKS_BYTES:
        raise ValueError(f"it has more than {MAX_JWKS_BYTES:,} bytes")
    return body


def _id(kind: str, value: object) -> str:
    try:
        return clean_id(kind, value)
    except ScopeError as exc:
        raise UnauthenticatedError(f"the token does not say the {kind}; its issuer should put it in") from exc


def _roles(value: object) -> frozenset[Role]:
    """The roles among what a claim lists, as a list or with spaces between."""
    listed = value.split() if isinstance(value, str) else as_list(value) or []
    return frozenset(role for role in ROLES if role in listed or PREFIX + role in listed)
