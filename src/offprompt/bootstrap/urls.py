"""Where memory is: one URL, or one for each role."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from offprompt.errors import UnsupportedError, UsageError
from offprompt.records.places import masked

ROLES: Final = ("memories", "slots", "vectors")
"""`memories`: with sessions, journal, ledger, events. `slots`: with their versions. `vectors`: of the memories."""

IN_PROCESS: Final = ":memory:"
PGVECTOR: Final = "pgvector"
"""As a URL of vectors: in the PostgreSQL of the memories."""

_ALL: Final = frozenset({"memories", "slots"})
SERVES: Final[Mapping[str, frozenset[str]]] = {
    "in-process": _ALL,
    "sqlite": _ALL,
    "postgresql": _ALL,
    "redis": frozenset({"slots"}),
    "pgvector": frozenset({"vectors"}),
    "qdrant": frozenset({"vectors"}),
    "chroma": frozenset({"vectors"}),
}
"""The roles that an engine can have. SQLite and the process's memory keep their vectors themselves."""

_SCHEMES: Final = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "redis": "redis",
    "rediss": "redis",
    "valkey": "redis",
    "valkeys": "redis",
    "qdrant": "qdrant",
    "qdrant+https": "qdrant",
    "chroma": "chroma",
    "chroma+https": "chroma",
}
_ADDRESS: Final = re.compile(
    r"(?:localhost|\d+(?:\.\d+){3}|\[[0-9A-Fa-f:]+\]|[\w-]+(?:\.[\w-]+)+):\d{1,5}(?:/.*)?", re.ASCII
)
"""A server's host and port, without the scheme that makes a URL of them."""

_ROLE: Final = re.compile(r"(?:^|\s+)([A-Za-z_]+)=")


@dataclass(frozen=True, slots=True)
class Urls:
    """The URL of each role's engine. slots: None: with the memories. vectors: None: with the memories, as they are."""

    memories: str
    slots: str | None = None
    vectors: str | None = None

    def __str__(self) -> str:
        """As one types it, without passwords."""
        if self.slots is None and self.vectors is None:
            return masked(self.memories)
        given = ((role, getattr(self, role)) for role in ROLES)
        return " ".join(f"{role}={masked(url)}" for role, url in given if url is not None)

    @property
    def place(self) -> str:
        """Where the record of truth is, without passwords, the same from whatever folder; vectors can be made again."""
        memories = self.memories
        if engine_of(memories) == "sqlite":
            memories = str(sqlite_path(memories).absolute())
        return str(Urls(memories, self.slots))


def parse_urls(text: str) -> Urls:
    """The engines of a URL or path, or of `memories=URL slots=URL vectors=URL`.

    Raises   UsageError for an unknown role, one given twice or none for the memories; UnsupportedError for an unknown
             engine and for one that cannot have its role.
    """
    given = _roles(text)
    if given is None:
        engine = engine_of(text)
        _check_alone(engine, text)
        return Urls(text)
    if "memories" not in given:
        rest = " ".join(f"{role}={masked(url)}" for role, url in given.items())
        raise UsageError(
            f"{rest!r} does not say where memories and sessions are kept; "
            f"add a file or a PostgreSQL: 'memories=agent.db {rest}'"
        )
    for role, url in given.items():
        _check_role(role, engine_of(url), url)
    if given.get("vectors") == PGVECTOR and engine_of(given["memories"]) != "postgresql":
        raise UsageError(
            "'vectors=pgvector' means the PostgreSQL of the memories, and they are in "
            f"{masked(given['memories'])!r}; write memories=postgresql://…, or leave out vectors"
        )
    slots = given.get("slots")
    if slots not in (None, given["memories"]) and engine_of(slots or "") != "redis":
        raise UnsupportedError(
            f"slots={masked(slots or '')}: apart from the memories, slots are kept in a Redis or Valkey only; "
            "write slots=redis://…, or leave slots out, then they are with the memories"
        )
    return Urls(given["memories"], None if slots == given["memories"] else slots, given.get("vectors"))


