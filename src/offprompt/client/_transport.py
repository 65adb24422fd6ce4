"""How requests get to a server and answers back: connections, keys, retries, errors. The one file that uses httpx."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from offprompt.client._answers import encoded, error_of, strange
from offprompt.client._files import ComingLines, NewFile, async_chunks, chunks
from offprompt.client._requests import ABSENT, Request
from offprompt.errors import BackendError, OffpromptError, UnsupportedError, UsageError
from offprompt.records.json import as_dict
from offprompt.records.places import masked

if TYPE_CHECKING:
    import httpx

TRIES: Final = 3
WAITS_S: Final = (0.1, 0.5)
MAX_WAIT_S: Final = 5.0
"""A server that asks for a longer pause than this is not asked again by itself."""

CONNECT_S: Final = 5.0
CONNECTIONS: Final = 100
BUSY: Final = (409, 429, 503)
"""Asked again where the answer says when; 409: the write of that name is being done."""

UNKNOWN_KEY: Final = 401
OK: Final = 300


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server is, and who asks.

    url    its root, without a slash at the end. key: asked for at each request: a server that began anew has another.
    app    the tenant; None: the key's own. agent: the `User-Agent`. timeout_s: seconds to wait for one answer.
    """

    url: str
    key: Callable[[], str | None]
    app: str | None
    agent: str
    timeout_s: float

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine: then no proxy stands between."""
        return is_loopback(self.url)


def server_url(url: str) -> str:
    """The root of a server.

    Raises   UsageError for what is no `http://HOST[:PORT]` or `https://…`, or holds a key.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as exc:
        raise UsageError(f"{masked(url)!r} is no URL: {exc}; write http://127.0.0.1:7333") from exc
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise UsageError(f"{masked(url)!r} is no server's URL; write http://127.0.0.1:7333, without more behind it")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{masked(url)!r} holds a password; keys are given as key=… or in OFFPROMPT_KEY")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Wire:
    """What both transports share: how a request is written, an answer read, and when it is asked again."""

    def __init__(self, server: Server) -> None:
        try:
            import httpx  # noqa: PLC0415 - only who asks a server needs it
        except ImportError as exc:
            raise UnsupportedError(
                "a server is asked with httpx, which is not installed: pip install 'offprompt[client]'"
            ) from exc
        self.server, self.httpx = server, httpx
        self.options: dict[str, Any] = {
            "base_url": server.url,
            "timeout": httpx.Timeout(server.timeout_s, connect=min(CONNECT_S, server.timeout_s)),
            "limits": httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
            "trust_env": not server.is_here,
        }

    def check_open(self, *, is_closed: bool) -> None:
        """Raises   UsageError after `close`."""
        if is_closed:
            raise UsageError(f"the client of {self.server.url} is closed; open it again")

    def parts(self, request: Request, name: str, key: str | None) -> dict[str, Any]:
        """The arguments of httpx's request; its content, if any, is added by who sends. name: of the write."""
        server = self.server
        headers = {"Accept": "application/json, application/x-ndjson", "User-Agent": server.agent, **request.headers}
        if server.app is not None:
            headers.setdefault("Offprompt-App", server.app)
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        if request.changes:
            headers.setdefault("Idempotency-Key", name)
        parts: dict[str, Any] = {"method": request.method, "url": request.path, "headers": headers}
        if query := {name: value for name, value in request.query.items() if value is not None}:
            parts["params"] = {name: _spelled(value) for name, value in query.items()}
        if request.body is not ABSENT:
            headers["Content-Type"] = "application/json"
            parts["content"] = encoded(request.body)
        if request.upload is not None or request.content is not None:
            headers["Content-Type"] = "application/octet-stream"
        if request.content is not None:
            parts["content"] = request.content
        return parts

    def answered(self, response: httpx.Response) -> Any:
        """The content of an answer that was read whole.

        Raises   the error that a problem names.
        """
        media = response.headers.get("content-type", "").partition(";")[0]
        body = response.content
        try:
            if response.status_code < OK:
                if not body:
                    return None
                if media == "application/x-ndjson":
                    return [json.loads(line) for line in body.splitlines() if line.strip()]
                if media == "application/json":
                    return json.loads(body)
            elif media == "application/problem+json" and (problem := as_dict(json.loads(body))) is not None:
                raise error_of(problem)
        except ValueError as exc:
            if isinstance(exc, OffpromptError):
                raise
        raise strange(response.status_code, media, body, self.server.url)

    def pause_s(self, tries: int, response: httpx.Response) -> float | None:
        """Seconds until it is asked again; None: the answer stands."""
        if tries >= TRIES or response.status_code not in BUSY:
            return None
        try:
            asked = float(response.headers.get("retry-after", ""))
        except ValueError:
            return None
        return asked if 0 <= asked <= MAX_WAIT_S else None

    def lost(self, exc: httpx.TransportError, request: Request, tries: int) -> float | BackendError:
        """Seconds until it is tried again, or the error that says why it is not."""
        httpx, url = self.httpx, self.server.url
        if isinstance(exc, httpx.TimeoutException) and not isinstance(exc, httpx.ConnectTimeout):
            done = "; whether it was done is not known" if request.changes else ""
            return BackendError(
                f"the server at {url} did not answer within {self.server.timeout_s:g} s{done}; ask again, "
                "or raise timeout_s"
            )
        if tries < TRIES:
            return WAITS_S[tries - 1]
        if isinstance(exc, (httpx.ConnectError, httpx.ConnectTimeout)):
            port = urlsplit(url).port
            start = "offprompt serve" + (f" --port {port}" if port not in (None, 7333) else "")
            way = f"start it with: {start}" if self.server.is_here else "check the URL, and that it is running"
            return BackendError(f"no server answers at {url}: {exc or type(exc).__name__}; {way}")
        return BackendError(f"the connection to {url} broke off: {exc or type(exc).__name__}; ask again")


