"""Upstream: the provider behind the gateway, over HTTP; what it answers is passed on as it came."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from offprompt.errors import ModelError, UnsupportedError, UsageError
from offprompt.records.places import masked

if TYPE_CHECKING:
    import httpx

Pairs = list[tuple[bytes, bytes]]

HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
"""What a header says about one connection only. Source   RFC 9110, section 7.6.1."""

OURS: Final = b"offprompt-"
CONNECT_S: Final = 10.0
NO_UPSTREAM: Final = (
    'no upstream; say where the models are: --upstream https://api.openai.com, or upstreams = ["…"] under [gateway] in '
    "the config file"
)
PRINTED: Final = " !\"#$%&'()*+,/:;<=>?@[\\]^`{|}"
"""What headers may hold beside letters, digits and what URLs hold unquoted."""


@dataclass(frozen=True, slots=True)
class Target:
    """An upstream. models: a pattern of the models that it serves, `*` for all."""

    url: str
    models: str = "*"

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")) or "?" in self.url or "#" in self.url:
            raise UsageError(
                f"the upstream {self.url!r} is no base URL; give one such as https://api.openai.com, or for some "
                "models only 'claude-*=https://api.anthropic.com'"
            )


def targets(given: Iterable[str]) -> list[Target]:
    """The upstreams of a command line: URL, or PATTERN=URL.

    Raises   UsageError for what is neither, and for none.
    """
    found: list[Target] = []
    for text in given:
        models, is_some, url = text.partition("=")
        found.append(Target(url, models) if is_some and "://" not in models else Target(text))
    if not found:
        raise UsageError(NO_UPSTREAM)
    return found


class Upstreams:
    """The providers, by model, and one pool of connections to them.

    Raises   UnsupportedError if the extra is not installed, UsageError for none.
    """

    def __init__(self, targets: Iterable[Target], *, timeout_s: float = 600.0) -> None:
        self._targets = tuple(targets)
        if not self._targets:
            raise UsageError(NO_UPSTREAM)
        try:
            import httpx  # noqa: PLC0415 - an extra
        except ImportError as exc:
            raise UnsupportedError("the gateway needs httpx; pip install 'offprompt[gateway]'") from exc
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_S)
        self._client = httpx.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False, trust_env=False)
        self._failed: type[Exception] = httpx.HTTPError

    def target(self, model: str) -> Target:
        """The first that serves the model; without a model, the one that serves all, else the first.

        Raises   UsageError if none does.
        """
        if not model:
            return next((target for target in self._targets if target.models == "*"), self._targets[0])
        for target in self._targets:
            if fnmatchcase(model, target.models):
                return target
        raise UsageError(f"no upstream serves the model {model[:80]!r}; add one: --upstream '{model[:80]}=https://…'")

    @asynccontextmanager
    async def asked(
        self, target: Target, method: str, path: str, headers: Pairs, content: bytes | AsyncIterator[bytes] | None
    ) -> AsyncGenerator[Answered]:
        """The upstream's answer, to be read while the block lasts.

        path     with its query, behind the target's own.
        Raises   ModelError if it cannot be reached or breaks off.
        """
        request = self._client.build_request(method, target.url.rstrip("/") + path, content=content)
        framing = (b"host", b"content-length", b"transfer-encoding")
        own = [(name, value) for name, value in request.headers.raw if name.lower() in framing]
        given = [(name, value) for name, value in headers if name not in framing]
        length = [value for name, value in headers if name == b"content-length"]
        if length and isinstance(content, AsyncIterator):
            own = [own[0], (b"content-length", length[0])]
        request.headers = type(request.headers)([*own, *given])
        try:
            response = await self._client.send(request, stream=True)
        except self._failed as exc:
            raise self._away(target, exc) from exc
        try:
            yield Answered(response, partial(self._away, target), self._failed)
        finally:
            await response.aclose()

    def _away(self, target: Target, exc: Exception) -> ModelError:
        why = str(exc).rstrip(".") or type(exc).__name__
        return ModelError(
            f"the upstream {masked(target.url)} does not answer: {why}; see that it runs, and check its address",
            kind="connection",
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()


class Answered:
    """An answer of an upstream."""

    def __init__(
        self, response: httpx.Response, away: Callable[[Exception], ModelError], failed: type[Exception]
    ) -> None:
        self._response, self._away, self._failed = response, away, failed
        self.status = response.status_code

    @property
    def headers(self) -> Pairs:
        """Its headers but those about the connection, in order."""
        return passed_on(self._response.headers.raw)

    @property
    def kind(self) -> str:
        """Its media type."""
        return self._response.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Its body as it comes, compressed as it came.

        Raises   ModelError if it breaks off.
        """
        try:
            async for piece in self._response.aiter_raw():
                yield piece
        except self._failed as exc:
            raise self._away(exc) from exc

    async def whole(self) -> bytes:
        """All of its body."""
        return b"".join([piece async for piece in self.pieces()])


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Headers without those that are about one connection, or ours."""
    given = [(name.lower(), value) for name, value in headers]
    named = {each.strip().lower() for name, value in given if name == b"connection" for each in value.split(b",")}
    gone = HOP_BY_HOP | named
    return [(name, value) for name, value in given if name not in gone and not name.startswith(OURS)]


def plain_headers(headers: Mapping[str, str]) -> Pairs:
    """Our own headers as bytes: each in one line, and what is not ASCII percent-encoded."""
    return [(name.encode(), quote(" ".join(value.split()), safe=PRINTED).encode()) for name, value in headers.items()]
