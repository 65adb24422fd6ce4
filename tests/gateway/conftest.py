"""A gateway on loopback, between real clients and an upstream that refuses what providers refuse."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pytest
import uvicorn

import offprompt
from offprompt.gateway.app import Gateway, GatewayOptions
from offprompt.gateway.upstream import Target, Upstreams
from offprompt.gateway.who import Who
from offprompt.records import Identity
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing.upstream import Upstream
from offprompt.wire.shapes import REASONING
from tests.service.talk import WIRES, Wire


@dataclass(frozen=True)
class Running:
    """A gateway that runs. url: without a path. thinks: see the fixture."""

    url: str
    memory: Offprompt
    upstream: Upstream
    thinks: bool = False

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
def before(upstream: Upstream, **given: Any) -> Generator[Running]:
    """A gateway before this upstream, which runs meanwhile. given: see `worker`."""
    with upstream, worker(upstream, **given) as running:
        yield running


@contextlib.contextmanager
def worker(
    upstream: Upstream,
    *,
    without_key: Identity | None = ALICE,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    store: str | Path = ":memory:",
) -> Generator[Running]:
    """One gateway of several that may stand before an upstream, with a store of its own or one that they share."""
    with offprompt.open(store, **(settings or {})) as memory:
        app = Gateway(
            Who(memory, nobody, without_key), Upstreams([Target(upstream.url)]), GatewayOptions(**(options or {}))
        )
        with served(app) as url:
            yield Running(url, memory, upstream)


@pytest.fixture
def thinks() -> bool:
    """Whether the model thinks before each reply, and its provider verifies what comes back of that. A module that is
    also to run so overrides it with the parameters `ALSO_THINKING`.
    """
    return False


ALSO_THINKING = [False, pytest.param(True, marks=pytest.mark.long)]


@pytest.fixture
def gateway(thinks: bool) -> Generator[NewGateway]:
    with contextlib.ExitStack() as stack:

        def new(*replies: Mapping[str, Any], without_key: Identity | None = ALICE, **options: Any) -> Running:
            given = [thoughtful(reply, at) if thinks else dict(reply) for at, reply in enumerate(replies)]
            upstream = Upstream(given, binding=thinks)
            running = stack.enter_context(before(upstream, without_key=without_key, options=options))
            return replace(running, thinks=thinks)

        yield new


THOUGHT = "Hm, let me see."


def thoughtful(reply: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The reply with a thought before it."""
    if "choices" in reply:
        return {
            **reply,
            "choices": [{**each, "message": {**each["message"], REASONING: THOUGHT}} for each in reply["choices"]],
        }
    if "content" in reply:
        return {**reply, "content": [{"type": "thinking", "thinking": THOUGHT}, *reply["content"]]}
    summary = [{"type": "summary_text", "text": THOUGHT}]
    return {**reply, "output": [{"type": "reasoning", "id": f"rs_{number}", "summary": summary}, *reply["output"]]}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    return request.param
