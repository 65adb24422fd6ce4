"""Vectors by pgvector, in the schema of the memories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest

import offprompt
from offprompt.errors import UsageError
from offprompt.records import Scope, Sought
from offprompt.stores import _pg_vector_table as table
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock
from offprompt.testing.exact_vectors import ExactVectors
from offprompt.testing.kit import ALICE
from offprompt.testing.suites import VectorIndexSuite
from offprompt.testing.vector_suite import DIMENSION, EMBEDDER, OpenIndex, direction, entry, ids, many
from tests.servers import Server
from tests.stores.schemas import schema_url


@pytest.fixture
def store(postgres_server: Server) -> Iterator[PostgresStore]:
    with schema_url(postgres_server) as url:
        store = PostgresStore(url, clock=MovedClock())
        yield store
        store.close()


class TestVectors(VectorIndexSuite):
    """VectorIndex."""

    @pytest.fixture
    def open_index(self, store: PostgresStore) -> OpenIndex:
        return lambda embedder, dimension: store.vectors(embedder=embedder, dimension=dimension)


def test_another_dimension_is_an_error_at_first_use(store: PostgresStore) -> None:
    store.vectors(embedder=EMBEDDER, dimension=DIMENSION).upsert([entry("m_a")])
    other = store.vectors(embedder=EMBEDDER, dimension=DIMENSION + 1)
    with pytest.raises(UsageError, match=f"have {DIMENSION} numbers, and {DIMENSION + 1}"):
        other.count()


@pytest.mark.parametrize("embedder", [EMBEDDER, "it's 100% \\ 好@1"])
def test_a_graph_finds_the_nearest_of_large_scopes(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, embedder: str
) -> None:
    monkeypatch.setattr(table, "EXACT", 20)
    index, exact = (
        store.vectors(embedder=embedder, dimension=DIMENSION),
        ExactVectors(embedder, DIMENSION),
    )
    entries = many(400)
    for each in (index, exact):
        each.upsert(entries)
    assert not index._ready().has_graph  # pyright: ignore[reportPrivateUsage]
    index.build_graph()
    index.build_graph()
    again = store.vectors(embedder=embedder, dimension=DIMENSION)
    for each in (index, again):
        assert each._ready().has_graph  # pyright: ignore[reportPrivateUsage]
    for seed in range(900, 920):
        for sought in (Sought(ALICE), Sought(ALICE, "subtree"), Sought(ALICE, kinds=frozenset({"fact"}))):
            assert ids(again, sought, limit=5, seed=seed) == ids(exact, sought, limit=5, seed=seed)
            # More than there are: all of them, by comparing all.
            assert set(ids(again, sought, seed=seed)) == set(ids(exact, sought, seed=seed))
    again.upsert([entry("m_new", seed=950)])
    assert ids(again, Sought(ALICE), limit=1, seed=950) == ["m_new"]


def test_the_graph_is_used_where_it_is_meant_to_be(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "EXACT", 20)
    index = store.vectors(embedder=EMBEDDER, dimension=DIMENSION)
    index.upsert(many(400))
    index.build_graph()
    before = scans(store)
    ids(index, Sought(ALICE), limit=5)
    assert scans(store) == before + 1
    ids(index, Sought(Scope(user="nobody")), limit=5)
    assert scans(store) == before + 1


def test_the_graph_is_searched_on_until_enough_of_the_scope_is_found(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "EXACT", 20)
    monkeypatch.setattr(table, "WIDTH", 5)
    plain, found = table.VectorTable._by_graph, list[int]()  # pyright: ignore[reportPrivateUsage]

    def counted(*given: Any) -> list[tuple[str, float]]:
        rows = plain(*given)
        found.append(len(rows))
        return rows

    monkeypatch.setattr(table.VectorTable, "_by_graph", counted)
    index = store.vectors(embedder=EMBEDDER, dimension=DIMENSION)
    index.upsert(many(400))
    index.build_graph()
    for seed in range(900, 905):
        ids(index, Sought(ALICE), limit=5, seed=seed)
    assert found == [5] * 5


def scans(store: PostgresStore) -> int:
    """How often the graph was searched."""
    with psycopg.connect(store._db.address.url, autocommit=True) as connection:  # pyright: ignore[reportPrivateUsage]
        store._db.bare(lambda one: one.execute("SELECT pg_stat_force_next_flush()"))  # pyright: ignore[reportPrivateUsage]
        row = connection.execute(
            "SELECT coalesce(sum(idx_scan), 0)::int FROM pg_stat_user_indexes WHERE schemaname = %s "
            "AND indexrelname LIKE 'vectors_graph%%'",
            (store._db.address.schema,),  # pyright: ignore[reportPrivateUsage]
        ).fetchone()
        return row[0] if row else 0


def test_doctor_tells_of_a_missing_graph_and_makes_it(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    index = store.vectors(embedder="it's 100%", dimension=DIMENSION)
    assert not [finding for finding in store.check() if finding.name == "graph"]
    index.upsert(many(60))
    assert not [finding for finding in store.check() if finding.name == "graph"]
    monkeypatch.setattr(table, "EXACT", 2)
    for fix, state in ((False, "warn"), (True, "ok")):
        (finding,) = [finding for finding in store.check(fix=fix) if finding.name == "graph"]
        assert finding.state == state
    assert not [finding for finding in store.check() if finding.name == "graph"]
    assert not [finding for finding in store.check() if finding.state == "fail"]


def test_very_long_and_very_short_questions_are_compared(store: PostgresStore) -> None:
    index = store.vectors(embedder=EMBEDDER, dimension=DIMENSION)
    index.upsert([entry("m_a", seed=1), entry("m_b", seed=2)])
    for times in (1e-12, 1e9):
        ((found, cosine),) = index.nearest(direction(1).astype(np.float64) * times, Sought(ALICE), limit=1)
        assert (found, cosine) == ("m_a", pytest.approx(1.0, abs=1e-3))


def test_a_memory_with_vectors_in_its_postgresql_recalls_what_it_remembers(postgres_server: Server) -> None:
    with schema_url(postgres_server) as url:
        with offprompt.open(f"memories={url} vectors=pgvector", embedder="none") as plain:
            plain.scope(user="u").remember("I moved to 上海 in May")
        mem = offprompt.open(f"memories={url} vectors=pgvector")
        scope = mem.scope(user="u")
        scope.remember("my cat is called Mango")
        for question in ("where do I live since spring, 上海?", "what is the name of my pet?"):
            assert scope.recall(question)
        assert mem.scope(user="u").recall("what is the name of my pet?")[0].text == "my cat is called Mango"
        mem.close()
