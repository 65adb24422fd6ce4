"""Client and AsyncClient: a memory that a server keeps."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from offprompt.client._answers import record_of, records_of
from offprompt.client._documents import ingested
from offprompt.client._files import last_line
from offprompt.client._keys import key_of
from offprompt.client._requests import Asking, Async, Request, Sync, asked, id_headers, path_of
from offprompt.client._transport import AsyncTransport, Server, Transport, server_url
from offprompt.client.grants import AsyncGrants, Grants
from offprompt.client.scopes import AsyncBoundScope, BoundScope
from offprompt.errors import ScopeError, UnsupportedError, UsageError
from offprompt.records import ErasureReceipt, Scope
from offprompt.records.alias import Joined
from offprompt.records.document import Ingest
from offprompt.records.holder import Holder
from offprompt.records.subject import SubjectExport

TIMEOUT_S = 60.0
NO_SCOPE = "no scope:"
NEEDS_STORE = "this works on the store itself, and {} is a server; run it where the store is, with its URL"


class ClientCalls:
    """The calls of both faces; see `offprompt.service.offprompt.Offprompt`.

    url      `http://HOST:PORT` of `offprompt serve`. key: unless given OFFPROMPT_KEY, else the token that a server on
             this machine left for its own user.
    app      the tenant; the key's own unless given. user: whose memory `scope()` is; unless given OFFPROMPT_USER,
             else the server's default for the key.
    timeout_s  seconds to wait for one answer.
    Asks     nothing until the first call. What changes nothing is asked again where a connection broke off or the
             server is busy; so is what does, under a key of its own by which the server knows it.
    Raises   UsageError for what is no server's URL; UnsupportedError without the extra `client`.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        app: str | None = None,
        user: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if not timeout_s > 0:
            raise UsageError(f"timeout_s={timeout_s!r}: give seconds above 0")
        self.url = server_url(url)
        self._server = Server(
            self.url, key_of(self.url, key), app, f"offprompt-python/{version('offprompt')}", timeout_s
        )
        self._user = user or os.environ.get("OFFPROMPT_USER") or None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @asked
    def ingest(
        self, path: str | os.PathLike[str], *, space: str, app: str | None = None, **options: Any
    ) -> Asking[Ingest]:
        """Make the documents at a path of this machine passages of a space: short for `space(…).ingest(…)`."""
        return (yield from ingested(Scope(app or self._server.app or "default", space=space), path, **options))

    @property
    def parts(self) -> NoReturn:
        """Nothing here.

        Raises   UnsupportedError: what needs the store itself runs where the store is.
        """
        raise UnsupportedError(NEEDS_STORE.format(self.url))

    @property
    def keys(self) -> NoReturn:
        """Nothing here.

        Raises   UnsupportedError: keys are made where the store is, or by the server's routes for admins.
        """
        raise UnsupportedError(f"{NEEDS_STORE.format(self.url)}, or ask the server's /v1/keys as an admin")

    @asked
    def alias(self, old: str, new: str, *, app: str | None = None, preview: bool = False) -> Asking[Joined]:
        """Join two ids of one person: from now on `scope(user=old)` is `scope(user=new)`."""
        body = {"old": old, "new": new, "preview": preview}
        return record_of((yield Request("POST", path_of("v1", "alias"), body=body, headers=id_headers(app))), Joined)

    @property
    def holds(self) -> NoReturn:
        """Nothing here.

        Raises   UnsupportedError: legal holds are made where the store is, or by the server's routes for admins.
        """
        raise UnsupportedError(f"{NEEDS_STORE.format(self.url)}, or ask the server's /v1/holds as an admin")

    @asked
    def erase(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        space: str | None = None,
        app: str | None = None,
    ) -> Asking[ErasureReceipt]:
        """Remove all that is stored of one user, agent, session or space, for good: see the library's."""
        if space is None:
            headers, _ = self._scoped(user, agent, session, app, shared=False)
        else:
            headers = id_headers(app, Scope(app or self._server.app or "default", user, agent, session, space=space))
        return record_of((yield Request("POST", path_of("v1", "erasures"), headers=headers)), ErasureReceipt)

    @asked
    def export_subject(
        self, path: str | os.PathLike[str], *, user: str | None = None, app: str | None = None, secrets: bool = False
    ) -> Asking[SubjectExport]:
        """Write all that the server has of one person to a new private file of this machine, JSON Lines.

        The same records as the library's zip file has, one file: each with its place, a manifest as the last line.
        """
        headers, _ = self._scoped(user, None, None, app, shared=False)
        query = {"secrets": secrets or None}
        yield Request("GET", path_of("v1", "subject-export"), query=query, headers=headers, download=Path(path))
        return record_of(last_line(Path(path))["manifest"], SubjectExport)

    @asked
    def users(self, *, app: str | None = None) -> Asking[list[Holder]]:
        """The users and agents of an app for whom something is stored, and how much; the shared scope first."""
        found: list[Holder] = []
        cursor = None
        while True:
            query = {"cursor": cursor}
            answer = yield Request("GET", path_of("v1", "users"), query=query, headers=id_headers(app))
            found += records_of(answer["users"], Holder)
            cursor = answer["cursor"]
            if not cursor:
                return found

    def _scoped(
        self, user: str | None, agent: str | None, session: str | None, app: str | None, *, shared: bool
    ) -> tuple[dict[str, str], Scope | None]:
        """The headers of a scope, and the scope; None where no id is given and the key says whose it is."""
        for kind, value in (("user", user), ("agent", agent), ("session", session), ("app", app)):
            if value == "":
                raise ScopeError(f"{kind}='' is no id; leave it out, or pass 1 to 256 bytes of text")
        if user is None and agent is None and session is None and not shared:
            user = self._user
            if user is None:
                return id_headers(app), None
        scope = Scope(app or self._server.app or "default", user, agent, session, shared)
        return id_headers(app, scope), scope


