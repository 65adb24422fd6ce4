"""What a thread asks a SQLite store for in one transaction: reads of one moment, writes that share a commit."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from offprompt.errors import BackendError, ConflictError, LimitError, UsageError, WouldWait
from offprompt.protocols import SlotStore, run
from offprompt.records import EraseSlots, GetSlot, SlotLimits
from offprompt.service.quick import QuickStore, done_together
from offprompt.stores._sqlite_held import Held
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE, get, put, value_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "agent.db", clock=MovedClock())
    yield store
    store.close()


@pytest.fixture
def other(store: SqliteStore) -> Iterator[SqliteStore]:
    """The same file in another object, as another process has it."""
    other = SqliteStore(store.path, clock=MovedClock(), busy_timeout_s=0.05)
    yield other
    other.close()


def done_at_once(work: Callable[[], object]) -> None:
    work()


def test_the_default_engine_is_quick(store: SqliteStore) -> None:
    assert isinstance(store, QuickStore)
    assert not isinstance(InProcessStore(MovedClock()), QuickStore)


def test_what_is_written_together_is_stored_in_one_commit(store: SqliteStore, other: SqliteStore) -> None:
    def write(name: str) -> int:
        before = get(store, name)
        seen.append(value_of(other, "a"))
        return put(store, name, (before.version if before is not None else 0) + 1).version

    seen: list[Any] = []
    found = done_together(store, [lambda name=name: write(name) for name in "aba"])
    assert [(one.result, one.error) for one in found] == [(1, None), (1, None), (2, None)]
    assert seen == [..., ..., ...]  # nobody else sees any of it before all of it is stored
    assert [value_of(other, name) for name in "ab"] == [2, 1]


def test_a_write_that_is_refused_takes_back_its_own_part_only(store: SqliteStore, other: SqliteStore) -> None:
    def refused() -> None:
        one_too_many = SlotLimits(max_slots=1)
        store.batch([EraseSlots(ALICE, ("a",))] * 2)
        put(store, "c", 1, limits=one_too_many)

    def half() -> None:
        put(store, "half", 1)
        raise KeyError("the caller's own")

    put(store, "b", 0)
    calls = [lambda: put(store, "a", 1), refused, half, lambda: put(store, "b", 1)]
    first, second, third, fourth = done_together(store, calls)
    assert (first.error, fourth.error) == (None, None)
    assert isinstance(second.error, LimitError)
    assert isinstance(third.error, KeyError)
    # Only what one call of the store did is taken back with it: two are two.
    assert [value_of(other, name) for name in ("a", "b", "c", "half")] == [..., 1, ..., 1]


def test_uses_that_wait_are_stored_once_with_what_is_written_together(store: SqliteStore, other: SqliteStore) -> None:
    put(store, "a", 1)
    get(store, "a", touch=True)
    seen: list[int] = []

    def read() -> None:
        slot = get(store, "a", touch=True)
        seen.append(-1 if slot is None else slot.uses)

    assert [one.error for one in done_together(store, [read, lambda: put(store, "b", 1), read])] == [None] * 3
    store.close()
    slot = get(other, "a")
    assert slot is not None
    assert (seen, slot.uses) == ([2, 3], 3)
    assert len(other.events(op="slot.read")) == 3


def test_where_the_commit_fails_each_call_is_made_alone(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def write(name: str) -> str:
        made.append(name)
        return put(store, name, 1).name

    def fail(held: Held, *, keep: bool) -> None:
        monkeypatch.undo()
        held.end(keep=False)
        raise BackendError(f"keep={keep}: the disk is full")

    monkeypatch.setattr(Held, "end", fail)
    found = done_together(store, [lambda: write("a"), lambda: write("b")])
    assert [one.result for one in found] == ["a", "b"]
    assert made == ["a", "b", "a", "b"]
    assert [value_of(store, name) for name in "ab"] == [1, 1]


def test_what_sqlite_itself_took_back_is_not_said_to_be_stored(store: SqliteStore, other: SqliteStore) -> None:
    def full(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")  # as SQLite does on a full disk
        raise sqlite3.OperationalError("database or disk is full")

    def write() -> str:
        made.append(value_of(store, "a"))
        return put(store, "a", 1).name

    def fails() -> None:
        if len(made) == 1:
            store._db.write(full)

    made: list[Any] = []
    found = done_together(store, [write, fails])
    assert [one.error for one in found] == [None, None]
    assert made == [..., ...]
    assert value_of(other, "a") == 1


def test_a_file_that_others_hold_is_waited_for_once_and_then_each_call_says_so(
    store: SqliteStore, other: SqliteStore
) -> None:
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    made: list[Any] = []
    found = done_together(other, [lambda: made.append(put(other, "a", 1)), lambda: made.append(value_of(other, "a"))])
    holder.execute("ROLLBACK")
    holder.close()
    assert [type(one.error) for one in found] == [BackendError, BackendError]
    assert made == []


def test_reads_at_once_are_of_one_moment_and_never_write(store: SqliteStore, other: SqliteStore) -> None:
    put(store, "a", 1)
    later: list[Callable[[], object]] = []
    with store.at_once(later.append):
        assert value_of(store, "a") == 1
        put(other, "a", 2)
        assert value_of(store, "a") == 1
        with pytest.raises(WouldWait):
            put(store, "b", 1)
        with pytest.raises(WouldWait):
            store.flush() if get(store, "a", touch=True) is not None else None
    assert (value_of(store, "a"), value_of(store, "b")) == (2, ...)
    assert later == []


def test_uses_that_must_be_stored_are_left_for_later(store: SqliteStore, other: SqliteStore) -> None:
    put(store, "a", 1)
    later: list[Callable[[], object]] = []
    for _ in range(600):
        with store.at_once(later.append):
            get(store, "a", touch=True)
    assert len(later) == 2
    later[0]()
    slot = get(other, "a")
    assert slot is not None
    assert slot.uses == 600


def test_another_thread_is_not_within(store: SqliteStore) -> None:
    with store.at_once(done_at_once):
        thread = threading.Thread(target=put, args=(store, "a", 1))
        thread.start()
        thread.join()
    assert value_of(store, "a") == 1


def test_threads_that_write_together_and_alone_lose_nothing(store: SqliteStore, other: SqliteStore) -> None:
    def count(store: SlotStore, together: bool) -> None:
        def one() -> None:
            slot = run(store, GetSlot(ALICE, "n"))
            put(store, "n", 0 if slot is None else int(str(slot.value)) + 1, if_version=slot.version if slot else 0)

        done = 0
        while done < 40:
            calls = [one] * 5 if together else [one]
            found = done_together(store, calls) if isinstance(store, QuickStore) else []
            refused = [type(each.error) for each in found if each.error is not None]
            assert set(refused) <= {ConflictError}
            done += len(calls) - len(refused)
            counted.append(len(calls) - len(refused))

    counted: list[int] = []
    put(store, "n", 0)
    patient = SqliteStore(store.path, clock=MovedClock())
    threads = [threading.Thread(target=count, args=given) for given in ((store, True), (store, False), (patient, True))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    patient.close()
    assert value_of(other, "n") == sum(counted)


def test_a_closed_store_refuses_both(store: SqliteStore) -> None:
    store.close()
    with pytest.raises(UsageError, match="closed"), store.together():
        pass
    with pytest.raises(UsageError, match="closed"), store.at_once(done_at_once):
        pass


def test_who_waits_to_write_together_hears_that_the_store_is_closed(store: SqliteStore) -> None:
    """A server that is told to stop must not wait for a file that another process holds."""
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(done_together(store, [lambda: put(store, "a", 1)] * 2)))
    thread.start()
    while store._db._writing.acquire(blocking=False):
        store._db._writing.release()
    store.close()
    thread.join()
    holder.execute("ROLLBACK")
    holder.close()
    assert [type(one.error) for one in found] == [UsageError, UsageError]
