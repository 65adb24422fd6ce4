"""An index whose connections break, or that is silent, while memories change: writes go on, and it is told all."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import offprompt
from offprompt.service.checkup import checkup
from offprompt.service.offprompt import Offprompt
from offprompt.service.vector_check import compare, tell_all
from offprompt.service.vector_link import REST_S
from offprompt.testing import MovedClock
from tests import servers
from tests.faults.proxy import SIDES, Proxy


@pytest.fixture
def proxy(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    made = Proxy(servers.of_run(request, "chroma").port)
    yield made
    made.close()


def open_it(folder: Path, proxy: Proxy, name: str, clock: MovedClock) -> Offprompt:
    vectors = f"chroma://127.0.0.1:{proxy.port}?collection={name}&timeout_s=1"
    return offprompt.open(f"memories={folder}/agent.db vectors={vectors}", clock=clock)


def change(memory: Offprompt, number: int) -> None:
    """Memories of one user come, change and go."""
    memories = memory.scope(user="a").memories
    (done,) = memories.remember(f"note {number} of the boat, 第 {number} 号", derive="none")
    if number % 3 == 1:
        memories.update(done.name, text=f"note {number} of the ship")
    if number % 5 == 2:
        memories.forget(done.name)
    if number % 7 == 6:
        memories.erase(done.name)


def play(folder: Path, proxy: Proxy, rounds: int, seed: int) -> None:
    chance, name = random.Random(seed), f"k{uuid.uuid4().hex}"  # noqa: S311 - where to cut, seeded
    clock = MovedClock()
    memory, number = open_it(folder, proxy, name, clock), 1
    change(memory, 0)
    before = dict(proxy.passed)
    change(memory, number)
    one = {side: proxy.passed[side] - before[side] for side in before}
    for _ in range(rounds):
        side = chance.choice(SIDES)
        proxy.cut_after(chance.randrange(one[side]), side)
        if chance.random() < 0.2:
            proxy.refuse()
        number += 1
        change(memory, number)
        proxy.mend()
        clock.move(REST_S + 1)
        if chance.random() < 0.3:
            memory.close()
            memory = open_it(folder, proxy, name, clock)
    memory.close()
    with open_it(folder, proxy, name, clock) as again:
        link = again.parts.memories.kit.vectors
        assert link is not None
        tell_all(link)
        found = compare(link, again.parts.memories.store)
        assert (found.missing, found.other, found.extra) == (0, 0, 0), seed
        wanted = sum(at % 5 != 2 and at % 7 != 6 for at in range(number + 1))
        assert found.entries == wanted == len(again.scope(user="a").memories.list(limit=100_000))
        assert checkup(again.parts).is_sound
    assert proxy.cuts > rounds / 4


def test_an_index_whose_connections_broke_20_times_is_in_step(tmp_path: Path, proxy: Proxy) -> None:
    play(tmp_path, proxy, 20, seed=2)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_an_index_whose_connections_broke_400_times_is_in_step(tmp_path: Path, proxy: Proxy) -> None:
    play(tmp_path, proxy, 400, seed=12)
