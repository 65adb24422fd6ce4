"""Conformance: what every vector index promises."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from offprompt.errors import UsageError
from offprompt.protocols import VectorIndex
from offprompt.records import WITHIN, Scope, Sought, VectorEntry
from offprompt.records.scope import GrantedScope
from offprompt.testing.exact_vectors import ExactVectors
from offprompt.testing.kit import ALICE, BOB

DIMENSION: Final = 8
EMBEDDER: Final = "model@1a2b"

OpenIndex: TypeAlias = Callable[[str, int], VectorIndex]
"""Opens the index for an embedder's name and dimension, at one empty place for a test."""

WHOLE: Final = Scope(user="alice@example.com", agent="代理", session="s/1")
SCOPES: Final = (
    ALICE,
    BOB,
    WHOLE,
    Scope(user="alice@example.com", agent="代理"),
    Scope(user="alice@example.com", session="s/1"),
    Scope(agent="代理"),
    Scope(user="alice"),
    Scope(user="alice@example.com2"),
    Scope(user='"; DROP --%_'),
    Scope(user="é" * 128),
    Scope(shared=True),
    Scope("other", user="alice@example.com"),
    Scope("other", shared=True),
    Scope(space="代理"),
    Scope(space="alice"),
)
SOUGHT: Final = (*SCOPES, GrantedScope.of(ALICE, [Scope(space="代理"), Scope(agent="代理")]))
"""Whose vectors are sought: each scope's, and what one sees to which others were granted."""


def direction(seed: int) -> NDArray[np.float32]:
    """A unit vector of a seed's own."""
    drawn = np.random.default_rng(seed).standard_normal(DIMENSION)
    return (drawn / np.linalg.norm(drawn)).astype(np.float16).astype(np.float32)


def entry(memory_id: str, scope: Scope = ALICE, seed: int = 0, **fields: Any) -> VectorEntry:
    """An entry with a vector of its seed."""
    made = VectorEntry(memory_id, scope, "fact", 0.0, direction(seed), f"{memory_id}/{seed}")
    return replace(made, **fields)


