"""The in-process engine keeps all its contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offprompt.protocols import MemoryStore, SessionStore, SlotStore
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from offprompt.testing.exact_words import ExactWords
from offprompt.testing.suites import (
    MemoryStoreSuite,
    SessionStoreSuite,
    SlotStoreSuite,
    StoreSuite,
    VectorQueueSuite,
    WordIndexSuite,
)


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


class TestQueue(VectorQueueSuite):
    """What waits for a vector index."""

    @pytest.fixture
    def store(self, clock: MovedClock) -> InProcessStore:
        return InProcessStore(clock, vector_queue=True)


class TestWords(WordIndexSuite):
    """The word index that others are tested against."""

    @pytest.fixture
    def store(self, clock: MovedClock) -> ExactWords:
        return ExactWords(InProcessStore(clock))


def test_it_is_all_its_roles() -> None:
    store = InProcessStore(MovedClock())
    assert isinstance(store, SlotStore)
    assert isinstance(store, MemoryStore)
    assert isinstance(store, SessionStore)
