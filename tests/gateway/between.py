"""A gateway before an upstream that answers bytes."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from urllib.parse import urlsplit

import offprompt
from offprompt.gateway.app import Gateway, GatewayOptions
from offprompt.gateway.upstream import Target, Upstreams
from offprompt.gateway.who import Who
from tests.gateway.conftest import ALICE, nobody, served
from tests.gateway.echo import Heard, RawUpstream


class Between:
    """A gateway before a raw upstream."""

    def __init__(self, answer: Callable[[Heard], list[bytes]], *, path: str = "") -> None:
        self._answer, self._path = answer, path

    def __enter__(self) -> Between:
        self.memory = offprompt.open(":memory:")
        self.upstream = RawUpstream(self._answer)
        self.upstream.__enter__()
        app = Gateway(
            Who(self.memory, nobody, ALICE), Upstreams([Target(self.upstream.url + self._path)]), GatewayOptions()
        )
        self._served = served(app)
        self.url = self._served.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._served.__exit__(None, None, None)
        self.upstream.__exit__()
        self.memory.close()

    def ask(
        self, method: str, path: str, headers: list[tuple[str, str]] | None = None, body: bytes | None = None
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers or []:
                connection.putheader(name, value)
            if body is not None and not any(name.lower() == "transfer-encoding" for name, _ in headers or []):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, [(name.lower(), value) for name, value in answer.getheaders()], answer.read()
        finally:
            connection.close()
