"""Connections that break in the middle of a transaction and around its end: each deed is done, and done once.

The deeds have no keys: a server that can be reached again is asked what became of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.faults.deeds import Done, close, do, look, opened, touch, uses
from tests.faults.places import SERVED, Place
from tests.faults.proxy import SIDES, Proxy, Side


def cut_places(proxy: Proxy, side: Side, passed: int, wanted: int) -> Iterator[int]:
    """So many counts of bytes, spread over those of one deed and a little beyond."""
    whole = proxy.passed[side] - passed
    step = max(1, whole * 11 // 10 // wanted)
    yield from range(0, wanted * step, step)


def play(place: Place, proxies: dict[str, Proxy], wanted: int, seed: int) -> None:
    """Cut each connection after so many bytes of a deed, for as many places as wanted, from both sides."""
    chance = random.Random(seed)  # noqa: S311 - where to cut, seeded
    ports = {name: proxy.port for name, proxy in proxies.items()}
    engines = opened(place.url(**ports))
    number = 0
    for proxy in proxies.values():
        for side in SIDES:
            for _ in range(8):  # until statements are prepared
                do(engines, "u", number, keyed=False)
                number += 1
            passed = proxy.passed[side]
            do(engines, "u", number, keyed=False)
            number += 1
            for count in cut_places(proxy, side, passed, wanted):
                proxy.cut_after(count + chance.randrange(3), side)
                do(engines, "u", number, keyed=False)
                touch(engines, "u")
                number += 1
            proxy.mend()
        assert proxy.cuts >= wanted
    close(engines)
    engines = opened(place.url())
    assert uses(engines, "u") == (2 * wanted * len(proxies),) * 2, seed
    assert look(engines, "u") == Done(number, number, number), (seed, number)
    close(engines)


@pytest.mark.parametrize("engine", SERVED)
def test_a_deed_cut_in_80_places_is_done_once(place: Place, proxies: dict[str, Proxy]) -> None:
    play(place, proxies, 40, seed=3)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", SERVED)
def test_a_deed_cut_in_1000_places_is_done_once(place: Place, proxies: dict[str, Proxy]) -> None:
    play(place, proxies, 500, seed=17)
