"""An opened memory, and those who ask in mem0's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import offprompt
from offprompt.compat.mem0.reach import Reach
from offprompt.compat.mem0.records import Records
from offprompt.records import Identity, Role
from offprompt.service.offprompt import Offprompt
from offprompt.testing.clock import MovedClock

NOON = 1_780_000_000.0
"""2026-05-28 20:26 UTC."""


@pytest.fixture
def clock() -> MovedClock:
    """A clock that tests move."""
    return MovedClock(NOON)


@pytest.fixture
def memory(clock: MovedClock) -> Iterator[Offprompt]:
    """A memory of this process."""
    with offprompt.open(":memory:", clock=clock) as opened:
        yield opened


@pytest.fixture
def asking(memory: Offprompt) -> Callable[..., Reach]:
    """Makes somebody who asks: with these users, agents and roles."""

    def make(
        *roles: Role, app: str = "default", users: tuple[str, ...] | None = None, agents: tuple[str, ...] | None = None
    ) -> Reach:
        return Reach(memory, Identity(app, users, agents, frozenset(roles or ("read", "write", "admin"))))

    return make


@pytest.fixture
def records(asking: Callable[..., Reach]) -> Records:
    """The memories for somebody who may all."""
    return Records(asking())
