"""Steps between formats of a PostgreSQL store: each is whole or not at all, whoever is killed in the middle."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest

from offprompt.errors import BackendError
from offprompt.records.tables import TABLES
from offprompt.stores import _pg_schema as schema
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock, kit
from offprompt.testing.portable_suite import fill, rows_of
from tests.servers import Server
from tests.stores.schemas import schema_url

KILLED = """
import os, sys
from offprompt.stores import _pg_schema as schema
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock

left, real = int(sys.argv[2]), schema.say

def say(connection, sql, given=()):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)
    real(connection, sql, given)

schema.say = say
PostgresStore(sys.argv[1], clock=MovedClock())
"""


@pytest.fixture
def url(postgres_server: Server) -> Iterator[str]:
    with schema_url(postgres_server) as url:
        yield url


def tables(url: str) -> list[str]:
    base, _, name = url.partition("?schema=")
    with psycopg.connect(base) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1", (name,))
        return [row[0] for row in rows]


def test_a_first_step_that_was_killed_leaves_nothing(url: str) -> None:
    for step in (2, 5, 20, 40):
        command = [sys.executable, "-c", KILLED, url, str(step)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == -9, step
        assert tables(url) == []
    store = PostgresStore(url, clock=MovedClock())
    kit.put(store, "city", "杭州")
    assert kit.value_of(store, "city") == "杭州"
    store.close()


def test_a_later_step_that_fails_leaves_the_format_before_whole(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovedClock()
    store = PostgresStore(url, clock=clock)
    fill(store, clock)
    before = {table: rows_of(store, table) for table in TABLES}
    store.close()
    there = tables(url)
    monkeypatch.setattr(schema, "FORMAT", schema.FORMAT + 1)
    with monkeypatch.context() as patch:
        patch.setattr(
            schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE next (a text)", "CREATE TABLE slots ()"))
        )
        with pytest.raises(BackendError, match="slots"):
            PostgresStore(url, clock=clock)
    assert tables(url) == there
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE next (a text)",)))
    again = PostgresStore(url, clock=clock)
    assert {table: rows_of(again, table) for table in TABLES} == before
    again.close()
    assert tables(url) == sorted([*there, "next"])


def test_many_open_a_new_store_at_once(url: str) -> None:
    errors, start = list[BaseException](), threading.Barrier(6)

    def work(number: int) -> None:
        start.wait()
        try:
            store = PostgresStore(url, clock=MovedClock())
            kit.put(store, f"n{number}", number)
            store.close()
        except BaseException as exc:  # noqa: BLE001 - handed to the test's own thread
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    store = PostgresStore(url, clock=MovedClock())
    assert kit.names_of(store) == [f"n{number}" for number in range(6)]
    store.close()