def engine_of(url: str) -> str:
    """The engine that a URL or path names, a key of SERVES.

    Raises   UnsupportedError for a scheme that no engine has.
    """
    if url in (IN_PROCESS, PGVECTOR):
        return "in-process" if url == IN_PROCESS else PGVECTOR
    scheme, found, _ = url.partition("://")
    if not found:
        return "sqlite"
    engine = _SCHEMES.get(scheme.lower())
    if engine is None:
        known = (
            "is a server's, which keeps all roles and is given alone"
            if scheme.lower() in ("http", "https")
            else "is not known"
        )
        raise UnsupportedError(
            f"the engine {scheme!r} {known}; give a file's path, ':memory:', or a URL that begins with one of "
            f"{', '.join(f'{name}://' for name in _SCHEMES)}"
        )
    return engine


def _roles(text: str) -> dict[str, str] | None:
    """The URL of each role named, None where the text is one URL or path."""
    found = list(_ROLE.finditer(text))
    if not found or text[: found[0].start()].strip():
        return None
    ends = [*(one.start() for one in found[1:]), len(text)]
    pairs = [(one[1], text[one.end() : end].strip()) for one, end in zip(found, ends, strict=True)]
    if not any(role in ROLES or "://" in url for role, url in pairs):
        return None
    given: dict[str, str] = {}
    for role, url in pairs:
        if role not in ROLES:
            raise UsageError(
                f"{masked(f'{role}={url}')!r}: there is no role {role!r}; the roles are {', '.join(ROLES)}"
            )
        if role in given:
            raise UsageError(
                f"the role {role!r} is given twice, as {masked(given[role])!r} and {masked(url)!r}; keep one"
            )
        if not url:
            raise UsageError(f"the role {role!r} has no URL; write {role}=URL")
        given[role] = url
    return given


def _check_alone(engine: str, url: str) -> None:
    """Nothing, if the engine can keep memories: what serves no more than another role needs one beside it."""
    if "memories" in SERVES[engine]:
        return
    (role,) = SERVES[engine]
    raise UsageError(
        f"{masked(url)!r} can keep {role} only, and memories and sessions need an engine too; "
        f"add a file or a PostgreSQL: 'memories=agent.db {role}={masked(url)}'"
    )


def _check_role(role: str, engine: str, url: str) -> None:
    if role in SERVES[engine]:
        return
    fitting = ", ".join(name for name, roles in SERVES.items() if role in roles)
    way = f"leave {role} out, its memories' engine keeps them; or give" if role == "vectors" else "give"
    raise UnsupportedError(f"{role}={masked(url)}: {engine} cannot keep {role}; {way} one of {fitting}")


def sqlite_path(where: str) -> Path:
    """The file that a URL or path names.

    Raises   UsageError for a URL without a path, or with what a path has not.
    """
    if "://" not in where:
        if where.lower().startswith(("sqlite:", "file:")):
            rest = where.partition(":")[2].lstrip("/") or "agent.db"
            raise UsageError(f"{where!r} is no URL of a store; write sqlite:///{rest}, or the path alone")
        if _ADDRESS.fullmatch(where):
            raise UsageError(f"{where!r} is a server's address; write http://{where}, or ./{where} for a file")
        return _path(where, where)
    try:
        parts = urlsplit(where)
    except ValueError as exc:
        raise UsageError(f"{where!r} is no URL: {exc}; write sqlite:///relative.db, or the path alone") from exc
    path = unquote(parts.path)
    if path == "/:memory:":
        raise UsageError(f"{where!r} would be a file of that name; write ':memory:' for a store in memory")
    if parts.netloc or len(path) < 2:
        raise UsageError(f"{where!r} names no file; write sqlite:///relative.db or sqlite:////absolute/path.db")
    if extra := where.partition("?")[2] or where.partition("#")[2]:
        raise UsageError(
            f"{where!r} has {extra!r} behind the path, and files have no options in the URL; leave it out, or write "
            "%3F for '?' and %23 for '#' in a file's name"
        )
    return _path(path[1:], where)


def _path(text: str, where: str) -> Path:
    if not text.strip() or "\0" in text:
        what = "has a NUL in it" if text.strip() else "is blank"
        raise UsageError(f"the path {where!r} {what}; give the path of a file, such as 'agent.db'")
    try:
        return Path(text).expanduser()
    except RuntimeError as exc:
        raise UsageError(f"{where!r}: {exc}; write the whole path") from exc
