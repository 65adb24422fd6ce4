"""Vectors in Qdrant: a server, or a folder that the client keeps by itself."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import BackendError, OffpromptError, UnsupportedError, UsageError
from offprompt.indexes._folders import FOLDERS
from offprompt.indexes._places import (
    IndexUrl,
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
from offprompt.records import Sought, VectorEntry, VectorStamp

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

T = TypeVar("T")

PORT: Final = 6333
BATCH: Final = 256
NAMES: Final = uuid.UUID("6f0c9c1e-5a4b-5f0e-9d55-0ff9409a11c3")
"""Points of Qdrant have no names but numbers and UUIDs: an entry's is made of its app and id in this namespace."""

KEYWORDS: Final = ("app", "user", "agent", "session", "kind")
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_REFUSED: Final = (401, 403)


class QdrantIndex:
    """A VectorIndex in one collection of Qdrant for each embedder. Connects at first use.

    url        `qdrant://HOST:PORT`, `qdrant+https://…`, or `qdrant:///PATH` for a folder that one process at a time may
               open; `?collection=` what collections' names begin with, `?timeout_s=` seconds to wait for an answer.
    key        of the server, where the URL holds none; never shown.
    Graph      one for each scope (`is_tenant`), none over all: every search is of a scope.
    Exact      scopes below Qdrant's `full_scan_threshold` (10,000 KB of vectors), and all in a folder.
    Safety     a folder is one process's; a forked child of it can only use a server.
    Raises     UnsupportedError if the client is not installed.
    """

    def __init__(self, url: str, *, embedder: str, dimension: int, key: str = "") -> None:
        try:
            import qdrant_client  # noqa: PLC0415 - only who uses it needs it
            from qdrant_client import models  # noqa: PLC0415
        except ImportError as exc:
            raise UnsupportedError(
                "vectors in Qdrant need its client, which is not installed: pip install 'offprompt[qdrant]'"
            ) from exc
        self.embedder, self.dimension = embedder, dimension
        self._sdk: Any = qdrant_client
        self._models: Any = models
        self._url = parse_index_url(url, port=PORT, key=key)
        self._collection = collection_of(self._url, embedder)
        self._lock = threading.RLock()
        self._client: QdrantClient | None = None
        self._pid = os.getpid()
        self._is_ready = False

    def nearest(self, vector: NDArray[np.floating], sought: Sought, *, limit: int) -> list[tuple[str, float]]:
        """See VectorSearch."""
        check_dimension([vector], self.dimension)
        if finds_nothing(sought, limit):
            return []
        found = self._do(
            lambda client: client.query_points(
                self._collection,
                query=np.asarray(vector, np.float32).tolist(),
                query_filter=self._filter(sought),
                limit=limit,
                with_payload=["memory"],
            )
        )
        return ranked([(str((point.payload or {})["memory"]), float(point.score)) for point in found.points])

    def upsert(self, entries: Sequence[VectorEntry]) -> None:
        """See VectorIndex."""
        check_dimension([entry.vector for entry in entries], self.dimension)
        last = {entry.place: entry for entry in entries}
        for part in batches(list(last.values()), BATCH):
            points: list[Any] = [
                self._models.PointStruct(
                    id=_point(entry.place), vector=entry.vector.tolist(), payload=payload_of(entry)
                )
                for entry in part
            ]
            self._do(partial(_upsert, self._collection, points))

    def delete(self, places: Sequence[tuple[str, str]]) -> None:
        """See VectorIndex."""
        for part in batches(places, BATCH):
            chosen = self._models.PointIdsList(points=[_point(place) for place in part])
            self._do(partial(_delete, self._collection, chosen))

    def stamps(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], VectorStamp]:
        """See VectorIndex."""
        found: dict[tuple[str, str], VectorStamp] = {}
        for part in batches(places, BATCH):
            rows = self._do(partial(_retrieve, self._collection, [_point(place) for place in part]))
            stamps = (stamp_of(row.payload or {}) for row in rows)
            found |= {stamp.place: stamp for stamp in stamps}
        return found

    def scan(self, *, after: str = "", limit: int = 1000) -> tuple[list[VectorStamp], str]:
        """See VectorIndex. The order: by the points' UUIDs."""
        rows, following = self._do(
            lambda client: client.scroll(
                self._collection, limit=limit, offset=after or None, with_payload=True, with_vectors=False
            )
        )
        return [stamp_of(row.payload or {}) for row in rows], "" if following is None else str(following)

    def count(self) -> int:
        """See VectorIndex."""
        return self._do(lambda client: client.count(self._collection, exact=True).count)

    def drop(self) -> None:
        """See VectorIndex."""
        self._do(lambda client: client.delete_collection(self._collection))
        self._is_ready = False

    def close(self) -> None:
        """See VectorIndex."""
        with self._lock:
            if self._client is not None and self._pid == os.getpid():
                if self._url.path:
                    FOLDERS.release(self._url.path)
                else:
                    self._client.close()
            self._client, self._is_ready = None, False

    def _filter(self, sought: Sought) -> Any:
        models = self._models
        names, ids = scopes_of(sought)
        must: list[Any] = [
            models.FieldCondition(key=name, match=models.MatchValue(value=value)) for name, value in ids.items()
        ]
        if names:
            must.append(models.FieldCondition(key="scope", match=models.MatchAny(any=names)))
        if sought.kinds is not None:
            must.append(models.FieldCondition(key="kind", match=models.MatchAny(any=sorted(sought.kinds))))
        if sought.since is not None or sought.until is not None:
            times = models.Range(gte=sought.since, lt=sought.until)
            must.append(models.FieldCondition(key="happened_at", range=times))
        if sought.ids is not None:
            points: list[Any] = [_point((sought.scope.app, memory_id)) for memory_id in sorted(sought.ids)]
            must.append(models.HasIdCondition(has_id=points))
        return models.Filter(must=must)

    def _do(self, work: Callable[[QdrantClient], T]) -> T:
        """What is done with the collection, which is made if it is not there; Qdrant's errors in our words."""
        exceptions = self._sdk.http.exceptions
        try:
            try:
                return self._once(work)
            except (exceptions.UnexpectedResponse, ValueError) as exc:
                if getattr(exc, "status_code", _NOT_FOUND) != _NOT_FOUND:
                    raise
                self._is_ready = False  # somebody dropped it
                return self._once(work)
        except OffpromptError:
            raise
        except exceptions.UnexpectedResponse as exc:
            raise BackendError(f"the vector index {self._url} refused: {_why(self._url, exc)}") from exc
        except (exceptions.ApiException, OSError) as exc:
            raise BackendError(
                f"the vector index {self._url} does not answer: {getattr(exc, 'source', exc)}; start it, or correct "
                "vectors=… in the URL"
            ) from exc
        except (RuntimeError, ValueError) as exc:
            raise BackendError(f"the vector index {self._url} failed: {exc}") from exc

    def _once(self, work: Callable[[QdrantClient], T]) -> T:
        if self._pid != os.getpid():
            # What is open in a parent, and who held the lock there, is not this child's.
            self._client, self._lock, self._is_ready = None, threading.RLock(), False
            self._pid = os.getpid()
        with self._lock:
            client = self._client = self._client or self._connect()
            if not self._is_ready:
                self._prepare(client)
        with FOLDERS.lock if self._url.path else nullcontext():
            return work(client)

    def _connect(self) -> QdrantClient:
        url = self._url
        if url.path:
            return FOLDERS.take(url.path, self._sdk.QdrantClient)
        return self._sdk.QdrantClient(
            host=url.host,
            port=url.port,
            https=url.tls,
            api_key=url.key or None,
            timeout=max(1, round(url.timeout_s)),
            check_compatibility=False,
        )

    def _prepare(self, client: QdrantClient) -> None:
        """The collection made, if it is not there, seen to have the dimension, and given the indexes that it lacks."""
        with FOLDERS.lock if self._url.path else nullcontext():
            self._make_collection(client)
            found = client.get_collection(self._collection)
        size = getattr(found.config.params.vectors, "size", None)
        if size != self.dimension:
            raise UsageError(
                f"the collection {self._collection!r} in {self._url} has vectors of {size} numbers, and "
                f"{self.embedder} makes {self.dimension}; give another name (?collection=NAME), or remove that one"
            )
        if not self._url.path:
            self._index_payload(client, found.payload_schema)
        self._is_ready = True

    def _make_collection(self, client: QdrantClient) -> None:
        models, name = self._models, self._collection
        if client.collection_exists(name):
            return
        try:
            client.create_collection(
                name,
                vectors_config=models.VectorParams(size=self.dimension, distance=models.Distance.COSINE),
                hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
            )
        except self._sdk.http.exceptions.UnexpectedResponse as exc:
            if exc.status_code != _CONFLICT:  # another process was faster
                raise

    def _index_payload(self, client: QdrantClient, there: Mapping[str, Any]) -> None:
        """Every time: whoever made the collection may have ended before its indexes."""
        models, name = self._models, self._collection
        wanted: dict[str, Any] = {
            "scope": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
            **dict.fromkeys(KEYWORDS, models.PayloadSchemaType.KEYWORD),
            "happened_at": models.PayloadSchemaType.FLOAT,
        }
        for field, schema in wanted.items():
            if field not in there:
                client.create_payload_index(name, field, schema, wait=True)


def _upsert(collection: str, points: list[Any], client: QdrantClient) -> None:
    client.upsert(collection, points, wait=True)


def _delete(collection: str, chosen: Any, client: QdrantClient) -> None:
    client.delete(collection, chosen, wait=True)


def _retrieve(collection: str, points: list[str], client: QdrantClient) -> list[Any]:
    return client.retrieve(collection, points, with_payload=True)


def _why(url: IndexUrl, exc: Any) -> str:
    said = f"HTTP {exc.status_code}"
    if exc.status_code in _REFUSED:
        return f"{said}; give the server's key: QDRANT_API_KEY, or {url.engine}://:KEY@HOST"
    return f"{said} {bytes(exc.content)[:200].decode(errors='replace')}"


def _point(place: tuple[str, str]) -> str:
    return str(uuid.uuid5(NAMES, "\0".join(place)))
