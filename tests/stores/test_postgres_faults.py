"""PostgreSQL that goes away, is slow, or refuses: what is acknowledged is stored once, and errors say what to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from offprompt.errors import BackendError, OffpromptError, UsageError
from offprompt.protocols import apply, run
from offprompt.records import AddMemory, GetMemories, GetSlot, PutSlot, Scope, SlotHistory, UseMemories
from offprompt.stores._pg_connection import Connection, Statements
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock
from offprompt.testing.memory_kit import memory_of
from tests.servers import Server, free_port, postgres, postgres_url, running
from tests.stores.schemas import schema_url

SCOPE = Scope(user="u")


@pytest.fixture
def url(postgres_server: Server) -> Iterator[str]:
    with schema_url(postgres_server) as url:
        yield url


@contextmanager
def opened(url: str, **options: Any) -> Generator[PostgresStore]:
    store = PostgresStore(url, clock=MovedClock(), **options)
    try:
        yield store
    finally:
        store.close()


def put(store: PostgresStore, value: int, name: str = "a") -> int:
    return run(store, PutSlot(SCOPE, name, value, "by_handle")).version


def kill_others(url: str) -> None:
    """End all other connections of the server that are ours."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'offprompt'"
        )


def cut(monkeypatch: pytest.MonkeyPatch, *, times: int, arrives: bool) -> list[str]:
    """Lose the connection at the next commits, before the server gets them or before its answer comes."""
    plain, losses = Statements.run, ["lost"] * times

    def lossy(self: Statements, sql: str, given: Any = ()) -> None:
        connection: Connection = self._connection  # pyright: ignore[reportPrivateUsage]
        if sql == "COMMIT" and losses and connection.writer:
            losses.pop()
            if arrives:
                plain(self, sql, given)
                connection.cursor().execute("SELECT 1").fetchone()
            connection.pgconn.finish()
        plain(self, sql, given)

    monkeypatch.setattr(Statements, "run", lossy)
    return losses


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_write_whose_commit_is_lost_is_stored_once(
    url: str, monkeypatch: pytest.MonkeyPatch, times: int, *, arrives: bool
) -> None:
    with opened(url) as store:
        assert put(store, 0) == 1
        losses = cut(monkeypatch, times=times, arrives=arrives)
        assert put(store, 1) == 2
        assert losses == []
        assert [version.value for version in run(store, SlotHistory(SCOPE, "a"))] == [0, 1]
        assert len(store.events(op="slot.write")) == 2
        memory = memory_of("tea", SCOPE)
        apply(store, AddMemory(memory))
        monkeypatch.undo()
        losses = cut(monkeypatch, times=times, arrives=arrives)
        # An op that leaves no event, and would count twice.
        apply(store, UseMemories(SCOPE, {memory.memory_id: 3}))
        assert losses == []
        assert apply(store, GetMemories("default", (memory.memory_id,)))[0].uses == 3


def test_a_write_goes_on_when_idle_connections_were_ended(url: str) -> None:
    with opened(url) as store:
        put(store, 0)
        kill_others(url)
        assert put(store, 1) == 2
        kill_others(url)
        slot = run(store, GetSlot(SCOPE, "a"))
        assert slot is not None
        assert slot.value == 1


def test_a_killed_server_that_is_back_at_once_is_waited_for(tmp_path: Path) -> None:
    del tmp_path
    with running(postgres("-c", "fsync=on")) as server, opened(postgres_url(server)) as store:
        assert put(store, 0) == 1
        server.kill()
        back = threading.Timer(0.5, server.start)
        back.start()
        assert put(store, 1) == 2
        back.join()
        assert [version.value for version in run(store, SlotHistory(SCOPE, "a"))] == [0, 1]


def test_a_server_that_is_gone_is_an_error_that_says_so(tmp_path: Path) -> None:
    del tmp_path
    with running(postgres()) as server:
        url = postgres_url(server).replace("postgres@", "postgres:s3cret@")
        with opened(url, busy_timeout_s=0.5) as store:
            server.kill()
            with pytest.raises(BackendError, match="start the server, or correct host and port") as told:
                put(store, 1)
        assert "s3cret" not in str(told.value)


