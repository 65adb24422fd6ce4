"""Any run of steps does in every engine, closed and opened again now and then, what it does in process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from offprompt.stores.combined import CombinedSlots
from offprompt.stores.postgres import PostgresStore
from offprompt.stores.redis import RedisStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.machine import run_machine
from offprompt.testing.memory_machine import MemoryMachine
from offprompt.testing.session_machine import SessionMachine
from offprompt.testing.slot_machine import SlotMachine
from tests.servers import of_run, redis_url
from tests.stores.schemas import schema_url

Opener = Callable[[MovedClock], Any]
MACHINES = {"slots": SlotMachine, "memories": partial(MemoryMachine, queue=True), "sessions": SessionMachine}
RUNS = [
    *[(engine, role) for engine in ("sqlite", "postgres") for role in MACHINES],
    ("redis", "slots"),
    ("valkey", "slots"),
    ("combined", "slots"),
]


class Reopened:
    """A store that `again` closes and opens."""

    def __init__(self, open_: Opener) -> None:
        self.clock = MovedClock()
        self._open = open_
        self.store = open_(self.clock)

    def again(self) -> Any:
        self.store.close()
        self.store = self._open(self.clock)
        return self.store


@pytest.fixture
def sqlite(tmp_path: Path) -> Opener:
    return lambda clock: SqliteStore(tmp_path / "agent.db", clock=clock, vector_queue=True)


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[Opener]:
    with schema_url(of_run(request, "postgres")) as url:
        yield lambda clock: PostgresStore(url, clock=clock, vector_queue=True)


@pytest.fixture
def redis(request: pytest.FixtureRequest) -> Opener:
    return in_redis(request, "redis")


@pytest.fixture
def valkey(request: pytest.FixtureRequest) -> Opener:
    return in_redis(request, "valkey")


@pytest.fixture
def combined(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Slots in Redis, their events in SQLite."""
    slots = in_redis(request, "redis")
    return lambda clock: Both(slots(clock), SqliteStore(tmp_path / "agent.db", clock=clock))


class Both(CombinedSlots):
    """Closes both of its stores."""

    def __init__(self, slots: RedisStore, main: SqliteStore) -> None:
        super().__init__(slots, main)
        self._main = main

    def close(self) -> None:
        """See SlotStore."""
        super().close()
        self._main.close()


def in_redis(request: pytest.FixtureRequest, name: str) -> Opener:
    url = f"{redis_url(of_run(request, name))}?prefix=t{uuid.uuid4().hex[:12]}"
    return lambda clock: RedisStore(url, clock=clock)


@pytest.fixture
def reopened(request: pytest.FixtureRequest, engine: str) -> Iterator[Reopened]:
    """The engine, opened."""
    opened = Reopened(request.getfixturevalue(engine))
    yield opened
    opened.store.close()


def play(reopened: Reopened, role: str, runs: int) -> None:
    run_machine(lambda: MACHINES[role](reopened.store, reopened.clock, reopened.again), runs=runs)


@pytest.mark.parametrize(("engine", "role"), RUNS)
def test_any_run_of_steps_is_as_in_process(reopened: Reopened, role: str) -> None:
    play(reopened, role, 40)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("engine", "role"), RUNS)
def test_thousands_of_runs_are_as_in_process(reopened: Reopened, role: str) -> None:
    play(reopened, role, 1000)
