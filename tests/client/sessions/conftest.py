"""Sessions of two servers on one store: what the tests of sessions here ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from offprompt.client.clients import Client
from offprompt.client.scopes import BoundScope
from offprompt.testing import MovedClock
from tests.client.alternating import Workers, workers
from tests.rest.running import running
from tests.service.talk import MODELS, WIRES, Talk, Wire


@pytest.fixture(scope="module")
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, clock: MovedClock) -> Iterator[Workers]:
    with workers(tmp_path_factory.mktemp("store") / "a.db", clock) as own:
        yield own


@pytest.fixture
def alice(servers: Workers) -> BoundScope:
    """A user whom no other test knows."""
    return servers.new_user()


@pytest.fixture
def mem() -> Iterator[Client]:
    """A memory of a test's own, behind one server."""
    with running() as server, Client(server.url) as opened:
        yield opened


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return cast("Wire", request.param)


@pytest.fixture
def talk(alice: BoundScope, wire: Wire) -> Any:
    """`talk("s1", policy=…)`: a new talk of Alice's in the test's wire."""

    def new(session_id: str = "s1", *, scope: Any = alice, **options: Any) -> Talk:
        return Talk(scope.session(session_id, **{"model": MODELS[wire], "wire": wire, **options}), wire)

    return new
