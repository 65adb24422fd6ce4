"""What all indexes outside of a store share: their URLs, the names of their collections, what an entry carries."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import UsageError
from offprompt.records import Scope, Sought, VectorEntry, VectorStamp, compact

T = TypeVar("T")

COLLECTION: Final = "offprompt"
TIMEOUT_S: Final = 10.0
OPTIONS: Final = ("collection", "timeout_s")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class IndexUrl:
    """Where an index is.

    path        of a folder of this machine; empty: at host and port. key: never shown.
    collection  what its collections' names begin with. timeout_s: seconds to wait for one answer.
    """

    engine: str
    host: str = ""
    port: int = 0
    tls: bool = False
    path: str = ""
    key: str = ""
    collection: str = COLLECTION
    timeout_s: float = TIMEOUT_S

    def __str__(self) -> str:
        """As in messages, without the key."""
        if self.path:
            return f"{self.engine}:///{self.path}"
        return f"{self.engine}{'+https' if self.tls else ''}://{self.host}:{self.port}"


def parse_index_url(url: str, *, port: int, key: str = "") -> IndexUrl:
    """The parts of `ENGINE://[:KEY@]HOST[:PORT][?collection=NAME&timeout_s=SECONDS]`, or of `ENGINE:///PATH`.

    port     where the URL names none. key: where it holds none. As in SQLite's URLs a path with one more slash is
             absolute.
    Raises   UsageError for what is none of these; the message does not hold the key.
    """
    engine = url.partition("://")[0].lower().removesuffix("+https")
    try:
        parts = urlsplit(url)
        given_port = parts.port
    except ValueError as exc:
        raise UsageError(f"the URL of the vectors is none: {exc}; write {engine}://HOST:PORT") from exc
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options.keys() - set(OPTIONS):
        raise UsageError(f"the URL of the vectors has an unknown option {name!r}; the options are {', '.join(OPTIONS)}")
    collection = options.get("collection", COLLECTION)
    if not _NAME.fullmatch(collection):
        raise UsageError(f"collection={collection!r}: give 1 to 100 letters, digits, _ and -, a letter or digit first")
    try:
        timeout_s = float(options.get("timeout_s", TIMEOUT_S))
    except ValueError:
        timeout_s = 0.0
    if not 0 < timeout_s < float("inf"):
        raise UsageError(f"timeout_s={options['timeout_s']!r}: give a number of seconds above 0")
    path = unquote(parts.path).removeprefix("/")
    if not parts.hostname and not path:
        raise UsageError(f"the URL of the vectors names no place; write {engine}://HOST:PORT")
    if parts.hostname and path:
        raise UsageError(f"the URL of the vectors has a path {path!r} behind the host; leave it out")
    return IndexUrl(
        engine,
        parts.hostname or "",
        (given_port or port) if parts.hostname else 0,
        parts.scheme.lower().endswith("+https"),
        path,
        unquote(parts.password or parts.username or "") or key,
        collection,
        timeout_s,
    )


def collection_of(url: IndexUrl, embedder: str) -> str:
    """The name of an embedder's collection: each has its own, so that vectors of two are never compared."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", embedder).strip("-")[:40]
    digest = hashlib.blake2b(embedder.encode(), digest_size=4).hexdigest()
    return "-".join(part for part in (url.collection, readable, digest) if part)


def payload_of(entry: VectorEntry) -> dict[str, Any]:
    """What an entry carries besides its vector; an absent id of the scope is the empty text."""
    app, user, agent, session = entry.scope.key
    return {
        "memory": entry.memory_id,
        "app": app,
        "user": user,
        "agent": agent,
        "session": session,
        "scope": scope_name(entry.scope),
        "kind": entry.kind,
        "happened_at": float(entry.happened_at),
        "stamp": entry.stamp,
    }


def stamp_of(payload: Mapping[str, Any]) -> VectorStamp:
    """What the payload of an entry says."""
    scope = Scope.from_key((payload["app"], payload["user"], payload["agent"], payload["session"]))
    return VectorStamp(str(payload["memory"]), scope, str(payload["stamp"]))


def scope_name(scope: Scope) -> str:
    """One text for exactly one scope."""
    return compact(list(scope.key))


def scopes_of(sought: Sought) -> tuple[list[str], dict[str, str]]:
    """The names of the scopes that are sought; or, of a subtree, the ids that all of them have."""
    if sought.within == "subtree":
        names = ("app", "user", "agent", "session")
        return [], {name: value for name, value in zip(names, sought.scope.key, strict=True) if value}
    scopes = sought.scope.inherited() if sought.within == "inherit" else (sought.scope,)
    return [scope_name(scope) for scope in scopes], {}


def finds_nothing(sought: Sought, limit: int) -> bool:
    """Whether nothing can be found, so that the index need not be asked."""
    return limit < 1 or sought.ids == frozenset() or sought.kinds == frozenset()


def check_dimension(vectors: Sequence[NDArray[np.floating]], dimension: int) -> None:
    """Nothing, if all vectors have the dimension.

    Raises   UsageError naming both.
    """
    for vector in vectors:
        if vector.shape != (dimension,):
            raise UsageError(
                f"a vector of shape {vector.shape} does not fit this index, whose vectors have {dimension} numbers; "
                "embed with the model that made the others, or reindex all with the new one"
            )


def ranked(pairs: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Best first; what differs in the last bits of a product only is a tie, and goes by id."""
    return sorted(pairs, key=lambda pair: (-round(pair[1], 6), pair[0]))


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in pieces of a size."""
    for at in range(0, len(items), size):
        yield items[at : at + size]
