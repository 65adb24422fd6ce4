"""Row-level security: a role that does not own the tables sees the apps that its transaction names, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from offprompt.errors import UnsupportedError
from offprompt.protocols import apply, run
from offprompt.records import (
    AddMemory,
    GetSlot,
    ListMemories,
    MemoryQuery,
    PutSlot,
    QueueVectors,
    Scope,
    SessionChange,
    SessionRecord,
    SweepMemories,
    SweepSlots,
)
from offprompt.records.tables import TABLES
from offprompt.stores._pg_schema import OF_APPS
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock
from offprompt.testing.memory_kit import memory_of
from offprompt.testing.portable_suite import fill
from offprompt.testing.session_suite import entry_of
from tests.servers import Server, postgres_url
from tests.stores.memory_writer import indexed_of
from tests.stores.schemas import schema_url

QUOTED = 'it"s {a}, b\\'


@pytest.fixture
def walled(postgres_server: Server) -> Iterator[tuple[str, str]]:
    """URLs of a schema's owner, and of a role that may use its tables."""
    with schema_url(postgres_server) as url, psycopg.connect(postgres_url(postgres_server), autocommit=True) as owner:
        PostgresStore(url, clock=MovedClock()).close()
        schema = url.rpartition("=")[2]
        role = f"r_{schema}"
        names = {"role": sql.Identifier(role), "schema": sql.Identifier(schema)}
        for grant in (
            "CREATE ROLE {role}",
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
            "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
        ):
            owner.execute(sql.SQL(grant).format(**names))
        yield url, f"{url}&role={role}"
        owner.execute(sql.SQL("DROP OWNED BY {role}").format(**names))
        owner.execute(sql.SQL("DROP ROLE {role}").format(**names))


def fill_app(store: PostgresStore, app: str) -> None:
    """Something of an app in each table."""
    scope = Scope(app, user="u", session="s")
    run(store, PutSlot(scope, "a", app, "by_handle"))
    memory = memory_of(f"tea of {app}", Scope(app, user="u"))
    apply(store, AddMemory(memory, op_key="k"))
    apply(store, QueueVectors(app, (memory.memory_id,)))
    store.commit(SessionChange(SessionRecord(scope, revision=1), (entry_of("k1"),)))
    store.digest_key(scope)


def test_a_confined_store_does_all_that_is_of_one_app(walled: tuple[str, str]) -> None:
    owner_url, url = walled
    clock = MovedClock()
    owner, store = PostgresStore(owner_url, clock=clock, vector_queue=True), PostgresStore(url, clock=clock)
    for app in ("b", QUOTED):
        fill_app(owner, app)
        fill_app(store, f"{app} 2")
    for app in ("b", QUOTED, "b 2"):
        scope = Scope(app, user="u", session="s")
        slot = run(store, GetSlot(scope, "a", touch=True))
        assert slot is not None
        assert slot.value == app
        (memory,) = apply(store, ListMemories(MemoryQuery(Scope(app, user="u"))))
        assert memory.text == f"tea of {app}"
        assert len(store.journal(scope)) == 1
        assert store.digest_key(scope) == owner.digest_key(scope)
        assert {event.scope.app for event in store.events(scope=Scope(app, user="u"))} == {app}
    clock.move(1e6)
    assert run(store, SweepSlots("b")) == 0
    for scope in (Scope("b", user="u"), Scope("b", agent="x"), Scope("b", shared=True)):
        store.events(scope=scope)
        store.sessions(scope)
    owner.close()
    store.close()


def test_what_asks_for_all_apps_is_refused(walled: tuple[str, str]) -> None:
    store = PostgresStore(walled[1], clock=MovedClock())
    for ask in (
        store.events,
        store.sessions,
        store.drop_sessions,
        lambda: run(store, SweepSlots()),
        lambda: apply(store, SweepMemories()),
        lambda: store.scan("slots"),
    ):
        with pytest.raises(UnsupportedError, match="sees the apps that it names"):
            ask()
    store.close()


def rename(store: PostgresStore, app: str) -> None:
    """Rows of an app in each table: those of a filled store under its name."""
    clock = MovedClock()
    source = InProcessStore(clock)
    fill(source, clock)
    for table in TABLES.values():
        at = table.columns.index("app")
        rows = [(*row[:at], app, *row[at + 1 :]) for row in source.scan(table.name)]
        if table.name == "events":
            rows = [(int(row[0] or 0) + (1000 if app == "b" else 0), *row[1:]) for row in rows]
        store.put_rows(table.name, rows)
    memory = memory_of(f"words of {app}", Scope(app, user="u"))
    apply(store, AddMemory(memory, indexed_of(memory.memory_id, memory.text)))
    apply(store, QueueVectors(app, ("m_1",)))


def in_app_a(connection: psycopg.Connection[Any], statement: sql.Composed) -> psycopg.Cursor[Any]:
    with connection.transaction():
        connection.execute("SELECT set_config('offprompt.apps', '{a}', true)")
        return connection.execute(statement)


def test_raw_sql_of_a_confined_role_finds_nothing_of_another_app(walled: tuple[str, str]) -> None:
    owner_url, url = walled
    owner = PostgresStore(owner_url, clock=MovedClock(), vector_queue=True)
    for app in ("a", "b"):
        rename(owner, app)
    owner.close()
    base, _, options = url.partition("?")
    schema, role = (part.partition("=")[2] for part in options.split("&"))
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, false), set_config('role', %s, false)", (schema, role))
        assert set(OF_APPS) >= set(TABLES)
        for table in (sql.Identifier(name) for name in OF_APPS):
            ask = sql.SQL("SELECT app FROM {}").format(table)
            assert connection.execute(ask).fetchall() == []
            assert {row[0] for row in in_app_a(connection, ask)} == {"a"}
            assert in_app_a(connection, sql.SQL("DELETE FROM {} WHERE app = 'b'").format(table)).rowcount == 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                in_app_a(connection, sql.SQL("UPDATE {} SET app = 'b'").format(table))
            assert connection.execute(ask).fetchall() == []


def test_every_table_of_the_schema_has_the_wall_or_holds_nothing_of_apps(postgres_server: Server) -> None:
    with schema_url(postgres_server) as url:
        PostgresStore(url, clock=MovedClock()).close()
        schema = url.rpartition("=")[2]
        with psycopg.connect(postgres_url(postgres_server)) as connection:
            rows = connection.execute(
                "SELECT relname, relrowsecurity FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
                "WHERE nspname = %s AND relkind = 'r'",
                (schema,),
            ).fetchall()
    assert {name for name, has_wall in rows if not has_wall} == {"meta", "notes", "writers"}
    assert {name for name, has_wall in rows if has_wall} == set(OF_APPS)
