"""Where the engines are that faults come over."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import servers
from tests.faults.places import TEMPLATES, Place, drop
from tests.faults.proxy import Proxy


@pytest.fixture
def place(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> Iterator[Place]:
    """An own place on the servers of the run."""
    name = f"t_{uuid.uuid4().hex[:16]}"
    template, needed = TEMPLATES[engine]
    ports = {server: servers.of_run(request, server).port for server in needed}
    made = Place(template, ports, tmp_path, name)
    yield made
    drop(made)


@pytest.fixture
def proxies(place: Place) -> Iterator[dict[str, Proxy]]:
    """One before each server."""
    with ExitStack() as stack:
        made = {name: Proxy(port) for name, port in place.ports.items()}
        for proxy in made.values():
            stack.callback(proxy.close)
        yield made
