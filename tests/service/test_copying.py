"""A whole store goes to another engine and is the same there, whenever the copying is killed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import BackendError, ConflictError, UsageError
from offprompt.protocols import Store
from offprompt.records.tables import TABLES, Row
from offprompt.service import copying
from offprompt.service.copying import Whole, copy, unfinished
from offprompt.service.keys import Keys
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock, kit
from offprompt.testing.portable_suite import fill, rows_of


class Told(list[tuple[str, int]]):
    """Takes down the progress."""

    def __call__(self, table: str, rows: int) -> None:
        self.append((table, rows))


class Killed(BaseException):
    """Stands for a process that ends at once."""


def whole(store: Store, place: str) -> Whole:
    return Whole(place, store, store)


def content(store: Store) -> dict[str, list[Row]]:
    return {table: rows_of(store, table) for table in TABLES}


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def source(clock: MovedClock) -> InProcessStore:
    store = InProcessStore(clock)
    fill(store, clock)
    return store


@pytest.fixture
def target(clock: MovedClock, tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "target.db", clock=clock)
    yield store
    store.close()


def test_a_copy_is_the_same_and_says_how_much(source: InProcessStore, target: SqliteStore) -> None:
    told = Told()
    done = copy(whole(source, "a"), whole(target, "b"), progress=told)
    assert content(target) == content(source)
    assert done.rows == sum(map(len, content(source).values())) == sum(rows for _, rows in told)
    assert [table.name for table in done.tables] == list(TABLES)
    assert (done.resumed, unfinished(target)) == (False, "")


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, store: Store, step: int) -> Generator[Callable[[], int]]:
    """The process ends before the step-th write into the store, a page or a note."""
    count = 0
    with monkeypatch.context() as patch:

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                nonlocal count
                count += 1
                if count == step:
                    raise Killed
                return real(*given, **named)

            return call

        for name in ("put_rows", "set_note", "clear_rows"):
            patch.setattr(store, name, counted(getattr(store, name)))
        yield lambda: count


def test_a_copy_that_was_killed_anywhere_goes_on_and_ends_the_same(
    source: InProcessStore, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PAGE", 2)
    monkeypatch.setattr(copying, "PAGE_OF_TEXTS", 1)
    wanted, step = content(source), 0
    while True:
        step += 1
        target = InProcessStore(clock)
        with killed_at(monkeypatch, target, step) as count:
            try:
                copy(whole(source, "a"), whole(target, "b"))
            except Killed:
                assert unfinished(target) in ("", "a")
            else:
                break
        assert count() == step
        assert copy(whole(source, "a"), whole(target, "b")).resumed is (step > 1)
        assert content(target) == wanted
    assert step > sum(map(len, wanted.values()))


def test_what_is_done_is_not_copied_again(
    source: InProcessStore, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PAGE", 2)
    target, first, second = InProcessStore(clock), Told(), Told()
    with killed_at(monkeypatch, target, 20), pytest.raises(Killed):
        copy(whole(source, "a"), whole(target, "b"), progress=first)
    copy(whole(source, "a"), whole(target, "b"), progress=second)
    tables = [name for name, _ in second]
    assert [name for name, _ in first if name in tables[1:] and name != tables[0]] == []


def test_a_target_that_holds_something_is_left_alone(source: InProcessStore, target: SqliteStore) -> None:
    kit.put(target, "mine", 1)
    before = content(target)
    with pytest.raises(UsageError, match=r"target b is not empty \(slots, versions, events\).*give an empty one"):
        copy(whole(source, "a"), whole(target, "b"))
    assert content(target) == before


def test_half_a_copy_is_finished_from_its_own_source_only(
    source: InProcessStore, target: SqliteStore, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed_at(monkeypatch, target, 8), pytest.raises(Killed):
        copy(whole(source, "a"), whole(target, "b"))
    other = InProcessStore(clock)
    with pytest.raises(UsageError, match="target b is a copy of a that is not finished"):
        copy(whole(other, "c"), whole(target, "b"))
    with pytest.raises(
        UsageError, match=r"source b is itself a copy of a that is not finished.*offprompt copy 'a' 'b'"
    ):
        copy(whole(target, "b"), whole(other, "c"))
    with pytest.raises(UsageError, match="a is source and target"):
        copy(whole(source, "a"), whole(source, "a"))


def test_two_copies_into_one_target_are_told_apart(source: InProcessStore, target: SqliteStore) -> None:
    def other(_table: str, _rows: int) -> None:
        assert target.set_note("copy", "{}", was=target.note("copy"))

    with pytest.raises(ConflictError, match="another copy works on the target b"):
        copy(whole(source, "a"), whole(target, "b"), progress=other)


@pytest.mark.parametrize("change", ["write", "erase", "session"])
def test_a_source_that_was_written_to_is_seen_and_copied_anew(
    change: str, source: InProcessStore, target: SqliteStore
) -> None:
    changed: list[str] = []

    def meanwhile(table: str, _rows: int) -> None:
        if table == "events" and not changed:
            changed.append(change)
            if change == "write":
                kit.put(source, "n9", 1)
            elif change == "erase":
                kit.erase(source, "城市")
            else:
                source.drop_sessions()

    with pytest.raises(BackendError, match=r"the copy b differs from a in .*it does these tables anew"):
        copy(whole(source, "a"), whole(target, "b"), progress=meanwhile)
    assert unfinished(target) == "a"
    assert copy(whole(source, "a"), whole(target, "b")).resumed
    assert content(target) == content(source)


def test_a_row_that_changed_on_the_way_is_seen(
    source: InProcessStore, target: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = target.put_rows

    def broken(table: str, rows: Any) -> None:
        real(table, [(*row[:-1], "里斯本?") if table == "aliases" else row for row in rows])

    monkeypatch.setattr(target, "put_rows", broken)
    with pytest.raises(BackendError, match="differs from a in aliases"):
        copy(whole(source, "a"), whole(target, "b"))
    monkeypatch.undo()
    copy(whole(source, "a"), whole(target, "b"))
    assert content(target) == content(source)


def test_an_opened_memory_is_copied_with_what_it_kept_back(tmp_path: Path) -> None:
    with offprompt.open(tmp_path / "a.db") as memory, offprompt.open(tmp_path / "b.db") as other:
        alice = memory.scope(user="alice")
        alice.write("city", "杭州")
        alice.remember("I moved to Lisbon in May 2026.")
        assert alice.read("city") == "杭州"
        copy(Whole.of(memory.parts), Whole.of(other.parts))
        assert other.scope(user="alice").recall("where does she live?").hits[0].text.startswith("I moved to Lisbon")
        assert [event.op for event in other.scope(user="alice").events()][:2] == ["slot.write", "memory.add"]
        assert content(other.parts.main) == content(memory.parts.main)


def test_keys_go_along(source: InProcessStore, target: SqliteStore) -> None:
    clock = MovedClock()
    ours, theirs = Keys(source, clock), Keys(target, clock)
    made = ours.create("a", app="shop")
    copy(whole(source, "memory"), whole(target, "target"))
    copying.copy_keys(source, target)
    assert theirs.find(made.token) == ours.find(made.token)
    assert theirs.list("shop") == [made.key]
