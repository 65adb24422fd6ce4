"""What session and slot tests share: an opened memory per engine, a moved clock, a talk per wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, cast

import pytest

import offprompt
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.session import Session
from offprompt.testing import MovedClock
from tests.service.provider import check
from tests.service.talk import MODELS, WIRES, Talk, Wire

NewTalk = Callable[..., Talk]


@pytest.fixture(autouse=True)
def strict_provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a session of a test prepares, the provider takes; but where a test is about what it refuses."""
    if request.node.get_closest_marker("illegal"):
        return
    prepare = Session.prepare

    @wraps(prepare)
    def checked(self: Session, messages: Sequence[Any], **options: Any) -> dict[str, Any]:
        made = prepare(self, messages, **options)
        check(made, self._model.shape.name)  # pyright: ignore[reportPrivateUsage]
        return made

    monkeypatch.setattr(Session, "prepare", checked)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(params=["memory", "sqlite"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with offprompt.open(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def alice(clock: MovedClock) -> Iterator[BoundScope]:
    with offprompt.open(":memory:", clock=clock) as opened:
        yield opened.scope(user="alice@example.com")


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return cast("Wire", request.param)


@pytest.fixture
def talk(alice: BoundScope, wire: Wire) -> NewTalk:
    """`talk("s1", policy=…)`: a new talk of Alice's in the test's wire."""

    def new(session_id: str = "s1", *, scope: BoundScope = alice, **options: Any) -> Talk:
        options = {"model": MODELS[wire], "wire": wire, **options}
        return Talk(scope.session(session_id, **options), wire)

    return new
