"""The SQLite engine keeps all its contracts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offprompt.protocols import Maintainable, MemoryStore, SessionStore, SlotStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.suites import (
    MemoryStoreSuite,
    SessionStoreSuite,
    SlotStoreSuite,
    StoreSuite,
    VectorQueueSuite,
)


@pytest.fixture
def store(clock: MovedClock, tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "数据" / "agent.db", clock=clock)
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


class TestQueue(VectorQueueSuite):
    """What waits for a vector index."""

    @pytest.fixture
    def store(self, clock: MovedClock, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "agent.db", clock=clock, vector_queue=True)
        yield store
        store.close()


def test_it_is_all_its_roles(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db", clock=MovedClock())
    assert isinstance(store, SlotStore)
    assert isinstance(store, MemoryStore)
    assert isinstance(store, SessionStore)
    assert isinstance(store, Maintainable)
    store.close()
