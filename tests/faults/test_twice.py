"""What is delivered twice, and clocks that are turned back: each deed is there once, in its place."""

from __future__ import annotations

import random
import threading

import pytest

from offprompt.protocols import apply, run
from offprompt.records import PutSlot, Scope, SweepMemories, SweepSlots
from offprompt.service.memory_kit import MemoryIds
from offprompt.testing import MovedClock
from tests.faults.deeds import Done, close, do, look, opened
from tests.faults.places import ENGINES, Place

WRITERS, DEEDS = 4, 12


@pytest.mark.parametrize("engine", ENGINES)
def test_a_deed_that_comes_again_changes_nothing(place: Place) -> None:
    engines = opened(place.url())
    for number in range(5):
        for _ in range(3):
            do(engines, "u", number)
        assert look(engines, "u") == Done(number + 1, number + 1, number + 1)
    close(engines)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_deed_that_comes_to_several_writers_at_once_is_done_once(place: Place) -> None:
    start, broke = threading.Barrier(WRITERS, timeout=60), list[BaseException]()

    def work() -> None:
        engines = opened(place.url())
        try:
            for number in range(DEEDS):
                start.wait()
                do(engines, "u", number)
        except BaseException as exc:  # noqa: BLE001 - told below
            broke.append(exc)
            start.abort()
        close(engines)

    threads = [threading.Thread(target=work) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broke == []
    engines = opened(place.url())
    assert look(engines, "u") == Done(DEEDS, DEEDS, DEEDS)
    close(engines)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_clock_that_is_turned_back_loses_nothing(place: Place) -> None:
    chance, clock = random.Random(9), MovedClock()  # noqa: S311 - how far, seeded
    engines = opened(place.url(), clock=clock)
    for number in range(20):
        clock.move(chance.choice([-86400.0, -3600.0, -0.001, 0.0, 1.0, 60.0]))
        do(engines, "u", number, keyed=number % 2 == 0)
        assert run(engines.slots, SweepSlots()) == 0
        assert apply(engines.main, SweepMemories()) == 0
    assert look(engines, "u") == Done(20, 20, 20)
    close(engines)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_life_ends_by_the_clock_wherever_that_is_turned(place: Place) -> None:
    clock, scope = MovedClock(), Scope(user="u")
    engines = opened(place.url(), clock=clock)
    run(engines.slots, PutSlot(scope, "短", 1, "by_handle", ttl_s=10.0))
    clock.move(-1000.0)
    assert run(engines.slots, SweepSlots()) == 0
    clock.move(1009.0)
    assert run(engines.slots, SweepSlots()) == 0
    clock.move(1.0)
    assert run(engines.slots, SweepSlots()) == 1
    close(engines)


def test_ids_of_memories_go_up_whatever_the_clock_does() -> None:
    ids, chance = MemoryIds(), random.Random(4)  # noqa: S311 - how far, seeded
    made = [ids.new(1.8e9 + chance.uniform(-1e5, 1e5)) for _ in range(1000)]
    assert made == sorted(set(made))
