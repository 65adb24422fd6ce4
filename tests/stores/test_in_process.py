"""The in-process engine keeps all its contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offprompt.protocols import MemoryStore, SessionStore, SlotStore
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from offprompt.testing.suites import MemoryStoreSuite, SessionStoreSuite, SlotStoreSuite, StoreSuite


@pytest.fixture
def store(clock: MovedClock) -> Iterator[InProcessStore]:
    store = InProcessStore(clock)
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


def test_it_is_all_its_roles() -> None:
    store = InProcessStore(MovedClock())
    assert isinstance(store, SlotStore)
    assert isinstance(store, MemoryStore)
    assert isinstance(store, SessionStore)
