"""A session is worked on by one call at a time, of whatever process."""

from __future__ import annotations

import pytest

from offprompt.errors import BackendError, ConflictError
from offprompt.records import Scope
from offprompt.service.session_lock import LEASE_S, SessionLock
from offprompt.stores.coordination import NotedCoordinator
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock

SCOPE = Scope(user="u", session="会话")


def test_a_second_call_is_refused_at_once_whoever_it_is() -> None:
    clock = MovedClock()
    store = InProcessStore(clock)
    one, other = (SessionLock(SCOPE, NotedCoordinator(store, clock)) for _ in range(2))
    apart = SessionLock(Scope(user="v", session="会话"), NotedCoordinator(store, clock))
    for again in (one, other):
        with one.held(), apart.held(), pytest.raises(ConflictError, match="another call works on session '会话'"):
            again.held().__enter__()
    with other.held():
        pass


def test_a_killed_process_lets_others_in_when_its_lease_is_over() -> None:
    clock = MovedClock()
    store = InProcessStore(clock)
    killed = SessionLock(SCOPE, NotedCoordinator(store, clock)).held()
    killed.__enter__()
    lock = SessionLock(SCOPE, NotedCoordinator(store, clock))
    clock.move(LEASE_S - 1)
    with pytest.raises(ConflictError):
        lock.held().__enter__()
    clock.move(1)
    with lock.held():
        pass


class Failing(NotedCoordinator):
    """Its engine is away."""

    def lease(self, key: str, holder: str, *, seconds: float) -> int | None:  # noqa: ARG002 - it never gets there
        raise BackendError("away")


def test_the_session_goes_on_while_the_coordinator_is_away() -> None:
    clock = MovedClock()
    with SessionLock(SCOPE, Failing(InProcessStore(clock), clock)).held():
        pass
