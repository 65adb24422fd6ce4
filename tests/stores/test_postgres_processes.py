"""Many processes and threads on one PostgreSQL: nobody is lost, turned away, or sees half."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from offprompt.protocols import apply, run
from offprompt.records import (
    AddMemory,
    EraseMemories,
    GetMemories,
    GetSlot,
    ListMemories,
    LoadIndex,
    LogEvents,
    Memory,
    MemoryQuery,
    PutSlot,
    Scope,
    SlotHistory,
    UseMemories,
)
from offprompt.records.event import Event
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_locks import locks_of_scope
from offprompt.stores._pg_slots import PgSlots
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock
from offprompt.testing.memory_kit import memory_of
from tests.servers import Server
from tests.stores.memory_writer import indexed_of, text_of
from tests.stores.schemas import schema_url

HERE = Path(__file__).parent
WRITERS, WRITES, READERS, NAMES = 4, 100, 4, 20
DEADLINE_S = 60


@pytest.fixture
def url(postgres_server: Server) -> Iterator[str]:
    with schema_url(postgres_server) as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url, clock=MovedClock())
    yield store
    store.close()


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / program), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_writers_and_readers_that_all_begin_on_an_empty_database(url: str) -> None:
    readers = [start("reader.py", url, f"u{number % WRITERS}") for number in range(READERS)]
    writers = [start("writer.py", url, f"u{number}", WRITES) for number in range(WRITERS)]
    written = [writer.communicate() for writer in writers]
    read = [reader.communicate() for reader in readers]
    assert "".join(error for _, error in (*written, *read)) == ""
    store = PostgresStore(url, clock=MovedClock())
    for number, (output, _) in enumerate(written):
        acknowledged = [tuple(map(int, line.split())) for line in output.splitlines()]
        assert acknowledged == [(write, write // NAMES + 1) for write in range(WRITES)]
        for name in range(NAMES):
            versions = run(store, SlotHistory(Scope(user=f"u{number}"), f"slot{name}"))
            values = [version.value for version in versions]
            assert [value["number"] for value in values if isinstance(value, dict)] == [
                name + NAMES * at for at in range(WRITES // NAMES)
            ]
    assert len(store.events(op="slot.write", limit=10**6)) == WRITERS * WRITES
    assert len(store.events(op="slot.read", limit=10**6)) == sum(int(output) for output, _ in read)
    store.close()


def test_two_processes_that_add_the_same_statements_store_each_once(url: str) -> None:
    same, scope = 40, Scope(user="u")
    writers = [start("memory_writer.py", url, "u", same, "both") for _ in range(2)]
    said = [writer.communicate() for writer in writers]
    assert [error for _, error in said] == ["", ""]
    lines = [line.split() for output, _ in said for line in output.splitlines()]
    store = PostgresStore(url, clock=MovedClock())
    rows = listed(store, scope)
    assert sorted(row.text for row in rows) == sorted(text_of("both", number) for number in range(same))
    assert [row.repeats for row in rows] == [1] * same
    assert sorted(outcome for _, outcome, _ in lines) == ["added"] * same + ["merged"] * same
    store.close()


def test_processes_add_and_one_erases(url: str) -> None:
    scope = Scope(user="u")
    eraser = start("memory_writer.py", url, "u", "erase")
    writers = [start("memory_writer.py", url, "u", 60, f"writer{number}") for number in range(3)]
    written = [writer.communicate() for writer in writers]
    erased, trouble = eraser.communicate()
    assert "".join([trouble, *(error for _, error in written)]) == ""
    added = {line.split()[2] for output, _ in written for line in output.splitlines()}
    store = PostgresStore(url, clock=MovedClock())
    rows = listed(store, scope)
    assert len(added) == 3 * 60 == len(rows) + sum(map(int, erased.splitlines()))
    page = apply(store, LoadIndex(scope))
    assert [memory for memory, _ in page.rows] == rows
    assert [indexed for _, indexed in page.rows] == [indexed_of(row.memory_id, row.text) for row in rows]
    apply(store, EraseMemories(scope))
    store.close()


def listed(store: PostgresStore, scope: Scope) -> list[Memory]:
    return apply(store, ListMemories(MemoryQuery(scope, "exact")))


def test_more_threads_than_connections_all_get_their_turn(url: str) -> None:
    store = PostgresStore(f"{url}&pool=2", clock=MovedClock())
    trouble: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                run(store, PutSlot(Scope(user=f"u{number % 4}"), "a", number, "by_handle"))
                run(store, GetSlot(Scope(user="u0"), "a", touch=True))
        except BaseException as exc:
            trouble.append(exc)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    versions = [slot.version for slot in store.batch([GetSlot(Scope(user=f"u{number}"), "a") for number in range(4)])]
    assert versions == [40] * 4
    assert len(store.events(op="slot.read", limit=10**4)) == 8 * 20
    slot = run(store, GetSlot(Scope(user="u0"), "a"))
    assert slot is not None
    assert store._db._pool._lent == 0  # pyright: ignore[reportPrivateUsage]
    store.close()


def waits(url: str) -> int:
    """How many locks of the server are waited for."""
    with psycopg.connect(url.partition("?")[0]) as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'").fetchone()
        return row[0] if row else 0


@pytest.mark.parametrize("scope", [None, Scope(user="a"), Scope(agent="x")], ids=["all", "owner", "app"])
def test_events_are_not_read_past_one_whose_write_is_on_its_way(
    url: str, store: PostgresStore, scope: Scope | None
) -> None:
    slow, quick = Scope(user="a", agent="x"), Scope(user="b", agent="x")
    entered, leave = threading.Event(), threading.Event()

    def work(db: Statements) -> None:
        PgSlots(db).log([Event(1.0, slow, "slow")])
        db.row("SELECT 1")
        entered.set()
        leave.wait()

    writer = threading.Thread(
        target=lambda: store._db.write(work, locks_of_scope(slow))  # pyright: ignore[reportPrivateUsage]
    )
    writer.start()
    entered.wait()
    run(store, LogEvents((Event(1.0, quick, "quick"),)))
    found: list[Event] = []
    reader = threading.Thread(target=lambda: found.extend(store.events(scope=scope)))
    reader.start()
    until = time.monotonic() + DEADLINE_S
    while reader.is_alive() and not waits(url):
        assert time.monotonic() < until
    is_waiting = reader.is_alive()
    leave.set()
    for thread in (writer, reader):
        thread.join()
    assert is_waiting
    expected = ["slow"] if scope == Scope(user="a") else ["slow", "quick"]
    assert [event.op for event in found] == expected


def test_uses_of_memories_of_others_than_the_named_scope_are_counted(store: PostgresStore) -> None:
    mine, ours, other = Scope(user="u"), Scope(shared=True), Scope(user="v")
    memories = [memory_of(f"of {scope}", scope) for scope in (mine, ours, other)]
    store.apply([AddMemory(memory) for memory in memories])
    ids = tuple(memory.memory_id for memory in memories)
    apply(store, UseMemories(mine, dict.fromkeys(ids, 2)))
    assert [memory.uses for memory in apply(store, GetMemories("default", ids))] == [2, 2, 2]


def test_a_fork_takes_neither_connections_nor_waiting_uses_along(url: str) -> None:
    scope = Scope(user="u")
    store = PostgresStore(url, clock=MovedClock())
    run(store, PutSlot(scope, "a", 1, "by_handle"))
    run(store, GetSlot(scope, "a", touch=True))
    child = os.fork()
    if child == 0:
        # The child must not run the rest of the test session.
        code = 1
        try:
            slot = run(store, GetSlot(scope, "a", touch=True))
            run(store, PutSlot(scope, "b", 2, "by_handle"))
            store.close()
            code = 0 if slot is not None and slot.uses == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run(store, PutSlot(scope, "c", 3, "by_handle"))
    slot, other = store.batch([GetSlot(scope, "a"), GetSlot(scope, "b")])
    assert (slot.uses, other.value) == (2, 2)
    store.close()


FORKED = """
import os, sys, threading
from offprompt.protocols import run
from offprompt.records import GetSlot, PutSlot, Scope
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock

SCOPE = Scope(user="u")
store = PostgresStore(sys.argv[1], clock=MovedClock())
stop = threading.Event()

def work():
    number = 0
    while not stop.is_set():
        run(store, PutSlot(SCOPE, "busy", number, "by_handle"))
        number += 1

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
codes = []
for number in range(10):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            versions = [run(store, PutSlot(SCOPE, f"child{number}", at, "by_handle")).version for at in range(3)]
            store.close()
            code = 0 if versions == [1, 2, 3] else 2
        finally:
            os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
store.close()
print(codes)
"""


def test_children_forked_while_threads_write_use_the_store(url: str, store: PostgresStore) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, url]
    done: Any = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    assert done.stdout.strip() == str([0] * 10)
    slots = store.batch([GetSlot(Scope(user="u"), f"child{number}") for number in range(10)])
    assert [(slot.value, slot.version) for slot in slots] == [(2, 3)] * 10
