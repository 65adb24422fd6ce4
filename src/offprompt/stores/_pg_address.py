"""Where a PostgreSQL store is: the URL's parts, those that are ours and those that are libpq's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from offprompt.errors import UsageError

DEFAULT_SCHEMA: Final = "offprompt"
DEFAULT_POOL: Final = 10
MAX_POOL: Final = 1000
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
OWN_OPTIONS: Final = ("schema", "role", "pool")


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL names.

    url      for libpq: all but our own options.
    schema   where the tables are. role: what each connection becomes, "" as it logged in.
    pool     connections that one process may have.
    """

    url: str
    schema: str = DEFAULT_SCHEMA
    role: str = ""
    pool: int = DEFAULT_POOL


def parse_address(url: str) -> Address:
    """The parts of `postgresql://USER@HOST:PORT/DATABASE?schema=…&role=…&pool=…&OPTIONS OF LIBPQ`.

    Raises   UsageError for an option of ours that is given twice or has no such value. No message holds the URL.
    """
    base, _, query = url.partition("?")
    given: dict[str, str] = {}
    rest: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in OWN_OPTIONS:
            rest.append((name, value))
        elif name in given:
            raise UsageError(f"the option {name!r} is in the PostgreSQL URL twice; give it once")
        else:
            given[name] = value
    for name in ("schema", "role"):
        if name in given and not _NAME.fullmatch(given[name]):
            raise UsageError(
                f"{name}={given[name]!r} in the PostgreSQL URL: give a name of small letters, digits and _, "
                "which begins with a letter, of 63 characters at the most"
            )
    # libpq reads + as it stands.
    clean = base + ("?" + urlencode(rest, quote_via=quote) if rest else "")
    return Address(
        clean, given.get("schema", DEFAULT_SCHEMA), given.get("role", ""), _pool(given.get("pool", str(DEFAULT_POOL)))
    )


def _pool(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_POOL:
        raise UsageError(f"pool={text!r} in the PostgreSQL URL: give a number of connections from 1 to {MAX_POOL}")
    return int(text)
