"""Vectors in a Chroma server."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import BackendError, OffpromptError, UnsupportedError, UsageError
from offprompt.indexes._places import (
    batches,
    check_dimension,
    collection_of,
    finds_nothing,
    parse_index_url,
    payload_of,
    ranked,
    scopes_of,
    stamp_of,
)
from offprompt.records import Sought, VectorEntry, VectorStamp, compact

T = TypeVar("T")

PORT: Final = 8000
BATCH: Final = 256
_ANSWERED: Final = 500
"""HTTP states below it are an answer, if only a refusal."""


class ChromaIndex:
    """A VectorIndex in one collection of a Chroma server for each embedder. Connects at first use.

    url      `chroma://HOST:PORT` or `chroma+https://…`; `?collection=` what collections' names begin with,
             `?timeout_s=` seconds to wait for an answer.
    key      of the server (`X-Chroma-Token`), where the URL holds none; never shown.
    Exact    never promised: Chroma walks one graph over all scopes.
    Scan     goes by number: an entry may be passed over while others before it are removed.
    Raises   UnsupportedError if the client is not installed.
    """

    def __init__(self, url: str, *, embedder: str, dimension: int, key: str = "") -> None:
        try:
            import chromadb  # noqa: PLC0415 - only who uses it needs it
        except ImportError as exc:
            raise UnsupportedError(
                "vectors in Chroma need its client, which is not installed: pip install 'offprompt[chroma]'"
            ) from exc
        self.embedder, self.dimension = embedder, dimension
        self._sdk: Any = chromadb
        self._url = parse_index_url(url, port=PORT, key=key)
        if self._url.path:
            raise UsageError(f"{self._url} names a folder, and Chroma is used as a server; write chroma://HOST:PORT")
        self._name = collection_of(self._url, embedder)
        self._lock = threading.Lock()
        self._client: Any = None
        self._collection: Any = None
        self._pid = 0

    def nearest(self, vector: NDArray[np.floating], sought: Sought, *, limit: int) -> list[tuple[str, float]]:
        """See VectorSearch."""
        check_dimension([vector], self.dimension)
        if finds_nothing(sought, limit):
            return []
        asked = np.asarray(vector, np.float32).reshape(1, -1)
        where = _where(sought)
        found = self._do(
            lambda collection: collection.query(
                query_embeddings=asked, n_results=limit, where=where, include=["distances"]
            )
        )
        rows = zip(found["ids"][0], found["distances"][0], strict=True)
        return ranked([(str(json.loads(name)[1]), 1.0 - float(distance)) for name, distance in rows])

    def upsert(self, entries: Sequence[VectorEntry]) -> None:
        """See VectorIndex."""
        check_dimension([entry.vector for entry in entries], self.dimension)
        last = {entry.place: entry for entry in entries}
        for part in batches(list(last.values()), BATCH):
            ids = [_name(entry.place) for entry in part]
            vectors = np.stack([np.asarray(entry.vector, np.float32) for entry in part])
            payloads = [payload_of(entry) for entry in part]
            self._do(_upserting(ids, vectors, payloads))

    def delete(self, places: Sequence[tuple[str, str]]) -> None:
        """See VectorIndex."""
        for part in batches(places, BATCH):
            self._do(_deleting([_name(place) for place in part]))

    def stamps(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], VectorStamp]:
        """See VectorIndex."""
        found: dict[tuple[str, str], VectorStamp] = {}
        for part in batches(places, BATCH):
            rows = self._do(_getting(ids=[_name(place) for place in part]))
            stamps = [stamp_of(payload) for payload in rows["metadatas"]]
            found |= {stamp.place: stamp for stamp in stamps}
        return found

    def scan(self, *, after: str = "", limit: int = 1000) -> tuple[list[VectorStamp], str]:
        """See VectorIndex. The order: that of arrival."""
        begin = int(after or 0)
        rows = self._do(_getting(limit=limit, offset=begin))
        stamps = [stamp_of(payload) for payload in rows["metadatas"]]
        return stamps, str(begin + len(stamps)) if len(stamps) == limit else ""

    def count(self) -> int:
        """See VectorIndex."""
        return int(self._do(lambda collection: collection.count()))

    def drop(self) -> None:
        """See VectorIndex."""

        def work(_: Any) -> None:
            self._client.delete_collection(self._name)
            self._collection = None

        self._do(work)

    def close(self) -> None:
        """See VectorIndex."""
        with self._lock:
            if self._client is not None and self._pid == os.getpid():
                for session in _sessions(self._client):
                    session.close()
                self._client.close()
            self._client = self._collection = None

    def _do(self, work: Callable[[Any], T]) -> T:
        """What is done with the collection, which is made if it is not there; Chroma's errors in our words."""
        errors, transport = self._sdk.errors, self._transport_errors()
        try:
            collection = self._opened()
            try:
                return work(collection)
            except errors.NotFoundError:
                self._collection = None  # somebody dropped it
                return work(self._opened())
        except OffpromptError:
            raise
        except errors.ChromaError as exc:
            raise BackendError(f"the vector index {self._url} refused: {exc}") from exc
        except (*transport, OSError, ValueError) as exc:
            raise BackendError(
                f"the vector index {self._url} does not answer: {exc}; start it, or correct vectors=… in the URL"
            ) from exc

    def _transport_errors(self) -> tuple[type[Exception], ...]:
        """What the client's own HTTP library raises."""
        return (import_module("httpx").HTTPError,)

    def _opened(self) -> Any:
        with self._lock:
            if self._pid != os.getpid():
                self._client = self._collection = None  # a parent's connections are not this child's
                self._pid = os.getpid()
            if self._client is None:
                self._client = self._connect()
            if self._collection is None:
                self._collection = self._prepared()
            return self._collection

    def _connect(self) -> Any:
        url = self._url
        # The client waits without an end for a server that takes connections and says nothing.
        address = f"http{'s' if url.tls else ''}://{url.host}:{url.port}/api/v2/heartbeat"
        try:
            urllib.request.urlopen(address, timeout=url.timeout_s).close()  # noqa: S310 - the scheme is ours
        except urllib.error.HTTPError as exc:
            if exc.code >= _ANSWERED:
                raise
        client = self._sdk.HttpClient(
            host=url.host,
            port=url.port,
            ssl=url.tls,
            headers={"X-Chroma-Token": url.key} if url.key else None,
            settings=self._sdk.config.Settings(anonymized_telemetry=False),
        )
        for session in _sessions(client):
            session.timeout = url.timeout_s
        return client

    def _prepared(self) -> Any:
        """The collection made, if it is not there, and seen to have the dimension."""
        found = self._client.get_or_create_collection(
            self._name,
            embedding_function=None,
            metadata={"embedder": self.embedder, "dimension": self.dimension},
            configuration={"hnsw": {"space": "cosine"}},
        )
        size = cast("dict[str, Any]", found.metadata or {}).get("dimension")
        if size != self.dimension:
            raise UsageError(
                f"the collection {self._name!r} in {self._url} has vectors of {size} numbers, and {self.embedder} "
                f"makes {self.dimension}; give another name (?collection=NAME), or remove that collection"
            )
        return found


