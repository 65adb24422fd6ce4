"""A server that is slow, silent or away: an error that says so in the time allowed, and nothing lost or twice after."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offprompt.errors import BackendError
from tests.faults.deeds import Done, close, do, do_surely, look, opened
from tests.faults.places import SERVED, Place
from tests.faults.proxy import Proxy

ALLOWED_S = 0.5
FAULTS: dict[str, Callable[[Proxy], None]] = {
    "slower than allowed": lambda proxy: proxy.delay(4 * ALLOWED_S),
    "silent": Proxy.swallow,
    "away": Proxy.refuse,
}


def through(place: Place, proxies: dict[str, Proxy]) -> str:
    """The URL through the proxies."""
    return place.url(**{name: proxy.port for name, proxy in proxies.items()})


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("engine", SERVED)
def test_what_does_not_answer_in_time_is_an_error_that_says_so(
    place: Place, proxies: dict[str, Proxy], fault: str
) -> None:
    engines = opened(through(place, proxies), busy_timeout_s=ALLOWED_S)
    do(engines, "u", 0)
    for number, proxy in enumerate(proxies.values(), 1):
        FAULTS[fault](proxy)
        with pytest.raises(BackendError) as raised:
            do(engines, "u", number)
        assert f"127.0.0.1:{proxy.port}" in str(raised.value)
        proxy.mend()
        do_surely(engines, "u", number)
    close(engines)
    engines = opened(place.url())
    wanted = 1 + len(proxies)
    assert look(engines, "u") == Done(wanted, wanted, wanted)
    close(engines)


@pytest.mark.parametrize("engine", SERVED)
def test_a_server_that_is_slow_within_the_time_is_waited_for(place: Place, proxies: dict[str, Proxy]) -> None:
    engines = opened(through(place, proxies))
    for proxy in proxies.values():
        proxy.delay(0.01)
    for number in range(5):
        do(engines, "u", number, keyed=False)
    assert look(engines, "u") == Done(5, 5, 5)
    close(engines)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("engine", SERVED)
def test_a_store_that_cannot_be_reached_is_an_error_that_says_so(
    place: Place, proxies: dict[str, Proxy], fault: str
) -> None:
    for name, proxy in proxies.items():
        FAULTS[fault](proxy)
        with pytest.raises(BackendError, match=str(proxy.port)):
            opened(place.url(**{name: proxy.port}), busy_timeout_s=ALLOWED_S)


@pytest.mark.parametrize("engine", ["postgres"])
def test_a_silent_postgresql_is_not_asked_again_when_the_time_is_over(proxies: dict[str, Proxy], place: Place) -> None:
    (proxy,) = proxies.values()
    proxy.swallow()
    with pytest.raises(BackendError):
        opened(place.url(postgres=proxy.port), busy_timeout_s=ALLOWED_S)
    assert proxy.taken == 1
