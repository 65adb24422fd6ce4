"""A server that runs in a thread of the tests, on a port of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

import offprompt
from offprompt.records import Identity
from offprompt.rest.app import make_app
from offprompt.rest.dispatch import Dispatch
from offprompt.rest.guards import Identify
from offprompt.rest.serving import Serving, listen, url_of
from offprompt.service.offprompt import Offprompt

WAIT_S = 30.0
ALL = Identity(roles=frozenset({"read", "write", "admin"}))


def anybody(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
    """Everybody may everything."""
    del method, headers, has_body
    return ALL


@dataclass
class Running:
    """A running server.

    memory   the one that it serves, for what a test looks up behind its back.
    http     a client of it, without any header of a scope; `user` makes those.
    """

    url: str
    memory: Offprompt
    app: Dispatch
    serving: Serving
    thread: threading.Thread = field(repr=False)
    http: httpx.Client = field(repr=False)

    def ask(self, method: str, path: str, *, user: str | None = "alice", **given: Any) -> httpx.Response:
        """One request in the scope of a user."""
        headers = {**({"Offprompt-User": user} if user else {}), **given.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **given)

    def stop(self) -> None:
        """Tell it to stop, and wait until it has."""
        self.serving.stop()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()


@contextmanager
def running(
    url: str = ":memory:",
    *,
    identify: Identify = anybody,
    app_of: Callable[[Offprompt, Identify], Dispatch] = make_app,
    stop_s: float = WAIT_S,
    around: Callable[[Dispatch], Any] | None = None,
    **settings: Any,
) -> Generator[Running]:
    """A server over the store at the URL; it and the store are closed afterwards.

    app_of    makes the application, `make_app` unless given. settings: of the memory.
    """
    bound = listen("127.0.0.1", 0)
    with offprompt.open(url, **settings) as memory:
        app = app_of(memory, identify)
        started = threading.Event()
        serving = Serving(app, around=around, stop_s=stop_s, on_started=started.set)
        thread = threading.Thread(target=lambda: serving.run(sockets=[bound]), name="server")
        address = url_of(bound)
        thread.start()
        assert started.wait(WAIT_S)
        with httpx.Client(base_url=address, timeout=WAIT_S) as http:
            own = Running(address, memory, app, serving, thread, http)
            try:
                yield own
            finally:
                if thread.is_alive():
                    own.stop()
