"""What goes over the wire to a Qdrant server: a stand-in answers as its API says, and notes what it was asked."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from offprompt.errors import BackendError
from offprompt.indexes.qdrant import KEYWORDS, QdrantIndex
from offprompt.records import Sought
from offprompt.testing.kit import ALICE
from offprompt.testing.vector_suite import DIMENSION, direction, entry
from tests.indexes.edge_server import serving


@dataclass
class StandIn:
    """answers: by method and path; a number is a state that is refused with. asked: method, path, body, key."""

    answers: dict[str, Any]
    asked: list[tuple[str, str, Any, str | None]] = field(default_factory=list[tuple[str, str, Any, str | None]])
    port: int = 0

    def index(self, options: str = "") -> QdrantIndex:
        return QdrantIndex(
            f"qdrant://127.0.0.1:{self.port}?collection=c{options}", embedder="use@1", dimension=DIMENSION
        )


@contextmanager
def standing_in(**answers: Any) -> Generator[StandIn]:
    """A server on the loopback; its paths are told without the collection's name."""
    stand_in = StandIn(answers)

    def answer(method: str, path: str, body: Any, key: str | None) -> tuple[int, dict[str, Any]]:
        path = "/".join(path.split("/")[3:])
        stand_in.asked.append((method, path, body, key))
        found = stand_in.answers.get(f"{method} {path}".partition("?")[0], {"result": True})
        return (found, {}) if isinstance(found, int) else (200, found)

    with serving(answer) as stand_in.port:
        yield stand_in


def described(*indexed: str) -> dict[str, Any]:
    """A collection as the server describes it, with payload indexes on fields."""
    config = {
        "params": {"vectors": {"size": DIMENSION, "distance": "Cosine"}},
        "hnsw_config": {"m": 0, "ef_construct": 100, "full_scan_threshold": 10000, "payload_m": 16},
        "optimizer_config": {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        },
    }
    return {
        "result": {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "config": config,
            "payload_schema": {name: {"data_type": "keyword", "points": 0} for name in indexed},
        }
    }


NEW = {"GET exists": {"result": {"exists": False}}, "GET ": described()}
THERE = {"GET exists": {"result": {"exists": True}}, "GET ": described("scope", *KEYWORDS, "happened_at")}
WRITTEN = {"result": {"operation_id": 1, "status": "completed"}}


def test_a_collection_is_made_with_a_graph_for_each_scope_and_indexed_payload() -> None:
    with standing_in(**NEW, **{"PUT points": WRITTEN, "PUT index": WRITTEN}) as server:
        index = server.index()
        index.upsert([entry("m_a", seed=3)])
        index.close()
    made = [(method, path, body) for method, path, body, _ in server.asked if method == "PUT"]
    assert made[0] == (
        "PUT",
        "",
        {"vectors": {"size": DIMENSION, "distance": "Cosine"}, "hnsw_config": {"m": 0, "payload_m": 16}},
    )
    schemas = {body["field_name"]: body["field_schema"] for _, path, body in made if path.startswith("index")}
    assert schemas == {
        "scope": {"type": "keyword", "is_tenant": True},
        **dict.fromkeys(("app", "user", "agent", "session", "kind"), "keyword"),
        "happened_at": "float",
    }
    assert made[-1][1] == "points?wait=true"
    (point,) = made[-1][2]["points"]
    assert point["payload"]["scope"] == '["default","alice@example.com","",""]'
    assert point["vector"] == pytest.approx(direction(3).tolist())


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_a_question_names_its_scopes_and_conditions_and_gives_the_key() -> None:
    found = {"result": {"points": [{"id": 1, "version": 1, "score": 0.5, "payload": {"memory": "m_a"}}]}}
    with standing_in(**THERE, **{"POST points/query": found}) as server:
        index = QdrantIndex(
            f"qdrant://127.0.0.1:{server.port}", embedder="use@1", dimension=DIMENSION, key="very-secret"
        )
        sought = Sought(ALICE, "inherit", kinds=frozenset({"fact"}), since=1.0, until=2.0)
        assert index.nearest(direction(1), sought, limit=7) == [("m_a", 0.5)]
        index.close()
    *_, body, key = server.asked[-1]
    assert key == "very-secret"
    assert body["limit"] == 7
    assert body["filter"]["must"] == [
        {
            "key": "scope",
            "match": {"any": ['["default","alice@example.com","",""]', '["default","","",""]']},
        },
        {"key": "kind", "match": {"any": ["fact"]}},
        {"key": "happened_at", "range": {"gte": 1.0, "lt": 2.0}},
    ]


@pytest.mark.parametrize(
    ("state", "said"), [(401, "refused: HTTP 401; give the server's key: QDRANT_API_KEY"), (503, "refused: HTTP 503")]
)
def test_a_refusal_is_told_in_our_words(state: int, said: str) -> None:
    with standing_in(**{"GET exists": state}) as server:
        index = server.index()
        with pytest.raises(BackendError, match=said):
            index.count()
        index.close()


def test_a_collection_that_was_dropped_meanwhile_is_made_anew() -> None:
    with standing_in(**THERE, **{"POST points/count": {"result": {"count": 3}}}) as server:
        index = server.index()
        assert index.count() == 3
        server.answers |= {**NEW, "PUT index": WRITTEN, "POST points/count": 404}
        with pytest.raises(BackendError, match="HTTP 404"):
            index.count()
        assert [path for method, path, _, _ in server.asked if method == "PUT"][:1] == [""]
        server.answers["POST points/count"] = {"result": {"count": 0}}
        assert index.count() == 0
        index.close()