def _sessions(client: Any) -> tuple[Any, Any]:
    """The connections of a client: it has no other way to bound how long an answer takes, and leaves them open."""
    return client._server._session, client._admin_client._server._session  # noqa: SLF001


def _upserting(ids: list[str], vectors: NDArray[np.float32], payloads: list[dict[str, Any]]) -> Callable[[Any], Any]:
    return lambda collection: collection.upsert(ids=ids, embeddings=vectors, metadatas=payloads)


def _deleting(ids: list[str]) -> Callable[[Any], Any]:
    return lambda collection: collection.delete(ids=ids)


def _getting(**which: Any) -> Callable[[Any], Any]:
    return lambda collection: collection.get(**which, include=["metadatas"])


def _where(sought: Sought) -> dict[str, Any]:
    names, ids = scopes_of(sought)
    parts: list[dict[str, Any]] = [{name: value} for name, value in ids.items()]
    if names:
        parts.append({"scope": {"$in": names}})
    if sought.kinds is not None:
        parts.append({"kind": {"$in": sorted(sought.kinds)}})
    if sought.since is not None:
        parts.append({"happened_at": {"$gte": float(sought.since)}})
    if sought.until is not None:
        parts.append({"happened_at": {"$lt": float(sought.until)}})
    if sought.ids is not None:
        parts.append({"memory": {"$in": sorted(sought.ids)}})
    return {"$and": parts} if len(parts) > 1 else parts[0]


def _name(place: tuple[str, str]) -> str:
    return compact(list(place))
