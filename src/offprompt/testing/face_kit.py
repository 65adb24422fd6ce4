"""What the suites of the face share: an opened memory, a scope of the test's own, and what it is compared to."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import offprompt
from offprompt.errors import OffpromptError
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing.clock import MovedClock

DAY = 86400.0


class FaceKit:
    """The root of the suites of the face.

    opened   a fixture of yours: the memory under test, which runs by the `clock` fixture, without an embedder. Many
             tests may share one: each takes users of its own.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def clock(cls) -> MovedClock:
        """The clock that the memory under test runs by."""
        return MovedClock()

    @pytest.fixture
    def alice(self, opened: Offprompt) -> BoundScope:
        """The scope of a user that no other test has."""
        return opened.scope(user=unique("alice"))

    @pytest.fixture
    def here(self, clock: MovedClock) -> Iterator[Offprompt]:
        """A memory in this process, which says how everything is to be."""
        with offprompt.open(":memory:", clock=clock, embedder="none") as memory:
            yield memory


def unique(name: str) -> str:
    """An id that nobody else has."""
    return f"{name}-{uuid.uuid4().hex[:12]}@example.com"


def told(call: Callable[[], Any]) -> tuple[str, str]:
    """What a call that fails is told: the error's class and sentence; empty if it does not fail."""
    try:
        call()
    except OffpromptError as exc:
        return type(exc).__name__, str(exc)
    return "", ""
