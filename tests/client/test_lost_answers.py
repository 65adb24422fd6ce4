"""A write whose answer got lost is made once, however often the client had to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import offprompt
from offprompt.client import _transport
from offprompt.service.bound import BoundScope
from tests.rest.running import Running, running


class LosesAnswers:
    """An application that does what it is asked, and whose connection breaks off in the answer as often as is set."""

    left = 0

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        loses = scope["type"] == "http" and scope["method"] != "GET" and LosesAnswers.left > 0

        async def some(message: Any) -> None:
            if message["type"] == "http.response.start":
                await send(message)

        LosesAnswers.left -= loses
        await self._app(scope, receive, some if loses else send)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(around=LosesAnswers, embedder="none") as own:
        yield own


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "WAITS_S", (0.0, 0.0))


def first(scope: BoundScope) -> str:
    return scope.memories.list(states=["live", "forgotten"]).memories[0].memory_id


WRITES: list[Callable[[BoundScope], Any]] = [
    lambda scope: scope.write("city", "Porto"),
    lambda scope: scope.write("city", "Porto", if_version=1),
    lambda scope: scope.forget("city"),
    lambda scope: scope.slots.erase("city"),
    lambda scope: scope.remember("I live in Ulm"),
    lambda scope: scope.memories.update(first(scope), text="我喜欢茶", if_version=1),
    lambda scope: scope.memories.forget(first(scope)),
    lambda scope: scope.forget(first(scope)),
    lambda scope: scope.clear(),
]


def done(scope: BoundScope) -> list[tuple[str, str, int]]:
    """What was done, as the events say it."""
    return [(one.op, one.outcome, one.version) for one in scope.events()]


@pytest.mark.parametrize("at", range(len(WRITES)))
def test_a_write_whose_answer_was_lost_is_made_once(server: Running, at: int) -> None:
    found: list[Any] = []
    with offprompt.open(server.url) as memory:
        for lost in (0, 2):
            scope = memory.scope(user=f"user{at}-{lost}")
            scope.write("city", "Ulm")
            scope.remember("I like tea", derive="none")
            LosesAnswers.left = lost
            WRITES[at](scope)
            assert LosesAnswers.left == 0
            found.append((done(scope), [slot.value for slot in scope.slots.list()], len(scope.memories.list())))
    assert found[0] == found[1]


def test_an_answer_that_is_lost_three_times_is_an_error_and_the_write_is_made_once(server: Running) -> None:
    with offprompt.open(server.url) as memory:
        scope = memory.scope(user="unlucky")
        LosesAnswers.left = 3
        with pytest.raises(offprompt.BackendError, match="broke off"):
            scope.write("city", "Ulm")
        slot = scope.slots.get("city")
        assert slot is not None
        assert slot.version == 1
