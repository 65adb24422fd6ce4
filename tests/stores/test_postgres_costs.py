"""What ops cost on PostgreSQL, counted: how often the server is waited for."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from offprompt.protocols import apply, run
from offprompt.records import (
    AddMemory,
    ForgetMemories,
    GetMemories,
    GetSlot,
    ListSlots,
    LoadIndex,
    PutSlot,
    Scope,
    ScopeRevisions,
    SessionChange,
    SessionRecord,
    SlotQuery,
    Unindexed,
    UseMemories,
    UserOf,
)
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_memories import PgMemories
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock
from offprompt.testing.memory_kit import memory_of
from offprompt.testing.session_suite import entry_of
from tests.servers import Server
from tests.stores.memory_writer import indexed_of
from tests.stores.schemas import schema_url

ALICE = Scope(user="alice")
SESSION = Scope(user="alice", session="s")


class Relay:
    """Passes bytes on, and counts how often the server was asked after it had answered: round trips."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.trips = 0
        self._lock = threading.Lock()
        self._has_answered = True
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(65536):
                with self._lock:
                    self.trips += asks and self._has_answered
                    self._has_answered = not asks
                target.sendall(data)

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def relayed(postgres_server: Server) -> Iterator[tuple[PostgresStore, Relay]]:
    relay = Relay(postgres_server.port)
    with schema_url(postgres_server) as url:
        store = PostgresStore(url.replace(f":{postgres_server.port}/", f":{relay.port}/"), clock=MovedClock())
        yield store, relay
        store.close()
    relay.close()


@contextmanager
def trips(relay: Relay) -> Generator[list[int]]:
    before, counted = relay.trips, [0]
    yield counted
    counted[0] = relay.trips - before


def fact(text: str, number: int = 0) -> AddMemory:
    memory = memory_of(text, ALICE, digest=text, subject=f"s{number}", attribute="a")
    return AddMemory(memory, indexed_of(memory.memory_id, text), op_key=text)


def plain(text: str, kind: Any = "episode") -> AddMemory:
    memory = memory_of(text, ALICE, kind=kind, digest=text)
    return AddMemory(memory, indexed_of(memory.memory_id, text), op_key=text)


def test_round_trips_of_each_op(relayed: tuple[PostgresStore, Relay]) -> None:
    store, relay = relayed
    put = PutSlot(ALICE, "a", "x", "by_handle")
    ids = [apply(store, plain(f"memory {at}")).memory for at in range(5)]
    names = tuple(memory.memory_id for memory in ids if memory is not None)
    scopes = Scope(user="alice", session="s").inherited()
    change = SessionChange(SessionRecord(SESSION, revision=1), (entry_of("k1"), entry_of("k2")))
    asked: dict[str, tuple[Callable[[], Any], int]] = {
        "new slot": (lambda: run(store, put), 3),
        "slot": (lambda: run(store, put), 2),
        "get": (lambda: run(store, GetSlot(ALICE, "a")), 1),
        "get where a session's scope looks": (lambda: run(store, GetSlot(SESSION, "a", within="inherit")), 1),
        "alias": (lambda: apply(store, UserOf("default", "alice")), 1),
        "list": (lambda: run(store, ListSlots(SlotQuery(ALICE, "exact"))), 2),
        "episode": (lambda: apply(store, plain("turn")), 2),
        "passage": (lambda: apply(store, plain("passage", "passage")), 2),
        "fact": (lambda: apply(store, fact("tea")), 4),
        "the same once more": (lambda: apply(store, fact("tea")), 2),
        "get 5 memories": (lambda: apply(store, GetMemories("default", names)), 2),
        "revisions": (lambda: apply(store, ScopeRevisions(tuple(scopes))), 2),
        "page": (lambda: apply(store, LoadIndex(ALICE)), 3),
        "uses": (lambda: apply(store, UseMemories(ALICE, dict.fromkeys(names, 1))), 2),
        "forget": (lambda: apply(store, ForgetMemories(ALICE, names[:2])), 2),
        "commit": (lambda: store.commit(change), 2),
    }
    counted: dict[str, int] = {}
    for name, (ask, _) in asked.items():
        with trips(relay) as number:
            ask()
        counted[name] = number[0]
    assert counted == {name: most for name, (_, most) in asked.items()}


def test_a_batch_waits_no_more_often_than_one_op(relayed: tuple[PostgresStore, Relay]) -> None:
    store, relay = relayed
    with trips(relay) as one:
        store.apply([plain("first"), plain("first passage", "passage")])
    with trips(relay) as many:
        store.apply([plain(f"{at}", ("episode", "passage")[at % 2]) for at in range(200)])
    assert one[0] == 2
    assert many[0] <= 20  # the server sends what it has to say of 200 adds in several pieces
    store.batch([PutSlot(ALICE, f"n{at}", at, "by_handle") for at in range(50)])
    with trips(relay) as puts:
        store.batch([PutSlot(ALICE, f"n{at}", at, "by_handle") for at in range(50)])
    assert puts[0] <= 3


def rows_read(store: PostgresStore, op: Unindexed) -> tuple[list[str], int]:
    """The ids that a page has, and how many rows of memories and of their index were looked at for them."""

    def read(statements: Statements) -> int:
        row = statements.row(
            "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables "
            "WHERE relid IN ('memories'::regclass, 'memory_index'::regclass)"
        )
        assert row is not None
        return row[0]

    def work(statements: Statements) -> tuple[list[str], int]:
        before = read(statements)
        found = [memory.memory_id for memory in PgMemories(statements).unindexed(op, 0.0)]
        return found, read(statements) - before

    return store._db.read(work, apps=None)  # pyright: ignore[reportPrivateUsage]


def test_a_page_of_what_lacks_a_vector_looks_at_no_more_than_it_has(postgres_server: Server) -> None:
    with schema_url(postgres_server) as url:
        store = PostgresStore(url, clock=MovedClock())
        ids = [f"m_{number:04d}" for number in range(3000)]
        memories = [
            memory_of(one, Scope("甲" if at % 2 else "default", user=f"u{at % 7}"), memory_id=one)
            for at, one in enumerate(ids)
        ]
        store.apply([AddMemory(memory, indexed_of(memory.memory_id, "茶")) for memory in memories])
        with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
            connection.execute("ANALYZE")
        assert rows_read(store, Unindexed("other", limit=10))[0] == ids[:10]
        for after in (9, 1500, 2900):
            found, read = rows_read(store, Unindexed("other", after=ids[after], limit=10))
            assert found == ids[after + 1 : after + 11]
            assert read <= 40
        store.close()
