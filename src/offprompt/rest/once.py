"""Once: a change that is sent again under its Idempotency-Key is not made again, and the same is answered.

Answers are kept sealed: with the key and the whole request, neither of which is stored. So a value that was erased is
in no copy that anybody could read who does not hold it anyway.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from offprompt.errors import ConflictError, OffpromptError
from offprompt.protocols import Coordinator
from offprompt.rest.answering import Reply, refused
from offprompt.rest.endpoint import Call
from offprompt.rest.problems import RequestError

HEADER: Final = "idempotency-key"
KEPT_S: Final = 86400.0
BEGUN_S: Final = 60.0
"""Seconds after which a change that was begun and not ended, since its server is gone, may be begun anew."""
MAX_KEPT_BYTES: Final = 64 * 1024
NONCE: Final = 16

_KEY: Final = re.compile(r"[!-~]{1,255}")
_SAYS: Final = ("content-type", "if-match", "if-none-match")


class _Kept(msgspec.Struct, array_like=True):
    """An answer as it is kept; no body: it was too long."""

    status: int
    headers: Mapping[str, str]
    body: bytes | None
    code: str


class Once:
    """Makes changes once. coordinator: what all servers of the store agree by."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def reply(self, call: Call, target: bytes, body: bytes, make: Callable[[], Reply]) -> Reply:
        """The answer that was given under the request's key, or that which `make` makes now.

        target   path and query as they were sent.
        Kept     for KEPT_S seconds, but what may go better another time: errors 5xx, 429, and what another call is in
                 the way of. Of an answer over MAX_KEPT_BYTES only that it was given.
        Raises   RequestError 422 if the key stands for another request, 409 while it is being done, and where the
                 answer was too long to be kept; what `make` raises, if it is not kept.
        """
        key = call.headers.get(HEADER)
        if key is None or not call.endpoint.is_once:
            return make()
        if not _KEY.fullmatch(key):
            raise RequestError(HTTPStatus.BAD_REQUEST, "Idempotency-Key is 1 to 255 visible ASCII characters")
        asked = _asked(call, target, body)
        who = (call.identity.app, call.identity.key, call.identity.subject)
        name, digest, secret = (_digest(kind, key, *who, *asked[:size]) for kind, size in _USES)
        try:
            result = self._coordinator.once(f"http {name}", digest, seconds=BEGUN_S)
        except ConflictError as exc:
            raise _taken(exc) from exc
        if result is not None:
            return _again(_opened(secret, result))
        # A server that ended between storing a write and saying so leaves one that knows its name.
        call.op_key = f"http/{name}"
        kept: str | None = None
        try:
            try:
                reply = make()
            except OffpromptError as exc:
                media_type = call.endpoint.problem_type
                reply = refused(exc, is_conditional=call.is_conditional, media_type=media_type)
                if not _is_final(reply):
                    raise
            if isinstance(reply.body, bytes) and _is_final(reply):
                short = reply.body if len(reply.body) <= MAX_KEPT_BYTES else None
                kept = _sealed(secret, _Kept(reply.status, reply.headers, short, reply.code))
            return reply
        finally:
            self._coordinator.finish(f"http {name}", digest, kept, ttl_s=KEPT_S)


_ALL: Final = 99
_USES: Final = (("name", 0), ("digest", _ALL), ("secret", _ALL))
"""What digests are made for, and how much of what is asked goes into each."""


def _asked(call: Call, target: bytes, body: bytes) -> tuple[str, ...]:
    """All that makes a request this one."""
    headers = call.headers
    said = sorted(f"{name}: {headers[name]}" for name in headers if name in _SAYS or name.startswith("offprompt-"))
    return (call.endpoint.method, target.decode("latin-1"), *said, hashlib.sha256(body).hexdigest())


def _digest(*parts: str) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _is_final(reply: Reply) -> bool:
    """Whether the same request would be answered the same another time."""
    return reply.status < 500 and reply.status != HTTPStatus.TOO_MANY_REQUESTS and "retry-after" not in reply.headers


def _taken(error: ConflictError) -> RequestError:
    if error.retry_after_s is None:
        return RequestError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "this Idempotency-Key was sent with another request; make a new one for each change",
        )
    return RequestError(
        HTTPStatus.CONFLICT,
        "the change of this Idempotency-Key is being made; ask again soon, with the same key",
        {"retry-after": "1"},
        code="ConflictError",
    )


def _again(kept: _Kept) -> Reply:
    if kept.body is None:
        raise RequestError(
            HTTPStatus.CONFLICT,
            f"the change of this Idempotency-Key is made; its answer had more than {MAX_KEPT_BYTES:,} bytes and is not "
            "kept: read what is there",
            code="ConflictError",
        )
    return Reply(kept.status, kept.headers, kept.body, kept.code)


def _sealed(secret: str, kept: _Kept) -> str:
    nonce = secrets.token_bytes(NONCE)
    return base64.b85encode(nonce + _mixed(secret, nonce, msgspec.msgpack.encode(kept))).decode()


def _opened(secret: str, text: str) -> _Kept:
    raw = base64.b85decode(text)
    return msgspec.msgpack.decode(_mixed(secret, raw[:NONCE], raw[NONCE:]), type=_Kept)


def _mixed(secret: str, nonce: bytes, data: bytes) -> bytes:
    """The data under a stream of bytes that only the secret gives; once more takes it off.

    Source   SHAKE256 of key and nonce as a key stream: FIPS 202, section 6.2, and its note on keyed use.
    """
    stream = hashlib.shake_256(secret.encode() + nonce).digest(len(data))
    return (int.from_bytes(data) ^ int.from_bytes(stream)).to_bytes(len(data))
