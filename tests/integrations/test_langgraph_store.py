"""OffpromptStore beside LangGraph's own InMemoryStore, and what only a real store has."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import offprompt
from offprompt.integrations.langgraph import MAX_VALUE_BYTES, OffpromptStore
from offprompt.testing import MovedClock

LABELS = st.sampled_from(["a", "A", "ab", "a_", "a%", "用户", "#x", " b", "c\n", "d" * 300])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "k_", "m_1", "键", "", "x" * 300, "a.b", "'; drop"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "1", "用"]))
INNER: st.SearchStrategy[Any] = st.dictionaries(st.just("in"), LEAVES)
ANY: st.SearchStrategy[Any] = st.one_of(LEAVES, st.lists(LEAVES, max_size=2), INNER)
VALUES = st.dictionaries(st.sampled_from(["n", "t"]), ANY)
OPERATORS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), LEAVES),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.integers(-3, 3)),
)
WANTED: st.SearchStrategy[Any] = st.one_of(ANY, st.lists(OPERATORS, min_size=1, max_size=2).map(dict))
PATHS = st.lists(st.one_of(LABELS, st.just("*")), min_size=1, max_size=2).map(tuple)
CONDITIONS = st.builds(MatchCondition, match_type=st.sampled_from(["prefix", "suffix"]), path=PATHS)


@st.composite
def any_op(draw: st.DrawFn) -> Op:
    """An op that either store knows; a life and a query are looked at below."""
    kind = draw(st.sampled_from(["put", "put", "delete", "get", "search", "namespaces"]))
    if kind == "search":
        fields = st.dictionaries(st.sampled_from(["n", "t"]), WANTED)
        return SearchOp(draw(st.lists(LABELS, max_size=2).map(tuple)), draw(st.none() | fields), limit=1000)
    if kind == "namespaces":
        return ListNamespacesOp(draw(st.none() | st.lists(CONDITIONS, max_size=2).map(tuple)), draw(DEPTHS))
    where = draw(NAMESPACES), draw(KEYS)
    return GetOp(*where) if kind == "get" else PutOp(*where, draw(VALUES) if kind == "put" else None)


DEPTHS = st.one_of(st.none(), st.integers(1, 2))


@pytest.fixture
def memory() -> Iterator[offprompt.Offprompt]:
    with offprompt.open(":memory:") as opened:
        yield opened


def told(answer: Any) -> Any:
    """An answer without its times; lists of items in one order."""
    if isinstance(answer, Item):
        return (answer.namespace, answer.key, answer.value)
    if isinstance(answer, list):
        return sorted(told_all(cast("list[Any]", answer)), key=repr)
    return answer


class Reference(InMemoryStore):
    """LangGraph's store, but that what is empty is no namespace."""

    def _handle_list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        for name in [name for name, items in self._data.items() if not items]:
            del self._data[name]
        return super()._handle_list_namespaces(op)


def test_the_same_ops_have_the_same_answers_as_in_the_store_of_langgraph(memory: offprompt.Offprompt) -> None:
    agents = itertools.count()

    @settings(max_examples=100, deadline=None)
    @given(batches=st.lists(st.lists(any_op(), max_size=6), max_size=6))
    def both(batches: list[list[Op]]) -> None:
        own, other = OffpromptStore(memory, agent=f"agent {next(agents)}"), Reference()
        for ops in batches:
            try:
                wanted = other.batch(list(ops))
            except (TypeError, ValueError):  # it compares only what float() takes
                continue
            assert told_all(own.batch(ops)) == told_all(wanted)

    both()


def told_all(answers: list[Any]) -> list[Any]:
    return [told(each) for each in answers]