class Transport:
    """Sends requests and waits for the answers; safe in threads."""

    def __init__(self, server: Server, **options: Any) -> None:
        self._wire = _Wire(server)
        self._http = self._wire.httpx.Client(**{**self._wire.options, **options})

    def send(self, request: Request) -> Any:
        """What the server answers, as plain data; see `Sending`."""
        wire, name, key, tries = self._wire, uuid.uuid4().hex, self._wire.server.key(), 0
        wire.check_open(is_closed=self._http.is_closed)
        while True:
            tries += 1
            try:
                response = self._once(request, name, key)
            except wire.httpx.TransportError as exc:
                pause = wire.lost(exc, request, tries)
                if isinstance(pause, BackendError):
                    raise pause from exc
            else:
                if response.status_code == UNKNOWN_KEY and tries == 1 and (newer := wire.server.key()) != key:
                    key = newer
                    continue
                pause = wire.pause_s(tries, response)
                if pause is None:
                    return wire.answered(response)
            time.sleep(pause)

    def _once(self, request: Request, name: str, key: str | None) -> httpx.Response:
        parts = self._wire.parts(request, name, key)
        if request.upload is not None:
            parts["content"] = chunks(request.upload)
        if request.download is None and request.on_line is None:
            return self._http.request(**parts)
        with self._http.stream(**parts) as response:
            if response.status_code >= OK:
                response.read()
                return response
            if request.on_line is not None:
                lines = ComingLines(request.on_line)
                with lines.ended(self._wire.httpx.TransportError):
                    for line in response.iter_lines():
                        lines.take(line)
                return self._wire.httpx.Response(200, json=lines.is_whole)
            with NewFile(request.download or Path()) as file:
                for chunk in response.iter_bytes():
                    file.write(chunk)
        return self._wire.httpx.Response(200, json=file.lines)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()


class AsyncTransport:
    """`Transport` for `async` code."""

    def __init__(self, server: Server, **options: Any) -> None:
        self._wire = _Wire(server)
        self._http = self._wire.httpx.AsyncClient(**{**self._wire.options, **options})

    async def send(self, request: Request) -> Any:
        """What the server answers, as plain data; see `Sending`."""
        wire, name, key, tries = self._wire, uuid.uuid4().hex, self._wire.server.key(), 0
        wire.check_open(is_closed=self._http.is_closed)
        while True:
            tries += 1
            try:
                response = await self._once(request, name, key)
            except wire.httpx.TransportError as exc:
                pause = wire.lost(exc, request, tries)
                if isinstance(pause, BackendError):
                    raise pause from exc
            else:
                if response.status_code == UNKNOWN_KEY and tries == 1 and (newer := wire.server.key()) != key:
                    key = newer
                    continue
                pause = wire.pause_s(tries, response)
                if pause is None:
                    return wire.answered(response)
            await asyncio.sleep(pause)

    async def _once(self, request: Request, name: str, key: str | None) -> httpx.Response:
        parts = self._wire.parts(request, name, key)
        if request.upload is not None:
            parts["content"] = async_chunks(request.upload)
        if request.download is None and request.on_line is None:
            return await self._http.request(**parts)
        async with self._http.stream(**parts) as response:
            if response.status_code >= OK:
                await response.aread()
                return response
            if request.on_line is not None:
                lines = ComingLines(request.on_line)
                with lines.ended(self._wire.httpx.TransportError):
                    async for line in response.aiter_lines():
                        lines.take(line)
                return self._wire.httpx.Response(200, json=lines.is_whole)
            with NewFile(request.download or Path()) as file:
                async for chunk in response.aiter_bytes():
                    await asyncio.to_thread(file.write, chunk)
        return self._wire.httpx.Response(200, json=file.lines)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()


def _spelled(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
