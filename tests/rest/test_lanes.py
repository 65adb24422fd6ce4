"""Where requests are worked on: here, in a thread, or with others in one commit."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from offprompt.errors import ConflictError
from offprompt.rest.lanes import MOST, Lanes
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import get, put, value_of


class Counted(SqliteStore):
    """Counts what it stores together."""

    commits = 0

    @contextmanager
    def together(self) -> Generator[None]:
        self.commits += 1
        with super().together():
            yield


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Counted]:
    store = Counted(tmp_path / "agent.db", clock=MovedClock())
    yield store
    store.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4, "worker") as threads:
        yield threads


def here() -> str:
    return threading.current_thread().name.partition("_")[0]


def test_a_read_runs_where_it_is_asked_and_what_writes_gets_a_thread(
    store: Counted, threads: ThreadPoolExecutor
) -> None:
    lanes = Lanes(store, threads)

    def surprising() -> tuple[str, int]:
        begun.append(here())
        return here(), put(store, "a", 1).version

    begun: list[str] = []
    assert asyncio.run(lanes.read(lambda: (here(), value_of(store, "a")))) == ("MainThread", ...)
    assert asyncio.run(lanes.read(surprising)) == ("worker", 1)
    assert begun == ["MainThread", "worker"]
    assert asyncio.run(Lanes(None, threads).read(here)) == "worker"


def test_changes_that_come_together_share_a_commit(store: Counted, threads: ThreadPoolExecutor) -> None:
    lanes = Lanes(store, threads)

    def change(number: int) -> Callable[[], int]:
        def work() -> int:
            if number % 10 == 3:
                raise ConflictError("this one alone")
            return put(store, "n", number, if_version=None).version

        return work

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(lanes.changed(change(number)) for number in range(200)), return_exceptions=True)

    found = asyncio.run(all_of_them())
    assert [type(one) for one in found[:4]] == [int, int, int, ConflictError]
    assert [one for one in found if isinstance(one, int)] == list(range(1, 181))
    assert 200 / MOST <= store.commits < 60
    assert len(store.events(op="slot.write", limit=1000)) == 180


def test_who_left_is_not_waited_for_and_its_change_is_made(store: Counted, threads: ThreadPoolExecutor) -> None:
    lanes, inside, gate = Lanes(store, threads), threading.Event(), threading.Event()

    def slow() -> None:
        inside.set()
        assert gate.wait(30)

    async def leave() -> int:
        first = asyncio.create_task(lanes.changed(slow))
        await asyncio.to_thread(inside.wait, 30)
        left = asyncio.create_task(lanes.changed(lambda: put(store, "left", 1)))
        stays = asyncio.create_task(lanes.changed(lambda: put(store, "stays", 1).version))
        await asyncio.sleep(0)
        left.cancel()
        gate.set()
        await first
        return await stays

    assert asyncio.run(leave()) == 1
    assert get(store, "left") is not None


def test_work_sees_what_its_request_is_about(store: Counted, threads: ThreadPoolExecutor) -> None:
    about: contextvars.ContextVar[str] = contextvars.ContextVar("about", default="nothing")

    async def request(what: str) -> list[str]:
        about.set(what)
        lanes = Lanes(store, threads)
        return [await run(about.get) for run in (lanes.read, lanes.changed, lanes.waited)]

    assert asyncio.run(request("trace")) == ["trace"] * 3
