"""A memory has one face, whether it is in this process, in a file, or kept by a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import offprompt
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from offprompt.testing.suites import FaceSuite
from tests.client.awaited import awaited
from tests.rest.running import running


class TestInProcess(FaceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, clock: MovedClock) -> Iterator[Offprompt]:
        with offprompt.open(":memory:", clock=clock, embedder="none") as memory:
            yield memory


class TestSqlite(FaceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, clock: MovedClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offprompt]:
        folder: Path = tmp_path_factory.mktemp("face")
        with offprompt.open(folder / "agent.db", clock=clock, embedder="none") as memory:
            yield memory


class TestServer(FaceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, clock: MovedClock) -> Iterator[Offprompt]:
        with running(":memory:", clock=clock, embedder="none") as server, offprompt.open(server.url) as memory:
            yield memory


class TestServerOnSqlite(FaceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, clock: MovedClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offprompt]:
        file = tmp_path_factory.mktemp("face") / "agent.db"
        with running(str(file), clock=clock, embedder="none") as server, offprompt.open(server.url) as memory:
            yield memory


class TestAsyncClient(FaceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, clock: MovedClock) -> Iterator[Offprompt]:
        with running(":memory:", clock=clock, embedder="none") as server, awaited(server.url) as memory:
            yield memory

    def test_no_scope_is_an_error_and_never_a_wildcard(self, opened: Offprompt, here: Offprompt) -> None:
        del here  # in async code `scope` asks nothing: whose is missing is said when it is used
        with pytest.raises(offprompt.ScopeError, match="no scope"):
            opened.scope().read("city")
        with pytest.raises(offprompt.ScopeError):
            opened.scope(user="")
