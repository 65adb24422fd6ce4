"""One client in many threads, and one in many tasks: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import offprompt
from offprompt.client.scopes import AsyncBoundScope
from tests.rest.running import Running, running

WRITERS, TIMES = 6, 8


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("at-once")
    with running(":memory:" if request.param == "memory" else str(folder / "agent.db"), embedder="none") as own:
        yield own


def test_threads_that_count_together_miss_none(server: Running) -> None:
    with offprompt.open(server.url) as memory:
        scope = memory.scope(user="threads")
        scope.write("count", 0)

        def count(_: int) -> None:
            for _ in range(TIMES):
                while True:
                    slot = scope.slots.get("count")
                    assert slot is not None
                    assert isinstance(slot.value, int)
                    try:
                        scope.write("count", slot.value + 1, if_version=slot.version)
                        break
                    except offprompt.ConflictError:
                        continue

        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(count, range(WRITERS)))
        assert scope.read("count") == WRITERS * TIMES


def test_tasks_that_write_at_once_each_store_their_own(server: Running) -> None:
    async def write(scope: AsyncBoundScope, number: int) -> None:
        await scope.write(f"slot{number}", f"值{number}")
        await scope.remember(f"note {number}", derive="none")

    async def main() -> None:
        async with offprompt.AsyncClient(server.url) as client:
            scope = client.scope(user="tasks")
            await asyncio.gather(*(write(scope, number) for number in range(40)))
            assert await scope.slots.snapshot() == {f"slot{number}": f"值{number}" for number in range(40)}
            found = await scope.memories.list()
            assert {one.text for one in found} == {f"note {number}" for number in range(40)}

    asyncio.run(main())
