"""URLs of Redis and Valkey servers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from offprompt.errors import UsageError

_SCHEMES: Final = {"redis": "redis", "valkey": "redis", "rediss": "rediss", "valkeys": "rediss"}
_TLS_OPTIONS: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname")
_PREFIX: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """Where a server is. plain: what its client takes, with the password; `str` has none. prefix: of all our keys."""

    plain: str = field(repr=False)
    where: str
    prefix: str

    def __str__(self) -> str:
        return self.where


def parse_redis_url(url: str) -> RedisUrl:
    """The server of `redis://[user[:password]@]host[:port][/db][?prefix=offprompt]`; rediss, valkey, valkeys too.

    Raises   UsageError for what is not such a URL; the message holds no password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError as exc:
        raise UsageError(f"a Redis URL cannot be read: {exc}; write redis://host:6379/0") from exc
    host = parts.hostname or ""
    where = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{parts.path}"
    database = parts.path.strip("/")
    if parts.scheme not in _SCHEMES or not host or not (database or "0").isdecimal():
        raise UsageError(f"{where!r} names no Redis server; write redis://host:6379/0 (a host, a port, a number)")
    options = parse_qs(parts.query, keep_blank_values=True)
    prefix = options.pop("prefix", ["offprompt"])[-1]
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"prefix={prefix!r} of {where}: use 1 to 64 letters, digits, '_', '-', '.'")
    if unknown := options.keys() - set(_TLS_OPTIONS):
        known = ", ".join(("prefix", *_TLS_OPTIONS))
        raise UsageError(f"{where} has an option {min(unknown)!r} that is not known; there are: {known}")
    query = urlencode(options, doseq=True)
    plain = urlunsplit((_SCHEMES[parts.scheme], parts.netloc, parts.path, query, ""))
    return RedisUrl(plain, where, prefix)