def many(number: int) -> list[VectorEntry]:
    """Entries over all scopes, kinds and times."""
    kinds = ("fact", "episode", "passage")
    return [
        entry(f"m_{at:026d}", SCOPES[at % len(SCOPES)], at, kind=kinds[at // 5 % 3], happened_at=1.7e9 + at / 3)
        for at in range(number)
    ]


def ids(index: VectorIndex, sought: Sought, *, limit: int = 1000, seed: int = 99) -> list[str]:
    """Ids of the nearest to a seed's vector."""
    return [memory_id for memory_id, _ in index.nearest(direction(seed), sought, limit=limit)]


class VectorIndexSuite:
    """All that `protocols.VectorIndex` promises; give it a fixture `open_index`."""

    @pytest.fixture
    def index(self, open_index: OpenIndex) -> VectorIndex:
        """The index under test, empty."""
        return open_index(EMBEDDER, DIMENSION)

    @pytest.fixture
    def both(self, index: VectorIndex) -> tuple[VectorIndex, ExactVectors]:
        """The index and the exact one, with the same 130 entries."""
        exact, entries = ExactVectors(EMBEDDER, DIMENSION), many(130)
        exact.upsert(entries)
        index.upsert(entries)
        return index, exact

    def test_it_says_whose_vectors_it_holds(self, index: VectorIndex) -> None:
        assert (index.embedder, index.dimension) == (EMBEDDER, DIMENSION)
        assert isinstance(index, VectorIndex)

    def test_an_empty_one_finds_nothing(self, index: VectorIndex) -> None:
        assert index.nearest(direction(1), Sought(ALICE), limit=3) == []
        assert (index.count(), index.scan(), index.stamps([("default", "m_1")])) == (0, ([], ""), {})
        index.delete([("default", "m_1")])
        index.upsert([])
        index.delete([])

    def test_it_finds_what_lies_closest_in_the_scopes_that_are_sought(
        self, both: tuple[VectorIndex, ExactVectors]
    ) -> None:
        for (at, scope), within in product(enumerate(SOUGHT), WITHIN):
            sought = Sought(scope, within)
            found, right = (each.nearest(direction(500 + at), sought, limit=12) for each in both)
            assert [memory_id for memory_id, _ in found] == [memory_id for memory_id, _ in right], sought
            assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in right], abs=1e-3)
            every, all_right = (set(ids(each, sought)) for each in both)
            assert every == all_right, sought

    def test_conditions_hold_before_anything_is_ranked(self, both: tuple[VectorIndex, ExactVectors]) -> None:
        index, exact = both
        every: tuple[dict[str, Any], ...] = (
            {"kinds": frozenset({"episode"})},
            {"kinds": frozenset({"fact", "passage"})},
            {"kinds": frozenset[str]()},
            {"since": 1.7e9 + 20},
            {"until": 1.7e9 + 20},
            {"since": 1.7e9 + 5, "until": 1.7e9 + 30},
            {"ids": frozenset({f"m_{13:026d}", f"m_{26:026d}", f"m_{27:026d}", "m_unknown"})},
            {"ids": frozenset[str]()},
            {"kinds": frozenset({"fact"}), "since": 1.7e9 + 9, "ids": frozenset(f"m_{at:026d}" for at in range(100))},
        )
        for conditions, within in product(every, ("exact", "subtree")):
            sought = Sought(ALICE, within, **conditions)
            for limit in (2, 1000):
                assert ids(index, sought, limit=limit) == ids(exact, sought, limit=limit)

    def test_ties_go_by_id(self, index: VectorIndex) -> None:
        index.upsert([entry(name, seed=1) for name in ("m_c", "m_a", "m_d", "m_b")])
        assert ids(index, Sought(ALICE)) == ["m_a", "m_b", "m_c", "m_d"]

    def test_the_length_of_the_asked_vector_does_not_matter(self, index: VectorIndex) -> None:
        index.upsert([entry("m_a", seed=1), entry("m_b", seed=2)])
        for times in (0.01, 1.0, 40.0):
            found = index.nearest(direction(1) * np.float32(times), Sought(ALICE), limit=1)
            assert found == [("m_a", pytest.approx(1.0, abs=1e-3))]

    def test_an_entry_put_again_replaces_the_one_before(self, index: VectorIndex) -> None:
        first = entry("m_a", seed=1, happened_at=5.0)
        for _ in range(2):
            index.upsert([first])
        assert (index.count(), ids(index, Sought(ALICE, until=6.0))) == (1, ["m_a"])
        moved = entry("m_a", BOB, 2, kind="episode", happened_at=7.0)
        index.upsert([entry("m_a", seed=3), moved])
        assert (index.count(), ids(index, Sought(ALICE)), ids(index, Sought(BOB, until=6.0))) == (1, [], [])
        sought = Sought(BOB, kinds=frozenset({"episode"}), since=7.0)
        assert index.nearest(direction(2), sought, limit=1) == [("m_a", pytest.approx(1.0, abs=1e-3))]
        stamp = index.stamps([first.place])[first.place]
        assert (stamp.scope, stamp.stamp) == (BOB, moved.stamp)

    def test_one_id_in_two_apps_is_two_entries(self, index: VectorIndex) -> None:
        other = Scope("other", user="alice@example.com")
        index.upsert([entry("m_a"), entry("m_a", other, 1)])
        index.delete([("default", "m_a"), ("default", "m_b"), ("nowhere", "m_a")])
        assert (ids(index, Sought(ALICE)), ids(index, Sought(other)), index.count()) == ([], ["m_a"], 1)

    def test_stamps_and_pages_tell_what_it_holds(self, both: tuple[VectorIndex, ExactVectors]) -> None:
        index, exact = both
        entries = many(130)
        places = [one.place for one in entries]
        assert index.stamps([*places, ("default", "m_unknown")]) == exact.stamps(places)
        pages: list[Any] = []
        after = ""
        while True:
            page, after = index.scan(after=after, limit=70)
            assert len(page) <= 70
            pages += page
            if not after:
                break
        assert sorted(pages, key=lambda one: one.place) == sorted(exact.scan()[0], key=lambda one: one.place)
        assert index.count() == len(pages) == 130

    def test_what_is_dropped_is_gone_and_the_index_goes_on(self, both: tuple[VectorIndex, ExactVectors]) -> None:
        index, _ = both
        index.drop()
        assert (index.count(), ids(index, Sought(ALICE))) == (0, [])
        index.upsert([entry("m_a")])
        assert ids(index, Sought(ALICE)) == ["m_a"]

    def test_another_dimension_is_an_error_and_changes_nothing(self, index: VectorIndex) -> None:
        index.upsert([entry("m_a")])
        wrong = np.ones(DIMENSION + 1, np.float32)
        with pytest.raises(UsageError, match=str(DIMENSION)):
            index.nearest(wrong, Sought(ALICE), limit=1)
        with pytest.raises(UsageError, match=str(DIMENSION)):
            index.upsert([entry("m_b"), entry("m_c", vector=wrong)])
        assert ids(index, Sought(ALICE)) == ["m_a"]

    def test_vectors_of_another_embedder_are_not_seen(self, index: VectorIndex, open_index: OpenIndex) -> None:
        index.upsert([entry("m_a")])
        other = open_index("another@3c4d", DIMENSION + 3)
        assert (other.count(), other.scan(), other.stamps([("default", "m_a")])) == (0, ([], ""), {})
        other.upsert([entry("m_a", BOB, vector=np.ones(DIMENSION + 3, np.float32) / np.sqrt(DIMENSION + 3))])
        other.delete([("default", "m_b")])
        assert (ids(index, Sought(ALICE)), index.count()) == (["m_a"], 1)
        other.drop()
        assert index.count() == 1

    def test_any_number_is_put_and_removed_at_once(self, index: VectorIndex) -> None:
        entries = many(300)
        index.upsert(entries)
        assert index.count() == 300
        index.delete([one.place for one in entries[:260]])
        assert index.count() == 40
        assert set(ids(index, Sought(ALICE))) == {one.memory_id for one in entries[260:] if one.scope == ALICE}

    def test_threads_may_write_at_once(self, index: VectorIndex) -> None:
        parts = [many(80)[at::4] for at in range(4)]
        failed: list[BaseException] = []

        def put(part: Sequence[VectorEntry]) -> None:
            try:
                for one in part:
                    index.upsert([one])
                    ids(index, Sought(one.scope), limit=3)
            except BaseException as exc:  # noqa: BLE001 - told below, in the test's own thread
                failed.append(exc)

        threads = [threading.Thread(target=put, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert index.count() == 80

    def test_a_second_close_does_nothing(self, index: VectorIndex) -> None:
        index.upsert([entry("m_a")])
        index.close()
        index.close()
