"""The MCP server over HTTP: who asks is known before the protocol is looked at, and says whose memory is meant."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec

from offprompt.errors import OffpromptError
from offprompt.mcp.server import MemoryServer
from offprompt.mcp.snippets import PATH
from offprompt.records import Identity, Role, Trust
from offprompt.rest.answering import Send
from offprompt.rest.endpoint import Call, Endpoint
from offprompt.rest.guards import Identify
from offprompt.rest.problems import MEDIA_TYPE, RequestError, problem_of
from offprompt.rest.reading import Headers, Receive, read_headers
from offprompt.service.model_doors import StoreDoor
from offprompt.service.model_memory import ModelMemory
from offprompt.service.offprompt import Offprompt

AsgiScope: TypeAlias = MutableMapping[str, Any]

ASKED: Final = "offprompt.asked"
"""Where the ASGI scope says who asks, and with what headers."""


def _run(call: Call) -> None:
    """Nothing: the protocol's own application answers."""


ENDPOINTS: Final[dict[Role, Endpoint]] = {
    role: Endpoint("POST", PATH, f"mcp_{role}", _run, "A call of a tool.", "mcp", role=role)
    for role in ("read", "write")
}
"""What scopes are made for: the headers of a request mean the same here as in REST."""


class McpApp:
    """The ASGI application: `/mcp` over one opened memory, each request in the scope of its key and headers.

    identify     who asks; see `rest.guards`. trust: of what models write.
    running      requests that are not answered to the end yet. is_draining: no more are taken.
    """

    def __init__(self, memory: Offprompt, identify: Identify, *, trust: Trust = "user") -> None:
        self._memory, self._identify = memory, identify
        self._trust: Trust = trust
        settings = memory.parts.settings
        self._app = MemoryServer(self._memory_for, memory.parts.tokenizer, settings.language or None).http_app()
        self.running = 0
        self.is_draining = False

    def drain(self) -> None:
        """Take no more requests."""
        self.is_draining = True

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request; who may not ask learns so before anything is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self.running += 1
        try:
            scope["offprompt.endpoint"] = ENDPOINTS["read"].name
            headers = read_headers(scope["headers"])
            identity = scope["offprompt.identity"] = await self._identified(scope["method"], headers)
            scope[ASKED] = identity, headers
        except OffpromptError as exc:
            scope["offprompt.problem"] = type(exc).__name__
            await refuse(exc, send)
        else:
            await self._app(scope, receive, send)
        finally:
            self.running -= 1

    async def _identified(self, method: str, headers: Headers) -> Identity:
        if self.is_draining:
            wait = {"connection": "close", "retry-after": "1"}
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, "the server is stopping; ask again soon", wait)
        asked = self._identify(method, headers, has_body=method == "POST")
        identity = asked if isinstance(asked, Identity) else await asyncio.to_thread(asked)
        if method != "POST":
            # A stream for what the server says by itself would stay empty, and keep the server from ending.
            why = f"{method} is not answered here: there are no sessions, and nothing is sent unasked; send POST"
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, why, {"allow": "POST"})
        return identity

    def _memory_for(self, request: Any, role: Role) -> ModelMemory:
        """The memory that a request's key and headers mean; ForbiddenError, ScopeError."""
        identity, headers = request.scope[ASKED]
        bound = Call(self._memory, identity, ENDPOINTS[role], headers).scope
        return ModelMemory(StoreDoor(self._memory.parts, bound, trust=self._trust, via="mcp"))


async def refuse(error: OffpromptError, send: Send) -> None:
    """Answer with a problem, as REST does."""
    problem, headers = problem_of(error)
    body = msgspec.json.encode(problem)
    named = {**headers, "content-type": MEDIA_TYPE, "content-length": str(len(body))}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
