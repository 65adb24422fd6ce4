"""Encryption at rest on PostgreSQL with Redis: what stands on the servers, in their dumps, and after an erasure."""

# ruff: noqa: S608 - the schema is this test's own

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import redis

import offprompt
from offprompt.bootstrap.encryption import begin
from offprompt.service import encryption
from offprompt.service.checkup import checkup
from offprompt.service.copying import Whole, copy
from tests.servers import Server, postgres_url, redis_url
from tests.service.encryption_kit import CANARIES, Place, fill, read, seen_in
from tests.stores.schemas import schema_url


@dataclass(frozen=True)
class Servers:
    """A place of its own on both, and the keyring in another schema."""

    memories: str
    slots: str
    ring: str

    @property
    def url(self) -> str:
        return f"memories={self.memories} slots={self.slots}"

    @contextmanager
    def tables(self) -> Generator[tuple[psycopg.Connection[Any], str, list[str]]]:
        base, _, schema = self.memories.partition("?schema=")
        with psycopg.connect(base, autocommit=True) as connection:
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
            yield connection, schema, [row[0] for row in rows]

    @contextmanager
    def keys(self) -> Generator[tuple[redis.Redis, list[bytes]]]:
        base, _, prefix = self.slots.partition("?prefix=")
        client = cast("Any", redis.Redis).from_url(base)
        yield client, list(client.scan_iter(f"{prefix}:*"))
        client.close()

    def dump(self) -> bytes:
        """Every row of every table, every value of every key."""
        found: list[bytes] = []
        with self.tables() as (connection, schema, names):
            for name in names:
                with connection.cursor().copy(f"COPY {schema}.{name} TO STDOUT") as out:  # type: ignore[arg-type]
                    found += [bytes(block) for block in out]
        with self.keys() as (client, keys):
            found += [key + cast("bytes", client.dump(key)) for key in keys]
            for key in keys:
                if client.type(key) == b"hash":
                    found += cast("dict[bytes, bytes]", client.hgetall(key)).values()
        return b"\n".join(found)


@pytest.fixture
def servers(postgres_server: Server, redis_server: Server) -> Generator[Servers]:
    prefix = f"{redis_url(redis_server)}?prefix=t{uuid.uuid4().hex[:12]}"
    assert postgres_url(postgres_server)
    with schema_url(postgres_server) as memories, schema_url(postgres_server) as ring:
        yield Servers(memories, prefix, ring)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_nothing_can_be_read_on_the_servers_and_what_is_copied_there_is_sealed(place: Place, servers: Servers) -> None:
    with place.open() as source:
        fill(source, "bob")
        with place.open(servers.url) as memory:
            copy(Whole.of(source.parts), Whole.of(memory.parts))
            assert read(memory, "bob") == set(CANARIES)
            fill(memory)
            assert read(memory) == set(CANARIES)
            memory.scope(user="ally").write("town", "Faro")
            memory.alias("alice", "ally")
            assert {"value", "older", "memory", "chinese", "tag"} <= read(memory, "ally")
    assert seen_in(servers.dump()) == []
    with servers.tables() as (connection, schema, _):
        assert connection.execute(f"SELECT count(*) FROM {schema}.memory_words").fetchone() == (0,)  # type: ignore[arg-type]
    with pytest.raises(offprompt.UsageError, match="is sealed by the keyring"):
        offprompt.open(servers.url)


def test_what_was_plain_on_the_servers_is_sealed(place: Place, servers: Servers, tmp_path: Path) -> None:
    with offprompt.open(servers.url, embedder="none") as memory:
        assert isinstance(memory, offprompt.Offprompt)
        fill(memory)
    assert set(seen_in(servers.dump())) == set(CANARIES)
    own = {**place.settings, "encryption_keyring": servers.ring}
    config = tmp_path / "offprompt.toml"
    config.write_text("\n".join(f'{name} = "{value}"' for name, value in own.items()))
    begin(servers.url, str(config))
    with place.open(servers.url, **own) as memory:
        assert read(memory) == set(CANARIES)
        memory.scope(user="alice").write("town", "Faro")
        done = encryption.seal_all(memory.parts)
        assert done.plain == done.sealed > 5
        assert read(memory) == set(CANARIES)
    assert seen_in(servers.dump()) == []
    with place.open(servers.url, **own) as memory:
        assert read(memory) == set(CANARIES)
        assert [one.state for one in checkup(memory.parts).findings if one.name == "encryption"] == ["ok"]


def test_older_copies_of_the_servers_hold_nothing_of_whom_was_erased(place: Place, servers: Servers) -> None:
    own = {**place.settings, "encryption_keyring": servers.ring}
    with place.open(servers.url, **own) as memory:
        for user in ("alice", "bob"):
            fill(memory, user)
    with servers.tables() as (connection, schema, names), servers.keys() as (client, keys):
        for name in names:
            connection.execute(f"CREATE TABLE {schema}.old_{name} AS SELECT * FROM {schema}.{name}")  # type: ignore[arg-type]
        dumped = {key: cast("bytes", client.dump(key)) for key in keys}
        with place.open(servers.url, **own) as memory:
            receipt = memory.erase(user="alice")
            found = {one.name: one for one in memory.verify_erased(receipt)}
            assert found["keyring"].state == "ok"
            assert read(memory, "bob") == set(CANARIES)
        for name in names:
            connection.execute(f"TRUNCATE {schema}.{name}")  # type: ignore[arg-type]
            connection.execute(f"INSERT INTO {schema}.{name} SELECT * FROM {schema}.old_{name}")  # type: ignore[arg-type]
            connection.execute(f"DROP TABLE {schema}.old_{name}")  # type: ignore[arg-type]
        for key, text in dumped.items():
            client.restore(key, 0, text, replace=True)
    with place.open(servers.url, **own) as memory:
        assert read(memory, "alice") == set()
        assert read(memory, "bob") == set(CANARIES)
        (dead,) = (one for one in checkup(memory.parts).findings if one.name == "erased")
        assert dead.state == "warn"
        fill(memory, "alice")
        assert read(memory, "alice") == set(CANARIES)
        assert checkup(memory.parts, fix=True).is_sound
        assert not [one for one in checkup(memory.parts).findings if one.name == "erased"]
        assert read(memory, "alice") == set(CANARIES)
