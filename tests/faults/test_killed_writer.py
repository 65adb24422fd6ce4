"""`kill -9` of a writer at random points: nothing acknowledged is lost, nothing is there twice, the store is sound."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.faults.deeds import close, look, opened
from tests.faults.places import ENGINES, Place, drop


def write_and_kill(url: str, user: str, lines: int, spin: int) -> int:
    """How many deeds a writer acknowledged before it was killed, some instructions after `lines` of them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.writer", url, user], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "opens\n"
    said = [process.stdout.readline() for _ in range(lines)]
    sum(range(spin))
    process.kill()
    said += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    acknowledged = [int(line) for line in said if line.endswith("\n")]
    assert acknowledged == list(range(len(acknowledged)))
    return len(acknowledged)


def play(place: Place, rounds: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - when to kill, seeded
    engines = opened(place.url())
    for number in range(rounds):
        user = f"u{number}"
        acknowledged = write_and_kill(place.url(), user, chance.randrange(0, 20), chance.randrange(0, 200_000))
        done = look(engines, user)
        assert done.holds(acknowledged), (seed, number, acknowledged, done)
    close(engines)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_acknowledged_is_lost_in_10_kills(place: Place) -> None:
    play(place, 10, seed=7)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_kill_while_the_store_is_made_leaves_one_that_can_be_opened(place: Place) -> None:
    chance = random.Random(3)  # noqa: S311 - when to kill, seeded
    for number in range(4):
        own = replace(place, folder=place.folder / str(number), name=f"{place.name}_{number}")
        acknowledged = write_and_kill(own.url(), "u", 0, chance.randrange(0, 1_000_000))
        engines = opened(own.url())
        done = look(engines, "u")
        assert done.holds(acknowledged), (number, acknowledged, done)
        close(engines)
        drop(own)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_acknowledged_is_lost_in_100_kills(place: Place) -> None:
    play(place, 100, seed=11)
