"""Redis and Valkey keep the contract of slots."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from offprompt.protocols import Portable, SlotStore
from offprompt.stores.redis import RedisStore
from offprompt.testing import MovedClock
from offprompt.testing.suites import SlotPortableSuite, SlotStoreSuite
from tests.servers import Server, redis_url


@pytest.fixture(params=["redis_server", "valkey_server"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the two."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def url(server: Server) -> str:
    """An own place on it."""
    return f"{redis_url(server)}?prefix=t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def store(clock: MovedClock, url: str) -> Iterator[RedisStore]:
    store = RedisStore(url, clock=clock)
    yield store
    store.close()


class TestSlots(SlotStoreSuite):
    """SlotStore."""


class TestRows(SlotPortableSuite):
    """Portable, of slots."""


def test_it_has_its_role(url: str) -> None:
    store = RedisStore(url, clock=MovedClock())
    assert isinstance(store, SlotStore)
    assert isinstance(store, Portable)
    store.close()
