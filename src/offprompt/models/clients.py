"""The providers' official clients, as far as they are needed: JSON out, JSON or chunks of JSON back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from offprompt.errors import UnsupportedError, UsageError
from offprompt.records import as_dict

CONNECT_S: Final = 10.0
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
NO_KEY: Final = "none"
WANT_A_KEY: Final = {"api.openai.com": "OPENAI_API_KEY", "api.anthropic.com": "ANTHROPIC_API_KEY"}
"""Where a model is that is named without an address; nothing is sent there by mistake, without a key."""

Chunks = Literal["events", "lines"]
"""How a stream's chunks come: as server-sent events, or as lines of JSON."""


class StatusError(Exception):
    """The endpoint answered with an error: HTTP status, headers in lower case, what it says."""

    def __init__(self, status: int, headers: Mapping[str, str], says: str) -> None:
        self.status, self.headers, self.says = status, headers, says
        super().__init__(f"HTTP {status}")


class LostError(Exception):
    """No connection, or one that broke off."""


class NotJsonError(Exception):
    """What came is not JSON."""


@dataclass
class Client:
    """One endpoint by its provider's client, on the loop that first uses it; tries once and sets no deadline.

    base_url   with any path in it; a path given to a call is put behind it, a whole URL stands for itself.
    key        sent in the provider's own header; empty: a placeholder, which servers without keys ignore.
    Raises     StatusError, LostError, NotJsonError; see `load`.
    """

    sdk: Literal["openai", "anthropic"]
    base_url: str | None
    key: str = field(repr=False, default="")

    @cached_property
    def _module(self) -> Any:
        try:
            return import_module(self.sdk)
        except ImportError as exc:
            raise UnsupportedError(
                f"the {self.sdk} client is not installed; run: pip install 'offprompt[{self.sdk}]'"
            ) from exc

    @cached_property
    def _client(self) -> Any:
        module, options = self._module, dict[str, Any]()
        timeout = module.Timeout(None, connect=CONNECT_S)
        if self.base_url is not None:
            options["base_url"] = self.base_url
            if urlsplit(self.base_url).hostname in LOOPBACK:
                # What runs on this machine is not asked through a proxy.
                options["http_client"] = module.DefaultAsyncHttpxClient(trust_env=False, timeout=timeout)
        made = getattr(module, "AsyncOpenAI" if self.sdk == "openai" else "AsyncAnthropic")
        client = made(api_key=self.key or NO_KEY, max_retries=0, timeout=timeout, **options)
        variable = WANT_A_KEY.get(client.base_url.host)
        if variable is not None and not self.key:
            raise UsageError(
                f"{client.base_url.host} wants a key: set {variable}, or give key=; a model that is elsewhere is named "
                "with its base_url, or behind its provider's name, such as ollama:qwen3:8b"
            )
        return client

    def load(self) -> None:
        """Have the provider's client ready; it connects with the first call.

        Raises   UnsupportedError if it is not installed; UsageError without the key that the provider wants.
        """
        _ = self._client

    async def get(self, path: str) -> dict[str, Any]:
        """The JSON object at a path."""
        return await self._json(lambda: self._client.get(path, cast_to=object))

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """The JSON object with which it answers."""
        options = {"headers": dict(headers)}
        return await self._json(lambda: self._client.post(path, body=dict(body), cast_to=object, options=options))

    async def stream(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], chunks: Chunks = "events"
    ) -> AsyncGenerator[dict[str, Any]]:
        """The JSON objects with which it answers, as they come; closing the iterator closes the connection."""
        kind = self._module.AsyncStream[object] if chunks == "events" else self._lines
        options = {"headers": dict(headers)}
        try:
            opened = await self._client.post(
                path, body=dict(body), cast_to=object, stream=True, stream_cls=kind, options=options
            )
            came = False
            try:
                async for item in opened:
                    came = True
                    yield _checked(item)
            finally:
                await opened.close()
            if not came and "event-stream" not in opened.response.headers.get("content-type", ""):
                raise NotJsonError("it is a page or text, not a stream")
        except self._caught as exc:
            raise self._plain(exc) from exc
        except json.JSONDecodeError as exc:
            raise NotJsonError("a piece of the stream is not JSON") from exc

    async def aclose(self) -> None:
        """Let go of the connections."""
        if "_client" in self.__dict__:
            await self._client.close()

    async def _json(self, ask: Any) -> dict[str, Any]:
        try:
            return _checked(await ask())
        except self._caught as exc:
            raise self._plain(exc) from exc
        except json.JSONDecodeError as exc:
            raise NotJsonError("the answer says that it is JSON, and is not") from exc

    @cached_property
    def _caught(self) -> tuple[type[BaseException], ...]:
        return (self._module.APIError, import_module("httpx2").TransportError)

    def _plain(self, exc: Any) -> Exception:
        """The client's error as one of ours."""
        if isinstance(exc, self._module.APIStatusError):
            headers = {name.lower(): value for name, value in exc.response.headers.items()}
            return StatusError(_status(exc), headers, _says(exc.body, exc.message))
        if isinstance(exc, self._module.APIResponseValidationError):
            return NotJsonError("the answer is not JSON")
        if isinstance(exc, self._module.APIConnectionError) or not isinstance(exc, self._module.APIError):
            return LostError(str(exc.__cause__ or exc) or type(exc).__name__)
        # An error within a stream that had begun well.
        return StatusError(0, {}, _says(exc.body, exc.message))

    @cached_property
    def _lines(self) -> Any:
        class Lines(self._module.AsyncStream[object]):
            """A stream of lines of JSON, one object each."""

            async def __stream__(self) -> AsyncIterator[object]:
                try:
                    async for line in self.response.aiter_lines():
                        if line.strip():
                            yield json.loads(line)
                finally:
                    await self.response.aclose()

        return Lines


def _checked(answer: object) -> dict[str, Any]:
    found = as_dict(answer)
    if found is None:
        raise NotJsonError(
            f"the answer is {'text' if isinstance(answer, str) else type(answer).__name__}, not a JSON object"
        )
    return found


def _status(exc: Any) -> int:
    """The HTTP status; of an error within a stream that had begun well, 0."""
    return 0 if exc.status_code < 400 else exc.status_code


def _says(body: object, message: str) -> str:
    """What the endpoint says about its error, where it says so; else the client's sentence."""
    told = as_dict(body) or {}
    inner = as_dict(told.get("error")) or told
    for key in ("message", "detail", "error"):
        if isinstance(inner.get(key), str) and inner[key]:
            return inner[key]
    return message
