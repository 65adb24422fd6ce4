"""Turns are read beside the conversation: when, how often, and what happens at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from offprompt.errors import BackendError
from offprompt.records import Cancel, Scope
from offprompt.service.extract_background import Background
from offprompt.service.extracting import Extracted
from offprompt.testing import MovedClock

ANN, BOB = Scope(user="ann"), Scope(user="bob")


class Runs:
    """Counts runs; `block` holds them up until they are called off."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.stopped, self.fails, self.block = "", False, False
        self.begun = threading.Event()

    def __call__(self, scope: Scope, cancel: Cancel) -> Extracted:
        self.scopes.append(scope)
        self.begun.set()
        if self.block:
            off = threading.Event()
            cancel.add(off.set)
            assert off.wait(20)
        if self.fails:
            raise BackendError("the store is away")
        return Extracted(scope, "fake", stopped=self.stopped)


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def background(runs: Runs, clock: MovedClock) -> Iterator[Background]:
    made = Background(runs, clock, turns=3, every_s=7200)
    yield made
    made.close()


def test_after_so_many_turns(background: Background, runs: Runs) -> None:
    background.said(ANN)
    background.said(ANN)
    background.said(BOB, 2)
    assert background.wait(20)
    assert runs.scopes == []
    background.said(ANN)
    assert background.wait(20)
    assert runs.scopes == [ANN]
    background.said(BOB, 5)
    assert background.wait(20)
    assert runs.scopes == [ANN, BOB]


def test_at_the_end_of_a_session(background: Background, runs: Runs) -> None:
    background.ended(ANN)
    background.said(ANN)
    background.ended(ANN)
    assert background.wait(20)
    assert runs.scopes == [ANN]


def test_after_a_time(background: Background, runs: Runs, clock: MovedClock) -> None:
    background.said(ANN)
    clock.move(7199)
    assert background.run_due() == []
    clock.move(1)
    # Whoever comes first, the thread or this one: it is read once.
    background.run_due()
    assert background.wait(20)
    assert runs.scopes == [ANN]


@pytest.mark.parametrize("how", ["stopped", "fails"])
def test_trouble_is_not_met_at_every_turn(background: Background, runs: Runs, clock: MovedClock, how: str) -> None:
    setattr(runs, how, "the endpoint is away" if how == "stopped" else True)
    background.said(ANN, 3)
    assert background.wait(20)
    background.said(ANN)
    assert background.wait(20)
    assert runs.scopes == [ANN]
    clock.move(7200)
    background.run_due()
    assert background.wait(20)
    assert runs.scopes == [ANN, ANN]


def test_the_end_breaks_off_what_is_read(background: Background, runs: Runs) -> None:
    runs.block = True
    background.said(ANN, 3)
    background.said(BOB, 3)
    assert runs.begun.wait(20)
    background.close()
    assert len(runs.scopes) == 1
    background.said(ANN, 9)
    assert len(runs.scopes) == 1