def test_a_server_that_says_nothing_is_given_up(url: str) -> None:
    with opened(url) as store:
        put(store, 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        dead = f"postgresql://postgres:s3cret@127.0.0.1:{port}/postgres?connect_timeout=2"
        with pytest.raises(BackendError, match="check host, port and firewall"):
            PostgresStore(dead, clock=MovedClock(), busy_timeout_s=0.1)


def test_a_lock_that_stays_taken_is_an_error_and_nothing_is_stored(url: str) -> None:
    with opened(url) as store, opened(url, busy_timeout_s=0.3) as other:
        put(store, 0)
        entered, leave = threading.Event(), threading.Event()

        def stay(_: Statements) -> None:
            entered.set()
            leave.wait()

        from offprompt.stores._pg_locks import locks_of_scope  # noqa: PLC0415

        thread = threading.Thread(
            target=lambda: store._db.write(stay, locks_of_scope(SCOPE))  # pyright: ignore[reportPrivateUsage]
        )
        thread.start()
        entered.wait()
        try:
            # Another owner's slots are not kept busy by it.
            assert run(other, PutSlot(Scope(user="v"), "a", 1, "by_handle")).version == 1
            with pytest.raises(BackendError, match=r"(busy|did not answer).*nothing was stored"):
                put(other, 1)
        finally:
            leave.set()
            thread.join()
        assert put(other, 2) == 2


def test_the_server_itself_ends_a_statement_that_takes_too_long(url: str) -> None:
    with opened(url, busy_timeout_s=0.3) as store:

        def work(statements: Statements) -> None:
            statements.row("SELECT count(*), pg_sleep(5) FROM slots")

        with pytest.raises(BackendError, match="did not answer for"):
            store._db.read(work, apps=None)  # pyright: ignore[reportPrivateUsage]
        with psycopg.connect(url.partition("?")[0]) as connection:
            at_it = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(5) FROM slots' AND state = 'active'"
            ).fetchall()
        assert at_it == []


@pytest.mark.parametrize(
    ("part", "instead", "says"),
    [
        ("/postgres?", "/nowhere?", "make the database"),
        ("postgres@", "nobody_at_all:s3cret@", "check the user"),
        ("?", "?role=no_such_role&", "check the role"),
    ],
    ids=["database", "user", "role"],
)
def test_what_cannot_be_opened_says_what_to_do(url: str, part: str, instead: str, says: str) -> None:
    with pytest.raises(BackendError, match=says) as told:
        PostgresStore(url.replace(part, instead), clock=MovedClock(), busy_timeout_s=1)
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("schema=Big", "small letters"),
        ("schema=a;drop", "small letters"),
        ("pool=0", "from 1 to 1000"),
        ("pool=2&pool=3", "twice"),
        ("role=%22x", "small letters"),
        ("colour=red", "neither libpq's nor one of schema, role, pool"),
    ],
)
def test_options_that_are_none_are_refused(options: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        PostgresStore(f"postgresql://u:s3cret@127.0.0.1:{free_port()}/db?{options}", clock=MovedClock())


def test_a_password_that_breaks_the_url_is_not_told() -> None:
    for url in ("postgresql://u:s3cret/x@h/db", "postgresql://u:s3cret@h:port/db", "postgresql://u:s3%cret@h/db"):
        with pytest.raises(OffpromptError) as told:
            PostgresStore(url, clock=MovedClock(), busy_timeout_s=0.1)
        assert "cret" not in str(told.value)
        assert "cret" not in str(told.value.__cause__)


def test_a_closed_store_says_so(url: str) -> None:
    store = PostgresStore(url, clock=MovedClock())
    store.close()
    store.close()
    with pytest.raises(UsageError, match="is closed"):
        put(store, 1)
