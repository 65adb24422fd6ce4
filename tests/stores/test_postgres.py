"""The PostgreSQL engine keeps all its contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offprompt.protocols import Checkable, MemoryStore, Notes, Portable, SessionStore, SlotStore, WordIndex
from offprompt.stores.postgres import PostgresStore
from offprompt.testing import MovedClock
from offprompt.testing.suites import (
    MemoryStoreSuite,
    SessionStoreSuite,
    SlotStoreSuite,
    StoreSuite,
    VectorQueueSuite,
    WordIndexSuite,
)
from tests.servers import Server
from tests.stores.schemas import schema_url


@pytest.fixture
def store(clock: MovedClock, postgres_server: Server) -> Iterator[PostgresStore]:
    with schema_url(postgres_server) as url:
        store = PostgresStore(url, clock=clock)
        yield store
        store.close()


class TestSlots(SlotStoreSuite):
    """SlotStore."""


class TestMemories(MemoryStoreSuite):
    """MemoryStore."""


class TestSessions(SessionStoreSuite):
    """SessionStore."""


class TestWhole(StoreSuite):
    """Portable and Notes."""


class TestWords(WordIndexSuite):
    """WordIndex."""


class TestQueue(VectorQueueSuite):
    """What waits for a vector index outside."""

    @pytest.fixture
    def store(self, clock: MovedClock, postgres_server: Server) -> Iterator[PostgresStore]:
        with schema_url(postgres_server) as url:
            store = PostgresStore(url, clock=clock, vector_queue=True)
            yield store
            store.close()


def test_it_is_all_its_roles(postgres_server: Server) -> None:
    with schema_url(postgres_server) as url:
        store = PostgresStore(url, clock=MovedClock())
        for role in (SlotStore, MemoryStore, SessionStore, Portable, Notes, Checkable, WordIndex):
            assert isinstance(store, role)
        store.close()