class Client(ClientCalls, Sync):
    """A memory that a server keeps, as `offprompt.open` opens one here. Close it, or use it in a `with` block."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._transport = self._connections = Transport(self._server)
        self.is_closed = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def grants(self) -> Grants:
        """Who finds what spaces hold, and what agents keep; for keys that are admins of the whole app."""
        return Grants(self._transport)

    def scope(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        app: str | None = None,
        shared: bool = False,
    ) -> BoundScope:
        """A scope by its ids; without any, the default user, else whom the key is for, which the server is asked.

        Raises   ScopeError if no id is given anywhere; never a wildcard.
        """
        headers, scope = self._scoped(user, agent, session, app, shared=shared)
        if scope is None:
            try:
                scope = record_of(self._transport.send(Request("GET", path_of("v1", "scope"), headers=headers)), Scope)
            except ScopeError as exc:
                if str(exc).startswith(NO_SCOPE):
                    Scope()  # says it in the library's words; the server's are about headers
                raise
        return BoundScope(self._transport, headers, scope)

    def space(self, name: str, *, app: str | None = None) -> BoundScope:
        """What is kept for whom it is granted to, by its name; for admins of the whole app. Asks nothing."""
        scope = Scope(app or self._server.app or "default", space=name)
        return BoundScope(self._transport, id_headers(app, scope), scope)

    def close(self) -> None:
        """Let go of the connections."""
        self.is_closed = True
        self._connections.close()


class AsyncClient(ClientCalls, Async):
    """`Client` for `async` code: the same names, awaited, but `scope`, which asks nothing."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._transport = self._connections = AsyncTransport(self._server)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def grants(self) -> AsyncGrants:
        """Who finds what spaces hold, and what agents keep; for keys that are admins of the whole app."""
        return AsyncGrants(self._transport)

    def scope(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        app: str | None = None,
        shared: bool = False,
    ) -> AsyncBoundScope:
        """A scope by its ids; without any, the default user, else whom the key is for. Asks nothing."""
        headers, scope = self._scoped(user, agent, session, app, shared=shared)
        return AsyncBoundScope(self._transport, headers, scope)

    def space(self, name: str, *, app: str | None = None) -> AsyncBoundScope:
        """What is kept for whom it is granted to, by its name; for admins of the whole app. Asks nothing."""
        scope = Scope(app or self._server.app or "default", space=name)
        return AsyncBoundScope(self._transport, id_headers(app, scope), scope)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._connections.close()
