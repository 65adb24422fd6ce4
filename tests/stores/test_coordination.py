"""Every means of coordination keeps the contract."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from offprompt.protocols import Coordinator
from offprompt.stores.coordination import SWEEP_EVERY, SWEPT, NotedCoordinator
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.postgres import PostgresStore
from offprompt.stores.redis import RedisStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.suites import CoordinatorSuite
from tests.servers import redis_url
from tests.stores.schemas import schema_url

ENGINES = ("in-process", "sqlite", "postgres_server", "redis_server", "valkey_server")


@pytest.fixture(params=ENGINES)
def coordinator(request: pytest.FixtureRequest, clock: MovedClock, tmp_path: Path) -> Iterator[Coordinator]:
    if request.param == "in-process":
        yield NotedCoordinator(InProcessStore(clock), clock)
        return
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "agent.db", clock=clock)
        yield NotedCoordinator(store, clock)
        store.close()
        return
    if request.param == "postgres_server":
        with schema_url(request.getfixturevalue("postgres_server")) as place:
            postgres = PostgresStore(place, clock=clock)
            yield NotedCoordinator(postgres, clock)
            postgres.close()
        return
    url = f"{redis_url(request.getfixturevalue(request.param))}?prefix=k{uuid.uuid4().hex[:12]}"
    redis = RedisStore(url, clock=clock)
    yield redis.coordinator()
    redis.close()


class TestCoordination(CoordinatorSuite):
    """Coordinator."""


def test_it_has_its_role() -> None:
    clock = MovedClock()
    assert isinstance(NotedCoordinator(InProcessStore(clock), clock), Coordinator)


def test_what_was_done_long_ago_is_forgotten_a_few_at_a_time() -> None:
    clock = MovedClock()
    store = InProcessStore(clock)
    coordinator = NotedCoordinator(store, clock)
    coordinator.take("rate", limit=1, per_s=1)
    for number in range(2 * SWEPT):
        assert coordinator.once(f"old {number}", "d", seconds=30) is None
        coordinator.finish(f"old {number}", "d", "done", ttl_s=600)
    clock.move(601)
    for number in range(3 * SWEEP_EVERY):
        assert coordinator.once(f"new {number}", "d", seconds=30) is None
    assert {name.partition(" ")[0] for name, _ in store.notes("")} == {"once:new", "rate:rate"}
