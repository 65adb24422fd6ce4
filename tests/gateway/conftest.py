"""A gateway on loopback, between real clients and an upstream that refuses what providers refuse."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
import uvicorn

import offprompt
from offprompt.gateway.app import Gateway, GatewayOptions
from offprompt.gateway.upstream import Target, Upstreams
from offprompt.gateway.who import Who
from offprompt.records import Identity
from offprompt.service.offprompt import BoundScope, Offprompt
from offprompt.testing.upstream import Upstream
from tests.service.talk import WIRES, Wire


@dataclass(frozen=True)
class Running:
    """A gateway that runs. url: without a path."""

    url: str
    memory: Offprompt
    upstream: Upstream

    @property
    def alice(self) -> BoundScope:
        return self.memory.scope(user="alice")


class NewGateway(Protocol):
    def __call__(self, *replies: Mapping[str, Any], without_key: Identity | None = ..., **options: Any) -> Running: ...


def nobody(headers: Mapping[str, str]) -> Identity:
    raise offprompt.UnauthenticatedError(f"the key {headers['offprompt-key'][:6]!r}… is not known")


@contextlib.contextmanager
def served(app: Any) -> Generator[str]:
    """The application on a port of its own, in a thread; its URL."""
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none", server_header=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the gateway did not start")
            thread.join(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


ALICE = Identity(users=("alice",), default_user="alice")


@contextlib.contextmanager
def before(
    upstream: Upstream,
    *,
    without_key: Identity | None = ALICE,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Generator[Running]:
    """A gateway before this upstream, which runs meanwhile."""
    with offprompt.open(":memory:", **(settings or {})) as memory, upstream:
        app = Gateway(
            Who(memory, nobody, without_key), Upstreams([Target(upstream.url)]), GatewayOptions(**(options or {}))
        )
        with served(app) as url:
            yield Running(url, memory, upstream)


@pytest.fixture
def gateway() -> Generator[NewGateway]:
    with contextlib.ExitStack() as stack:

        def new(*replies: Mapping[str, Any], without_key: Identity | None = ALICE, **options: Any) -> Running:
            upstream = Upstream(scripted(replies))
            return stack.enter_context(before(upstream, without_key=without_key, options=options))

        yield new


def scripted(replies: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(reply) for reply in replies]


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return request.param
