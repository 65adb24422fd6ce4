"""Any run of calls over a server does what it does in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt.testing import MovedClock
from offprompt.testing.face_machine import FaceMachine
from offprompt.testing.machine import run_machine
from tests.rest.running import running


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_any_run_of_calls_is_as_in_process(store: str, tmp_path: Path) -> None:
    clock = MovedClock()
    url = ":memory:" if store == "memory" else str(tmp_path / "agent.db")
    with running(url, clock=clock, embedder="none") as server, offprompt.open(server.url) as memory:
        run_machine(lambda: FaceMachine(memory, clock), runs=6)  # pyright: ignore[reportArgumentType]


@pytest.mark.long
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_many_runs_of_calls_are_as_in_process(store: str, tmp_path: Path) -> None:
    clock = MovedClock()
    url = ":memory:" if store == "memory" else str(tmp_path / "agent.db")
    with running(url, clock=clock, embedder="none") as server, offprompt.open(server.url) as memory:
        run_machine(lambda: FaceMachine(memory, clock))  # pyright: ignore[reportArgumentType]
