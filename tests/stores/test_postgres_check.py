"""What doctor finds in a PostgreSQL store: each kind of damage by its name, and nothing in a sound one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from offprompt.errors import BackendError
from offprompt.protocols import apply, run
from offprompt.records import AddMemory, GetSlot, PutSlot, Scope
from offprompt.service.maintenance import doctor
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock
from offprompt.testing.memory_kit import memory_of
from tests.servers import Server
from tests.stores.memory_writer import indexed_of
from tests.stores.schemas import schema_url

SCOPE = Scope(user="u")


@pytest.fixture
def url(postgres_server: Server) -> Iterator[str]:
    with schema_url(postgres_server) as url:
        yield url


def filled(url: str) -> PostgresStore:
    clock = MovedClock(time.time())
    store = PostgresStore(url, clock=clock)
    run(store, PutSlot(SCOPE, "a", 1, "by_handle"))
    run(store, GetSlot(SCOPE, "a", touch=True))
    memory = memory_of("tea", SCOPE)
    apply(store, AddMemory(memory, indexed_of(memory.memory_id, memory.text), op_key="k"))
    return store


def spoil(url: str, statement: str) -> None:
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (url.rpartition("=")[2],))
        connection.execute(statement)  # type: ignore[arg-type]


def test_a_sound_store_has_no_failure(url: str) -> None:
    store = filled(url)
    report = doctor(store)
    assert report.is_sound
    assert {finding.name: finding.state for finding in report.findings} == {
        "server": "ok",
        "durability": "warn",  # the server of the tests has fsync off
        "format": "ok",
        "clock": "ok",
        "connections": "ok",
        "pgvector": "ok",
        "versions": "ok",
        "memories": "ok",
        "sweep": "ok",
        "size": "ok",
    }
    store.close()


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM versions", "1 slots without their version"),
        ("DELETE FROM slots", "1 versions without their slot"),
        ("DELETE FROM memory_versions", "1 memories without their versions"),
        ("DELETE FROM memories", "1 memories of which only versions are left"),
        ("UPDATE memory_scopes SET revision = 0", "later revision than their scope's"),
        ("UPDATE memory_scopes SET whole_before = 9", "loaded whole for each recall"),
        ("UPDATE memory_index SET memory_id = 'm_x'", "entries of the index without their memory"),
        ("UPDATE memory_keys SET memory_id = 'm_x'", "lead to no memory"),
        ("UPDATE memory_index SET version = 9", "of another version"),
        ("UPDATE slots SET forgotten_at = 1", "still stored"),
        ("UPDATE meta SET value = '99' WHERE name = 'format'", "format 99"),
        ("UPDATE events SET at = at + 1e6", "later than now"),
    ],
)
def test_each_damage_is_named(url: str, statement: str, says: str) -> None:
    store = filled(url)
    store.flush()
    spoil(url, statement)
    said = [finding.what for finding in doctor(store).findings if finding.state != "ok"]
    assert [what for what in said if says in what], said
    store.close()


def test_a_newer_format_is_refused_and_left_as_it_is(url: str) -> None:
    filled(url).close()
    spoil(url, "UPDATE meta SET value = '2' WHERE name = 'format'")
    with pytest.raises(BackendError, match="has format 2, and this program knows formats up to 1"):
        PostgresStore(url, clock=MovedClock())


def test_a_schema_of_another_program_is_refused_and_left_as_it_is(url: str) -> None:
    schema = url.rpartition("=")[2]
    spoil(url, f"CREATE SCHEMA {schema} CREATE TABLE slots (other text)")
    with pytest.raises(BackendError, match="tables of another program"):
        PostgresStore(url, clock=MovedClock())
    spoil(url, "SELECT other FROM slots")


def test_clocks_that_differ_are_told(url: str) -> None:
    store = PostgresStore(url, clock=MovedClock(time.time() - 3600))
    said = [finding.what for finding in doctor(store).findings if finding.name == "clock"]
    assert "apart" in said[0]
    store.close()
