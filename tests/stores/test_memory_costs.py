"""What ops on memories cost, counted: transactions, SQLite's instructions, bytes; ten times the data, not a hundred."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from offprompt.protocols import apply
from offprompt.records import (
    AddMemory,
    EraseMemories,
    ListMemories,
    LoadIndex,
    MemoryOp,
    MemoryQuery,
    Scope,
    SweepMemories,
    Unindexed,
    UseMemories,
)
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.memory_kit import memory_of
from tests.stores.memory_writer import indexed_of

ALICE, BOB = Scope(user="alice"), Scope(user="bob")
STEP: Final = 10
FULL: Final = 2


def filled(path: Path, number: int, scope: Scope) -> SqliteStore:
    """A store with that many memories of a scope."""
    store = SqliteStore(path, clock=MovedClock())
    memories = [
        memory_of(f"statement {at}", scope, digest=f"d{at}", subject=f"s{at}", attribute="a") for at in range(number)
    ]
    store.apply([AddMemory(memory, indexed_of(memory.memory_id, memory.text)) for memory in memories])
    return store


@contextmanager
def statements(store: SqliteStore) -> Generator[list[str]]:
    """The statements that run meanwhile."""
    (connection,) = store._db._idle  # pyright: ignore[reportPrivateUsage]
    said: list[str] = []
    connection.set_trace_callback(said.append)
    try:
        yield said
    finally:
        connection.set_trace_callback(None)


def steps(store: SqliteStore, ops: list[MemoryOp[Any]]) -> int:
    """About how many instructions SQLite runs for the ops."""
    (connection,) = store._db._idle  # pyright: ignore[reportPrivateUsage]
    counted = [0]

    def count() -> None:
        counted[0] += STEP

    connection.set_progress_handler(count, STEP)
    try:
        store.apply(ops)
    finally:
        connection.set_progress_handler(None, 0)
    return counted[0]


def test_a_single_add_is_one_transaction_with_one_sync(tmp_path: Path) -> None:
    store = filled(tmp_path / "agent.db", 3, ALICE)
    memory = memory_of("one more", ALICE)
    with statements(store) as said:
        apply(store, AddMemory(memory, indexed_of(memory.memory_id, memory.text), op_key="k"))
    assert [one for one in said if one.startswith(("BEGIN", "COMMIT", "SAVEPOINT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    (connection,) = store._db._idle  # pyright: ignore[reportPrivateUsage]
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == FULL
    store.close()


def test_erasing_1000_is_one_transaction(tmp_path: Path) -> None:
    store = filled(tmp_path / "agent.db", 1000, ALICE)
    ids = tuple(memory.memory_id for memory in apply(store, ListMemories(MemoryQuery(ALICE))))
    with statements(store) as said:
        assert apply(store, EraseMemories(ALICE, ids)) == len(ids) == 1000
    assert [one for one in said if one.startswith(("BEGIN", "COMMIT", "SAVEPOINT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    store.close()


def one_add() -> MemoryOp[Any]:
    return AddMemory(memory_of("one more", ALICE, digest="d1", subject="s1", attribute="b"), op_key="k")


def merging_add() -> MemoryOp[Any]:
    return AddMemory(memory_of("statement 1", ALICE, digest="d1", subject="s1", attribute="a"))


@pytest.mark.parametrize(
    "op",
    [
        one_add,
        merging_add,
        lambda: LoadIndex(ALICE),
        lambda: ListMemories(MemoryQuery(ALICE)),
        lambda: ListMemories(MemoryQuery(ALICE, "subtree", limit=5)),
        lambda: UseMemories(ALICE, {"m_none": 1}),
        lambda: EraseMemories(ALICE),
        SweepMemories,
        lambda: Unindexed("e", ALICE),
    ],
    ids=["add", "merge", "page", "list", "list below", "use", "erase", "sweep", "unindexed"],
)
def test_ops_of_a_scope_cost_the_same_whatever_others_store(tmp_path: Path, op: Callable[[], MemoryOp[Any]]) -> None:
    small, large = (filled(tmp_path / f"{number}.db", 20, ALICE) for number in range(2))
    others = [memory_of(f"bob's {at}", BOB, digest=f"d{at}", subject=f"s{at}", attribute="a") for at in range(2000)]
    large.apply([AddMemory(memory) for memory in others])
    assert steps(large, [op()]) <= steps(small, [op()]) + 20 * STEP
    small.close()
    large.close()


@pytest.mark.parametrize(
    "op",
    [
        one_add,
        lambda: LoadIndex(ALICE),
        lambda: ListMemories(MemoryQuery(ALICE)),
        lambda: EraseMemories(ALICE),
        lambda: Unindexed("other"),
    ],
    ids=["add", "page", "list", "erase", "unindexed"],
)
def test_ten_times_the_memories_cost_less_than_12_times(tmp_path: Path, op: Callable[[], MemoryOp[Any]]) -> None:
    small, large = filled(tmp_path / "small.db", 200, ALICE), filled(tmp_path / "large.db", 2000, ALICE)
    assert steps(large, [op()]) < 12 * steps(small, [op()])
    small.close()
    large.close()


def test_ten_times_the_memories_take_less_than_12_times_the_bytes(tmp_path: Path) -> None:
    peaks: list[int] = []
    for number in (200, 2000):
        store = filled(tmp_path / f"{number}.db", number, ALICE)
        tracemalloc.start()
        apply(store, LoadIndex(ALICE))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        store.close()
    assert peaks[1] < 12 * peaks[0]
    size = [(tmp_path / f"{number}.db").stat().st_size for number in (200, 2000)]
    assert size[1] < 12 * size[0]
