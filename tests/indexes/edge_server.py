"""A server that stands for Qdrant's own, which is not to be had as a package: its REST API over shards of its core.

By the shard   (`EdgeShard` of qdrant-edge-py) points, cosines, conditions, payload indexes, graphs, counts, and the
               order and pages of a scroll.
Here           collections, each one shard in a folder of its own; the words and states of the API, as far as
               `QdrantIndex` uses it. What it does not know is refused: a body with another field is HTTP 400.
Neither        more than one shard of a collection, replicas, keys, TLS. No optimizer runs by itself: `optimize` does,
               when a test says so. Each write is done when it is answered, also without `?wait=true`.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, TypeAlias

import qdrant_edge as edge

Answer: TypeAlias = tuple[int, dict[str, Any]]

HNSW: Final = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}
OPTIMIZER: Final = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "flush_interval_sec": 5}
SCHEMAS: Final = {"keyword": edge.PayloadSchemaType.Keyword, "float": edge.PayloadSchemaType.Float}
DONE: Final = {"operation_id": 0, "status": "completed"}


@contextmanager
def serving(answer: Callable[[str, str, Any, str | None], Answer]) -> Generator[int]:
    """The port of an HTTP server on the loopback: what it answers to a method, a path, a body and a key."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Nothing is printed."""

        def _serve(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
            state, fields = answer(self.command, self.path, body, self.headers.get("api-key"))
            said = json.dumps({"status": "ok", "time": 0.0, **fields}).encode()
            self.send_response(state)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names that the server calls

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


class RefusedError(Exception):
    """An answer that is not 200."""

    def __init__(self, state: int, why: str) -> None:
        super().__init__(why)
        self.state = state


@dataclass
class Collection:
    """A shard, and what it was made with."""

    shard: edge.EdgeShard
    folder: Path
    vectors: dict[str, Any]
    hnsw: dict[str, Any]


@dataclass
class EdgeServer:
    """Collections by name, in a folder; see edge_server."""

    folder: Path
    full_scan_kb: int
    indexing_kb: int
    port: int = 0
    collections: dict[str, Collection] = field(default_factory=dict[str, Collection])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: int = 0

    def optimize(self) -> int:
        """Graphs are built, where they are due; how many vectors have one now."""
        for each in self.collections.values():
            each.shard.optimize()
        return sum(each.shard.info().indexed_vectors_count for each in self.collections.values())

    def clear(self) -> None:
        """All collections removed."""
        for name in list(self.collections):
            self.drop(name)

    def answer(self, method: str, path: str, body: Any, _key: str | None) -> Answer:
        """A call answered, as by the server."""
        _, root, name, *rest = path.partition("?")[0].split("/")
        call = f"{root} {method} {'/'.join(rest)}".strip()
        try:
            return 200, {"result": self._call(call, name, body or {})}
        except RefusedError as exc:
            return exc.state, {"status": {"error": str(exc)}}
        except Exception as exc:  # noqa: BLE001 - the shard's own, or a body that nothing here takes
            return 400, {"status": {"error": f"Wrong input: {exc}"}}

    def _call(self, call: str, name: str, body: dict[str, Any]) -> Any:
        if call == "collections GET exists":
            return {"exists": name in self.collections}
        if call == "collections PUT":
            return self.make(name, **body)
        if call == "collections DELETE":
            return self.drop(name)
        if call not in CALLS:
            raise RefusedError(400, f"this stand-in does not know {call}")
        if name not in self.collections:
            raise RefusedError(404, f"Not found: Collection `{name}` doesn't exist!")
        return CALLS[call](self.collections[name], **body)

    def make(self, name: str, *, vectors: dict[str, Any], hnsw_config: dict[str, Any]) -> bool:
        """A new collection."""
        hnsw: dict[str, Any] = {**HNSW, "full_scan_threshold": self.full_scan_kb, **hnsw_config}
        with self._lock:
            if name in self.collections:
                raise RefusedError(409, f"Wrong input: Collection `{name}` already exists!")
            self._made += 1
            config = edge.EdgeConfig(
                vectors=edge.EdgeVectorParams(
                    size=vectors["size"], distance=getattr(edge.Distance, vectors["distance"])
                ),
                hnsw_config=edge.HnswIndexConfig(**hnsw),
                optimizers=edge.EdgeOptimizersConfig(indexing_threshold=self.indexing_kb),
            )
            folder = self.folder / str(self._made)
            self.collections[name] = Collection(edge.EdgeShard.create(str(folder), config), folder, vectors, hnsw)
        return True

    def drop(self, name: str) -> bool:
        """A collection removed; whether it was there."""
        with self._lock:
            found = self.collections.pop(name, None)
        if found is not None:
            found.shard.close()
            shutil.rmtree(found.folder)
        return found is not None


@contextmanager
def edge_server(folder: Path, *, full_scan_kb: int = 10_000, indexing_kb: int = 10_000) -> Generator[EdgeServer]:
    """A server over shards in a folder, until the end of the block. full_scan_kb, indexing_kb: of vectors.

    Of a scope with more than the one the graph is searched; in a segment with more than the other `optimize` makes it.
    """
    server = EdgeServer(folder, full_scan_kb, indexing_kb)
    with serving(server.answer) as server.port:
        yield server
    server.clear()


def _describe(collection: Collection) -> dict[str, Any]:
    info = collection.shard.info()
    indexed = {
        name: {"data_type": str(one.data_type).rpartition(".")[2].lower(), "points": one.points}
        for name, one in info.payload_schema.items()
    }
    return {
        "status": "green",
        "optimizer_status": "ok",
        "segments_count": info.segments_count,
        "points_count": info.points_count,
        "indexed_vectors_count": info.indexed_vectors_count,
        "payload_schema": indexed,
        "config": {
            "params": {"vectors": collection.vectors},
            "hnsw_config": collection.hnsw,
            "optimizer_config": {**OPTIMIZER, "default_segment_number": 0},
        },
    }


def _index_field(collection: Collection, *, field_name: str, field_schema: Any) -> dict[str, Any]:
    if isinstance(field_schema, str):
        schema: Any = SCHEMAS[field_schema]
    else:
        options = dict(field_schema)
        if options.pop("type") != "keyword":
            raise RefusedError(400, f"this stand-in has no parameters for {field_schema}")
        schema = edge.KeywordIndexParams(**options)
    collection.shard.update(edge.UpdateOperation.create_field_index(field_name, schema))
    return DONE


def _upsert(collection: Collection, *, points: list[dict[str, Any]]) -> dict[str, Any]:
    collection.shard.update(edge.UpdateOperation.upsert_points([edge.Point(**point) for point in points]))
    return DONE


def _delete(collection: Collection, *, points: list[Any]) -> dict[str, Any]:
    collection.shard.update(edge.UpdateOperation.delete_points(points))
    return DONE


def _retrieve(collection: Collection, *, ids: list[Any], with_payload: Any, with_vector: Any) -> list[dict[str, Any]]:
    return [_record(row) for row in collection.shard.retrieve(ids, with_payload, with_vector)]


def _scroll(collection: Collection, **body: Any) -> dict[str, Any]:
    rows, following = collection.shard.scroll(edge.ScrollRequest(**body))
    return {
        "points": [_record(row) for row in rows],
        "next_page_offset": None if following is None else str(following),
    }


def _count(collection: Collection, *, exact: bool) -> dict[str, Any]:
    return {"count": collection.shard.count(edge.CountRequest(exact=exact))}


def _query(collection: Collection, *, query: dict[str, Any], filter: dict[str, Any], **rest: Any) -> dict[str, Any]:  # noqa: A002 - the API's name
    (vector,) = (query.pop("nearest"), *query)
    asked = edge.QueryRequest(query=edge.Query.Nearest(vector), filter=_filter(**filter), **rest)
    found = collection.shard.query(asked)
    return {"points": [{**_record(row), "version": row.version, "score": row.score} for row in found]}


def _record(row: edge.Record | edge.ScoredPoint) -> dict[str, Any]:
    return {"id": str(row.id), "payload": row.payload}


def _filter(*, must: list[dict[str, Any]]) -> edge.Filter:
    return edge.Filter(must=[_condition(**each) for each in must])


def _condition(
    *,
    key: str = "",
    match: dict[str, Any] | None = None,
    range: dict[str, float] | None = None,  # noqa: A002 - the API's name
    has_id: list[Any] | None = None,
) -> Any:
    if has_id is not None:
        return edge.HasIdCondition(set(has_id))
    if range is not None:
        return edge.FieldCondition(key=key, range=edge.RangeFloat(**range))
    if match is not None and "any" in match:
        return edge.FieldCondition(key=key, match=edge.MatchAny(**match))
    return edge.FieldCondition(key=key, match=edge.MatchValue(**(match or {})))


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "collections GET": _describe,
    "collections PUT index": _index_field,
    "collections PUT points": _upsert,
    "collections POST points": _retrieve,
    "collections POST points/delete": _delete,
    "collections POST points/scroll": _scroll,
    "collections POST points/count": _count,
    "collections POST points/query": _query,
}
