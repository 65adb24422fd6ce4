"""Two servers on one store, asked in turn: no call of a session meets the worker that answered the one before."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offprompt.client._requests import Request, Sending, id_headers
from offprompt.client._transport import Server, Transport
from offprompt.client.scopes import BoundScope
from offprompt.protocols import Clock
from offprompt.records import Scope
from tests.rest.running import Running, running

_users = itertools.count(1)


class InTurn:
    """A transport that sends each request to the next of several servers. asked: how often it did."""

    def __init__(self, *transports: Sending) -> None:
        self._transports = transports
        self._at = self.asked = 0

    def next_is(self, at: int) -> None:
        """The server that is asked next."""
        self._at = at

    def send(self, request: Request, /) -> Any:
        own = self._transports[self._at % len(self._transports)]
        self._at, self.asked = self._at + 1, self.asked + 1
        return own.send(request)


@dataclass
class Workers:
    """The servers, and how they are asked."""

    servers: tuple[Running, Running]
    transport: InTurn

    def scope(self, user: str) -> BoundScope:
        """A user's scope, whose requests go to the servers in turn."""
        known = Scope("default", user)
        return BoundScope(self.transport, id_headers(None, known), known)

    def new_user(self) -> BoundScope:
        """The scope of a user whom nobody knows yet."""
        return self.scope(f"alice.{next(_users)}@example.com")


def transport(url: str) -> Transport:
    """What asks one server."""
    return Transport(Server(url, lambda: None, None, "tests", 30.0))


@contextmanager
def workers(path: Path, clock: Clock, **settings: Any) -> Generator[Workers]:
    """Two servers on the store at the path."""
    with (
        running(str(path), clock=clock, **settings) as one,
        running(str(path), clock=clock, **settings) as other,
        closing(transport(one.url)) as to_one,
        closing(transport(other.url)) as to_other,
    ):
        yield Workers((one, other), InTurn(to_one, to_other))
