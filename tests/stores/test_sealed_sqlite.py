"""A SQLite store whose records are sealed keeps all the contracts of one whose are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offprompt.privacy.keyring import Keyring
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.suites import (
    MemoryStoreSuite,
    SessionStoreSuite,
    SlotStoreSuite,
    StoreSuite,
)

KEY = b"\x07" * 32


def sealed(store: SqliteStore, clock: MovedClock) -> SqliteStore:
    store.seal_with(Keyring(InProcessStore(clock), KEY, clock, create=True))
    return store


@pytest.fixture
def store(clock: MovedClock, tmp_path: Path) -> Iterator[SqliteStore]:
    store = sealed(SqliteStore(tmp_path / "agent.db", clock=clock), clock)
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
