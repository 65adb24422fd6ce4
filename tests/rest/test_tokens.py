"""Signed tokens of another issuer: real signatures, and a server that has the issuer's keys."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

import offprompt
from offprompt.config import Settings, load_settings
from offprompt.errors import BackendError, UnauthenticatedError, UsageError
from offprompt.records import Identity, Role
from offprompt.rest.guarding import guard_for
from offprompt.rest.tokens import LIFETIME_S, REFETCH_S, Claims, Jwks, Tokens
from offprompt.testing import MovedClock

ISSUER, AUDIENCE = "https://id.example/", "offprompt"


@cache
def rsa_key(name: str) -> rsa.RSAPrivateKey:
    del name
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def public(kid: str, **more: Any) -> dict[str, Any]:
    """The public key of that id, as an issuer lists it."""
    if kid == "ec":
        found = json.loads(ECAlgorithm.to_jwk(ec_key().public_key()))
    elif kid == "ed":
        found = json.loads(OKPAlgorithm.to_jwk(ed_key().public_key()))
    else:
        found = json.loads(RSAAlgorithm.to_jwk(rsa_key(kid).public_key()))
    return {**found, "kid": kid, "use": "sig", **more}


def signed(kid: str = "k1", algorithm: str = "RS256", head: dict[str, Any] | None = None, **claims: Any) -> str:
    """A token; a claim that is None is left out."""
    now = int(time.time())
    whole = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now + 300, "iat": now, **claims}
    key: Any = {"ec": ec_key, "ed": ed_key}.get(kid, lambda: rsa_key(kid))()
    given = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(given, key, algorithm, headers={"kid": kid} if head is None else head)


class Issuer:
    """A server that lists keys, and counts how often it was asked."""

    def __init__(self) -> None:
        self.keys: list[Any] = [public("k1")]
        self.body: bytes | None = None
        self.status, self.asked = 200, 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                body = issuer.body if issuer.body is not None else json.dumps({"keys": issuer.keys}).encode()
                self.send_response(issuer.status)
                if issuer.status == 302:
                    self.send_header("location", "/elsewhere")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
                del format, args

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    own = Issuer()
    yield own
    own.close()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


def tokens_of(place: str, clock: MovedClock, **options: Any) -> Tokens:
    given: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, "algorithms": ("RS256", "ES256"), **options}
    return Tokens(Jwks(place, clock), **given)


@pytest.fixture
def tokens(issuer: Issuer, clock: MovedClock) -> Tokens:
    return tokens_of(issuer.url, clock)


def test_a_token_speaks_for_its_subject(tokens: Tokens, issuer: Issuer) -> None:
    assert tokens(signed()) == Identity(users=("alice",), subject="alice", default_user="alice")
    assert tokens(signed(sub="李雷", aud=["other", AUDIENCE])).users == ("李雷",)
    assert issuer.asked == 1


def test_claims_say_user_app_and_roles(issuer: Issuer, clock: MovedClock) -> None:
    tokens = tokens_of(issuer.url, clock, app="own", claims=Claims("email", "tenant", "scope"))
    found = tokens(signed(email="a@b.example", tenant="shop", scope="openid offprompt:read admin root"))
    roles: frozenset[Role] = frozenset({"read", "admin"})
    assert found == Identity("shop", ("a@b.example",), None, roles, "", "alice", "a@b.example")
    assert tokens(signed(email="a", tenant="t", scope=["write"])).roles == frozenset({"write"})
    assert tokens(signed(email="a", tenant="t")).roles == frozenset()
    incomplete: list[dict[str, Any]] = [{"tenant": "t"}, {"email": "a", "tenant": 5}, {"email": "", "tenant": "t"}]
    for lacking in incomplete:
        with pytest.raises(UnauthenticatedError, match="does not say"):
            tokens(signed(**lacking))


def test_without_a_claim_for_it_a_token_is_for_any_user_of_the_app(issuer: Issuer, clock: MovedClock) -> None:
    found = tokens_of(issuer.url, clock, app="own", claims=Claims(user=""))(signed())
    assert (found.app, found.users, found.subject, found.default_user) == ("own", None, "alice", None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"exp": 1000},
        {"exp": None},
        {"nbf": 99999999999},
        {"iss": "https://id.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"aud": []},
        {"sub": None},
        {"sub": 5},
        {"exp": "soon"},
    ],
    ids=lambda wrong: "-".join(f"{name}={type(value).__name__}" for name, value in wrong.items()),
)
def test_a_token_of_another_time_issuer_or_audience_is_refused(tokens: Tokens, wrong: dict[str, Any]) -> None:
    with pytest.raises(UnauthenticatedError) as refused:
        tokens(signed(**wrong))
    assert "alice" not in str(refused.value)


def test_clocks_may_differ_a_little(tokens: Tokens, issuer: Issuer, clock: MovedClock) -> None:
    assert tokens(signed(exp=int(time.time()) - 10)).subject == "alice"
    with pytest.raises(UnauthenticatedError, match="Expired"):
        tokens_of(issuer.url, clock, leeway_s=0)(signed(exp=int(time.time()) - 10))


def unsigned(algorithm: str) -> str:
    def part(what: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(what).encode()).decode().rstrip("=")

    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 300}
    return f"{part({'alg': algorithm, 'kid': 'k1', 'typ': 'JWT'})}.{part(claims)}."


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "HS256", "XX"])
def test_what_is_not_signed_is_refused(tokens: Tokens, algorithm: str) -> None:
    with pytest.raises(UnauthenticatedError):
        tokens(unsigned(algorithm))


def test_a_public_key_is_no_shared_secret(tokens: Tokens) -> None:
    pem = (
        rsa_key("k1")
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    head = unsigned("HS256").rsplit(".", 1)[0]
    for secret in (pem, pem.strip(), json.dumps(public("k1")).encode()):
        mac = base64.urlsafe_b64encode(hmac.new(secret, head.encode(), hashlib.sha256).digest()).decode().rstrip("=")
        with pytest.raises(UnauthenticatedError):
            tokens(f"{head}.{mac}")


def test_a_symmetric_key_that_the_issuer_lists_is_no_key(issuer: Issuer, tokens: Tokens) -> None:
    secret = b"0123456789abcdef0123456789abcdef"
    issuer.keys = [{"kty": "oct", "kid": "k1", "k": base64.urlsafe_b64encode(secret).decode().rstrip("=")}]
    head = unsigned("HS256").rsplit(".", 1)[0]
    mac = base64.urlsafe_b64encode(hmac.new(secret, head.encode(), hashlib.sha256).digest()).decode().rstrip("=")
    for given in (f"{head}.{mac}", signed()):
        with pytest.raises(UnauthenticatedError):
            tokens(given)


def test_a_token_is_signed_with_what_is_allowed_and_fits_its_key(issuer: Issuer, clock: MovedClock) -> None:
    issuer.keys = [public("k1", alg="RS256"), public("ec"), public("ed"), public("enc", use="enc")]
    tokens = tokens_of(issuer.url, clock)
    assert tokens(signed("ec", "ES256")).subject == "alice"
    for refused in (
        signed("ed", "EdDSA"),
        signed("k1", "RS512"),
        signed("k1", "PS256"),
        signed("enc"),
        signed("k1", head={"kid": "ec"}),
        signed("ec", "ES256", head={"kid": "k1"}),
    ):
        with pytest.raises(UnauthenticatedError):
            tokens(refused)
    wide = tokens_of(issuer.url, clock, algorithms=("EdDSA", "PS256", "RS256"))
    assert wide(signed("ed", "EdDSA")).subject == "alice"
    with pytest.raises(UnauthenticatedError):
        wide(signed("k1", "PS256"))  # its key says that it is for RS256


def test_a_token_without_a_key_id_is_taken_where_one_key_fits(issuer: Issuer, tokens: Tokens) -> None:
    assert tokens(signed(head={})).subject == "alice"
    issuer.keys.append(public("k2"))
    fresh = tokens_of(issuer.url, MovedClock())
    with pytest.raises(UnauthenticatedError):
        fresh(signed(head={}))


@pytest.mark.parametrize("given", ["a.b.c", "..", "a.b", "{token}x", "{token}.x", "é.é.é", "{token}"[::-1]])
def test_what_is_no_token_is_refused(tokens: Tokens, given: str) -> None:
    with pytest.raises(UnauthenticatedError):
        tokens(given.replace("{token}", signed()))


def test_a_signature_of_somebody_elses_key_is_refused(tokens: Tokens) -> None:
    forged = signed("other", head={"kid": "k1"})
    with pytest.raises(UnauthenticatedError, match="InvalidSignature"):
        tokens(forged)


def test_keys_are_fetched_once_and_anew_for_one_that_is_not_known(
    issuer: Issuer, tokens: Tokens, clock: MovedClock
) -> None:
    for _ in range(5):
        tokens(signed())
    assert issuer.asked == 1
    issuer.keys = [public("k1"), public("k2")]
    for _ in range(5):
        with pytest.raises(UnauthenticatedError):
            tokens(signed("k2"))
    assert issuer.asked == 1
    clock.move(REFETCH_S)
    assert tokens(signed("k2")).subject == "alice"
    for _ in range(5):
        with pytest.raises(UnauthenticatedError):
            tokens(signed("k3"))
    assert issuer.asked == 2


def test_a_key_that_the_issuer_took_back_is_refused_within_an_hour(
    issuer: Issuer, tokens: Tokens, clock: MovedClock
) -> None:
    tokens(signed())
    issuer.keys = [public("k2")]
    clock.move(LIFETIME_S - 1)
    assert tokens(signed()).subject == "alice"
    clock.move(1)
    with pytest.raises(UnauthenticatedError):
        tokens(signed())
    assert tokens(signed("k2")).subject == "alice"


@pytest.mark.parametrize("trouble", ["500", "302", "no json", "no set", "large"])
def test_an_issuer_in_trouble_is_no_wrong_token(issuer: Issuer, clock: MovedClock, trouble: str) -> None:
    tokens = tokens_of(issuer.url, clock)
    match trouble:
        case "500" | "302":
            issuer.status = int(trouble)
        case "no json":
            issuer.body = b"<html>"
        case "no set":
            issuer.body = b"[]"
        case _:
            issuer.body = b" " * 1_000_001
    for _ in range(3):
        with pytest.raises(BackendError, match="127"):
            tokens(signed())
    assert issuer.asked == 1
    issuer.status, issuer.body = 200, None
    clock.move(REFETCH_S)
    assert tokens(signed()).subject == "alice"
    issuer.status = 500
    clock.move(LIFETIME_S)
    assert tokens(signed()).subject == "alice"


def test_keys_may_stand_in_a_file(tmp_path: Path, clock: MovedClock) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [public("k1")]}))
    assert tokens_of(str(path), clock)(signed()).subject == "alice"
    with pytest.raises(BackendError, match="nowhere"):
        tokens_of(str(tmp_path / "nowhere"), clock)(signed())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"oidc_algorithms": "RS256, HS256"}, "HS256"),
        ({"oidc_algorithms": "none"}, "none"),
        ({"oidc_algorithms": ""}, "oidc_algorithms"),
        ({"oidc_audience": ""}, "oidc_audience"),
        ({"oidc_jwks": "http://id.example/jwks"}, "https"),
        ({"oidc_jwks": "file:///etc/passwd"}, "https"),
        ({"oidc_jwks": ""}, "oidc_jwks"),
    ],
)
def test_settings_that_would_take_anything_are_refused_at_the_start(given: dict[str, Any], says: str) -> None:
    whole = {"oidc_issuer": ISSUER, "oidc_audience": AUDIENCE, "oidc_jwks": "https://id.example/jwks", **given}
    settings: Settings = load_settings(whole, environ={})
    with pytest.raises(UsageError, match=says):
        Tokens.of(settings, MovedClock())


def test_a_server_takes_keys_and_signed_tokens_beside_each_other(issuer: Issuer) -> None:
    options: dict[str, Any] = {"oidc_issuer": ISSUER, "oidc_audience": AUDIENCE, "oidc_jwks": issuer.url}
    with offprompt.open(":memory:", **options) as memory:
        guard = guard_for(memory, ["192.0.2.7"])
        asked: Any = guard("GET", {"authorization": f"Bearer {signed()}"}, has_body=False)
        assert asked() == Identity(users=("alice",), subject="alice", default_user="alice")
        with pytest.raises(UnauthenticatedError):
            guard("GET", {}, has_body=False)
