"""Vectors in a Qdrant server, for which its own core behind its REST API stands: see edge_server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import qdrant_edge as edge

from offprompt.errors import UsageError
from offprompt.indexes.qdrant import KEYWORDS, QdrantIndex
from offprompt.records import Sought
from offprompt.testing.exact_vectors import ExactVectors
from offprompt.testing.kit import ALICE, BOB
from offprompt.testing.suites import VectorIndexSuite
from offprompt.testing.vector_suite import DIMENSION, EMBEDDER, OpenIndex, direction, entry, ids, many
from tests.indexes.edge_server import EdgeServer, edge_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeServer]:
    """A server for all tests of this module; each test has collections of its own."""
    with edge_server(tmp_path_factory.mktemp("qdrant")) as running:
        yield running


@pytest.fixture
def open_index(server: EdgeServer) -> Iterator[OpenIndex]:
    """Opens an index of the server."""
    url, opened = f"qdrant://127.0.0.1:{server.port}?collection=t{uuid.uuid4().hex}", list[QdrantIndex]()

    def make(embedder: str, dimension: int) -> QdrantIndex:
        opened.append(QdrantIndex(url, embedder=embedder, dimension=dimension))
        return opened[-1]

    yield make
    for index in opened:
        index.close()
    server.clear()


class TestServer(VectorIndexSuite):
    """VectorIndex."""


def test_the_server_indexes_the_payload_that_is_asked_for(server: EdgeServer, open_index: OpenIndex) -> None:
    open_index(EMBEDDER, DIMENSION).upsert(many(13))
    (collection,) = server.collections.values()
    schema = collection.shard.info().payload_schema
    assert {name: one.points for name, one in schema.items()} == dict.fromkeys(("scope", *KEYWORDS, "happened_at"), 13)
    assert getattr(schema["scope"].params, "is_tenant", None) is True


def test_a_collection_whose_maker_was_killed_before_its_indexes_is_given_them(
    server: EdgeServer, open_index: OpenIndex
) -> None:
    """Without them each search compares everything, for good: there is no graph but those of scopes."""
    maker = open_index(EMBEDDER, DIMENSION)
    maker.upsert(many(13))
    (collection,) = server.collections.values()
    whole = collection.shard.info().payload_schema.keys()
    for name in ("scope", "happened_at"):
        collection.shard.update(edge.UpdateOperation.delete_field_index(name))
    assert open_index(EMBEDDER, DIMENSION).count() == 13
    assert collection.shard.info().payload_schema.keys() == whole


def test_several_that_start_at_once_make_one_collection(server: EdgeServer, open_index: OpenIndex) -> None:
    indexes = [open_index(EMBEDDER, DIMENSION) for _ in range(6)]
    failed: list[BaseException] = []
    together = threading.Barrier(len(indexes))

    def put(at: int) -> None:
        together.wait()
        try:
            indexes[at].upsert([entry(f"m_{at}", seed=at)])
        except BaseException as exc:  # noqa: BLE001 - told below, in the test's own thread
            failed.append(exc)

    threads = [threading.Thread(target=put, args=(at,)) for at in range(len(indexes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(server.collections) == 1
    assert {index.count() for index in indexes} == {6}


def test_what_one_drops_another_makes_anew(open_index: OpenIndex) -> None:
    one, other = open_index(EMBEDDER, DIMENSION), open_index(EMBEDDER, DIMENSION)
    one.upsert([entry("m_a")])
    other.upsert([entry("m_b")])
    one.drop()
    assert other.stamps([("default", "m_a")]) == {}
    other.upsert([entry("m_c")])
    assert (one.count(), ids(one, Sought(ALICE))) == (1, ["m_c"])


def test_a_collection_of_another_dimension_is_refused(open_index: OpenIndex) -> None:
    open_index(EMBEDDER, DIMENSION).upsert([entry("m_a")])
    with pytest.raises(UsageError, match=rf"has vectors of {DIMENSION} numbers, and .* makes {DIMENSION + 1}; "):
        open_index(EMBEDDER, DIMENSION + 1).count()


def test_a_graph_of_each_scope_finds_what_lies_closest_there(tmp_path: Path) -> None:
    """The core's graphs, with none over all scopes (m=0): they are searched, as of a scope of more than 10,000 KB."""
    exact = ExactVectors(EMBEDDER, DIMENSION)
    entries = [entry(f"m_{at:06d}", (ALICE, BOB)[at % 3 == 0], at) for at in range(3000)]
    exact.upsert(entries)
    with edge_server(tmp_path, full_scan_kb=1, indexing_kb=1) as server:
        index = QdrantIndex(f"qdrant://127.0.0.1:{server.port}", embedder=EMBEDDER, dimension=DIMENSION)
        index.upsert(entries)
        assert server.optimize() == 3000
        edges = sum(path.stat().st_size for path in tmp_path.rglob("vector_index/*"))
        assert edges > 3000 * 16  # bytes; of graphs without edges: 4 for each vector
        shares = list[float]()
        for scope in (ALICE, BOB):
            for seed in range(5000, 5010):
                found, right = (ids(each, Sought(scope), limit=10, seed=seed) for each in (index, exact))
                assert len(found) == 10
                shares.append(len(set(found) & set(right)) / 10)
        assert np.mean(shares) >= 0.95
        index.upsert([entry("m_000001", BOB, 1)])
        assert index.nearest(direction(1), Sought(BOB), limit=1) == [("m_000001", pytest.approx(1.0, abs=1e-3))]
        assert "m_000001" not in ids(index, Sought(ALICE), limit=5, seed=1)
        index.close()
