"""PostgreSQL and Redis with sealed records keep all the contracts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TypeVar

import pytest

from offprompt.privacy.keyring import Keyring
from offprompt.protocols.sealing import Sealable
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.postgres import PostgresStore
from offprompt.stores.redis import RedisStore
from offprompt.testing import MovedClock
from offprompt.testing.suites import (
    MemoryStoreSuite,
    SessionStoreSuite,
    SlotPortableSuite,
    SlotStoreSuite,
    StoreSuite,
)
from tests.servers import Server, redis_url
from tests.stores.schemas import schema_url

S = TypeVar("S", bound=Sealable)


def sealed(store: S, clock: MovedClock) -> S:
    store.seal_with(Keyring(InProcessStore(clock), b"\x07" * 32, clock, create=True))
    return store


@pytest.fixture
def postgres(clock: MovedClock, postgres_server: Server) -> Iterator[PostgresStore]:
    with schema_url(postgres_server) as url:
        store = sealed(PostgresStore(url, clock=clock), clock)
        yield store
        store.close()


@pytest.fixture
def redis(clock: MovedClock, redis_server: Server) -> Iterator[RedisStore]:
    store = sealed(RedisStore(f"{redis_url(redis_server)}?prefix=t{uuid.uuid4().hex[:12]}", clock=clock), clock)
    yield store
    store.close()


class OnPostgres:
    """On PostgreSQL."""

    @pytest.fixture
    def store(self, postgres: PostgresStore) -> PostgresStore:
        return postgres


class OnRedis:
    """On Redis."""

    @pytest.fixture
    def store(self, redis: RedisStore) -> RedisStore:
        return redis


@pytest.mark.long
class TestPostgresSlots(OnPostgres, SlotStoreSuite):
    """SlotStore."""


class TestPostgresMemories(OnPostgres, MemoryStoreSuite):
    """MemoryStore."""


@pytest.mark.long
class TestPostgresSessions(OnPostgres, SessionStoreSuite):
    """SessionStore."""


class TestPostgresWhole(OnPostgres, StoreSuite):
    """Portable and Notes."""


class TestRedisSlots(OnRedis, SlotStoreSuite):
    """SlotStore."""


class TestRedisRows(OnRedis, SlotPortableSuite):
    """Portable, of slots."""