def test_a_failed_batch_changes_nothing(memory: offprompt.Offprompt) -> None:
    store = OffpromptStore(memory)
    store.put(("a",), "k", {"n": 1})
    for bad, error in (
        (PutOp(("a",), "j", {"n": object()}), offprompt.UsageError),
        (PutOp(("a",), "j", {"t": "x" * MAX_VALUE_BYTES}), offprompt.LimitError),
        (SearchOp(("a",), query="x"), offprompt.UnsupportedError),
        (SearchOp(("a",), filter={"n": {"$in": [1]}}), offprompt.UsageError),
        (PutOp(("a.b",), "j", {}), ValueError),
        ("put", offprompt.UsageError),
    ):
        ops: Any = [PutOp(("a",), "k", {"n": 2}), PutOp(("b",), "new", {"n": 2}), bad]
        with pytest.raises(error):
            store.batch(ops)
        assert [each.value for each in store.search(())] == [{"n": 1}]


def test_a_life_is_in_minutes_and_a_read_extends_it_unless_told_otherwise() -> None:
    clock = MovedClock(1000.0)
    with offprompt.open(":memory:", clock=clock) as memory:
        store = OffpromptStore(memory, ttl={"default_ttl": 10, "refresh_on_read": True})
        store.put(("a",), "read", {"t": "r"})
        store.put(("a",), "found", {"t": "f"})
        store.put(("a",), "left", {"t": "l"})
        store.put(("a",), "stays", {"t": "s"}, ttl=None)
        clock.move(599)
        assert store.get(("a",), "read") is not None
        assert store.search(("a",), filter={"t": "f"})
        assert store.get(("a",), "left", refresh_ttl=False) is not None
        clock.move(2)
        assert sorted(each.key for each in store.search(("a",), refresh_ttl=False)) == ["found", "read", "stays"]
        clock.move(599)
        assert [each.key for each in store.search(("a",))] == ["stays"]


def test_a_query_finds_by_meaning_and_only_in_the_fields_that_count(memory: offprompt.Offprompt) -> None:
    store = OffpromptStore(memory, index={"fields": ["text", "tags[*]"]})
    store.put(("m",), "food", {"text": "I like noodles and dumplings", "note": "tides at the harbour"})
    store.put(("m",), "sea", {"text": "The harbour is dry at low water", "tags": ["tides", "boats"]})
    store.put(("m",), "quiet", {"text": "tides, tides, tides"}, index=False)
    store.put(("m",), "own", {"title": "A book about ships"}, index=["title"])
    found = store.search(("m",), query="tides")
    assert (found[0].key, found[-1].key, found[-1].score) == ("sea", "quiet", None)
    assert all(each.score is not None for each in found[:3])
    assert [each.key for each in store.search(("m",), query="吃的", limit=1)] == ["food"]


def test_embeddings_of_ones_own_are_asked(memory: offprompt.Offprompt) -> None:
    asked: list[list[str]] = []

    def embed(texts: Any) -> list[list[float]]:
        asked.append(list(texts))
        return [[float(len(text)), 1.0] for text in texts]

    store = OffpromptStore(memory, index={"dims": 2, "embed": embed, "fields": ["t"]})
    store.put(("a",), "k", {"t": "x"})
    assert store.search(("a",), query="x")[0].score == pytest.approx(1.0)
    assert store.search(("a",), query="x")[0].score == pytest.approx(1.0)
    assert asked == [["x"], ["x"], ["x"]]


def test_agents_and_users_are_apart_and_a_delete_leaves_nothing(memory: offprompt.Offprompt) -> None:
    mine, other = OffpromptStore(memory, user="alice"), OffpromptStore(memory, user="bo")
    mine.put(("a",), "k", {"t": "of alice"})
    assert other.search(()) == []
    assert OffpromptStore(memory).get(("a",), "k") is None
    assert memory.scope(user="alice").slots.list() == []
    mine.delete(("a",), "k")
    mine.delete(("a",), "k")
    assert mine.list_namespaces() == []


def test_the_items_are_there_in_another_process_and_async(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with offprompt.open(path) as memory:
        asyncio.run(OffpromptStore(memory).aput(("users", "alice@example"), "likes", {"food": "noodles"}))
    with offprompt.open(path) as memory:
        found = asyncio.run(OffpromptStore(memory).aget(("users", "alice@example"), "likes"))
        assert found is not None
        assert (found.value, found.namespace) == ({"food": "noodles"}, ("users", "alice@example"))
        assert found.created_at == found.updated_at
