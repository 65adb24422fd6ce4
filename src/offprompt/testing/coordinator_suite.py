"""Conformance: what processes agree on."""

# ruff: noqa: D102, S101 - tests: their names are their docstrings, and they assert

from __future__ import annotations

import threading

import pytest

from offprompt.errors import ConflictError
from offprompt.protocols import Coordinator
from offprompt.testing.clock import MovedClock
from offprompt.testing.kit import Suite

KEY = "k 键/{1}"


class CoordinatorSuite(Suite):
    """All that `protocols.Coordinator` promises; give it a `coordinator` fixture that takes the `clock` fixture."""

    def test_so_many_at_once_and_so_many_a_second(self, coordinator: Coordinator, clock: MovedClock) -> None:
        def take() -> float:
            return coordinator.take(KEY, limit=3, per_s=0.5)

        assert [take(), take(), take()] == [0.0, 0.0, 0.0]
        assert [take(), take()] == pytest.approx([2.0, 2.0])
        clock.move(1)
        assert take() == pytest.approx(1.0)
        clock.move(1)
        assert (take(), take()) == (0.0, pytest.approx(2.0))
        clock.move(3600)
        assert [take() for _ in range(4)] == [0.0, 0.0, 0.0, pytest.approx(2.0)]
        assert coordinator.take("another", limit=1, per_s=1) == 0.0

    def test_a_clock_that_steps_back_makes_nobody_wait_long(self, coordinator: Coordinator, clock: MovedClock) -> None:
        assert coordinator.take(KEY, limit=2, per_s=1) == 0.0
        clock.move(-86400)
        assert coordinator.take(KEY, limit=2, per_s=1) <= 1.0
        clock.move(1)
        assert coordinator.take(KEY, limit=2, per_s=1) == 0.0

    def test_what_is_asked_for_twice_is_done_once(self, coordinator: Coordinator, clock: MovedClock) -> None:
        assert coordinator.once(KEY, "d", seconds=30) is None
        with pytest.raises(ConflictError, match="being done by another call"):
            coordinator.once(KEY, "d", seconds=30)
        coordinator.finish(KEY, "d", "结果", ttl_s=600)
        assert coordinator.once(KEY, "d", seconds=30) == "结果"
        with pytest.raises(ConflictError, match="something else"):
            coordinator.once(KEY, "other", seconds=30)
        coordinator.finish(KEY, "other", "x", ttl_s=600)
        coordinator.finish(KEY, "d", "x", ttl_s=600)
        clock.move(599)
        assert coordinator.once(KEY, "d", seconds=30) == "结果"
        clock.move(1)
        assert coordinator.once(KEY, "other", seconds=30) is None

    def test_work_that_was_given_up_may_be_begun_anew(self, coordinator: Coordinator, clock: MovedClock) -> None:
        assert coordinator.once(KEY, "d", seconds=30) is None
        coordinator.finish(KEY, "d", None, ttl_s=600)
        assert coordinator.once(KEY, "d", seconds=30) is None
        clock.move(30)
        assert coordinator.once(KEY, "d", seconds=30) is None
        coordinator.finish(KEY, "d", "", ttl_s=600)
        assert coordinator.once(KEY, "d", seconds=30) == ""

    def test_a_lease_is_one_holders_until_it_ends(self, coordinator: Coordinator, clock: MovedClock) -> None:
        first = coordinator.lease(KEY, "a", seconds=30)
        assert first is not None
        assert coordinator.lease(KEY, "b", seconds=30) is None
        clock.move(29)
        assert coordinator.lease(KEY, "a", seconds=30) == first
        clock.move(29)
        assert coordinator.lease(KEY, "b", seconds=30) is None
        clock.move(1)
        second = coordinator.lease(KEY, "b", seconds=30)
        assert second is not None
        assert second > first
        assert coordinator.lease(KEY, "a", seconds=30) is None
        coordinator.release(KEY, "a")
        assert coordinator.lease(KEY, "a", seconds=30) is None
        coordinator.release(KEY, "b")
        third = coordinator.lease(KEY, "a", seconds=30)
        assert third is not None
        assert third > second
        assert coordinator.lease("another", "b", seconds=30) is not None

    def test_the_kinds_of_keys_do_not_meet(self, coordinator: Coordinator) -> None:
        assert coordinator.take(KEY, limit=1, per_s=1) == 0.0
        assert coordinator.once(KEY, "d", seconds=30) is None
        assert coordinator.lease(KEY, "a", seconds=30) is not None

    def test_of_many_at_once_as_many_get_through_as_may(self, coordinator: Coordinator) -> None:
        taken: list[float] = []
        held: list[int | None] = []
        begun: list[str | None] = []
        start = threading.Barrier(6)

        def work(number: int) -> None:
            start.wait()
            taken.extend(coordinator.take(KEY, limit=4, per_s=1) for _ in range(3))
            held.append(coordinator.lease(KEY, str(number), seconds=30))
            try:
                begun.append(coordinator.once(KEY, "d", seconds=30))
            except ConflictError:
                return

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert taken.count(0.0) == 4
        assert len(held) - held.count(None) == 1
        assert begun == [None]
