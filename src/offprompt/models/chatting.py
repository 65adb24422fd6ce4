"""What all chat models behind an endpoint have in common: whole, streamed, awaited, and small work for memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final

from offprompt.errors import ModelError, OffpromptError
from offprompt.models.clients import Client, StatusError
from offprompt.models.endpoint import Endpoint, EndpointStream
from offprompt.models.retrying import Retries
from offprompt.records import Cancel, Completion, ModelWire, as_dict

WINDOW_S: Final = 5.0
"""Seconds for the question how large the window is."""

Sent = tuple[str, dict[str, Any], dict[str, str]]
"""What goes out: path, body, headers."""


class EndpointChat(ABC):
    """A chat model behind an endpoint; see `ChatModel`. One file for each wire says what differs."""

    wire: ModelWire = "openai"

    def __init__(
        self,
        name: str,
        make: Callable[[], Client],
        *,
        where: str,
        key: str = "",
        timeout_s: float = 120.0,
        retries: Retries | None = None,
        context_tokens: int = 0,
        ask_window: bool = True,
    ) -> None:
        self.name, self._where = name, where
        self._endpoint = Endpoint(where, make, timeout_s=timeout_s, retries=retries or Retries(), key=key)
        self._asked = Endpoint(where, make, timeout_s=WINDOW_S, retries=Retries(0), key=key)
        self._known_window, self._ask_window = context_tokens, ask_window

    @property
    def timeout_s(self) -> float:
        """Seconds that a call may take unless it says otherwise."""
        return self._endpoint.timeout_s

    @property
    def context_tokens(self) -> int:
        """See `ChatModel`."""
        if self._ask_window:
            try:
                found = self._asked.call(self._window, None, None, None)
            except OffpromptError:
                # It does not answer now; it may the next time.
                return self._known_window
            self._known_window, self._ask_window = found or self._known_window, False
        return self._known_window

    def create(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """See `ChatModel`."""
        return self._endpoint.call(lambda client: self._whole(client, payload), payload, timeout_s, cancel)

    async def acreate(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """See `ChatModel`."""
        return await self._endpoint.acall(lambda client: self._whole(client, payload), payload, timeout_s, cancel)

    def stream(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> EndpointStream:
        """See `ChatModel`."""
        return self._endpoint.stream(lambda client: self._chunks(client, payload), payload, timeout_s, cancel)

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        timeout_s: float | None = None,
        cancel: Cancel | None = None,
    ) -> Completion:
        """See `ChatModel`."""
        ask = self._task(messages, schema, max_tokens)
        return self._answer(self._endpoint.call(ask, messages, timeout_s, cancel), schema)

    async def acomplete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        timeout_s: float | None = None,
        cancel: Cancel | None = None,
    ) -> Completion:
        """See `ChatModel`."""
        ask = self._task(messages, schema, max_tokens)
        return self._answer(await self._endpoint.acall(ask, messages, timeout_s, cancel), schema)

    def close(self) -> None:
        """See `ChatModel`."""
        self._endpoint.close()
        self._asked.close()

    @abstractmethod
    def _sent(self, payload: Mapping[str, Any], *, stream: bool) -> Sent:
        """The request that a payload is."""
        ...

    @abstractmethod
    def _work(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None, most: int) -> Sent:
        """The request for memory work."""
        ...

    @abstractmethod
    def _read(self, reply: Mapping[str, Any], *, schema: bool) -> Completion | None:
        """The answer in a reply; None: it is none."""
        ...

    def _learns(self, says: str) -> bool:
        """Whether, from what a refusal says, memory work can be asked for in another way, and now will be."""
        del says
        return False

    async def _window(self, client: Client) -> int:
        """What the endpoint says that the window is, 0: it does not say."""
        del client
        return 0

    async def _whole(self, client: Client, payload: Mapping[str, Any]) -> dict[str, Any]:
        return await client.post(*self._sent(payload, stream=False))

    async def _chunks(self, client: Client, payload: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        async for chunk in client.stream(*self._sent(payload, stream=True)):
            yield chunk

    def _task(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None, most: int) -> Any:
        async def ask(client: Client) -> dict[str, Any]:
            while True:
                try:
                    return await client.post(*self._work(messages, schema, most))
                except StatusError as exc:
                    if exc.status not in (400, 422) or not self._learns(exc.says):
                        raise

        return ask

    def _answer(self, reply: Mapping[str, Any], schema: Mapping[str, Any] | None) -> Completion:
        answer = self._read(reply, schema=schema is not None)
        if answer is None:
            keys = ", ".join(sorted(reply)[:8]) or "nothing"
            raise ModelError(
                f"{self._where} sent no reply but an object with {keys}; check that base_url is that of a chat model",
                kind="reply",
            )
        return answer


def split_options(payload: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The body and headers of a payload: `extra_body` and `extra_headers` are taken apart as the clients do."""
    body = {name: value for name, value in payload.items() if not name.startswith("extra_") and name != "timeout"}
    headers = {name: str(value) for name, value in (as_dict(payload.get("extra_headers")) or {}).items()}
    return body | (as_dict(payload.get("extra_body")) or {}), headers
