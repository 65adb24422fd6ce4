"""WithoutTools: a chat model without native calls as one that has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

from offprompt.errors import UnsupportedError, UsageError
from offprompt.protocols import ChatModel
from offprompt.records import Cancel, Completion, ModelWire
from offprompt.wire.text_calls import Calls, call_reply, chunks_of, text_request


class WithoutTools:
    """A `ChatModel` around another one whose endpoint, or template, knows no tools.

    calls     `text`: a call is a JSON object in the reply's text. `schema`: every reply is asked for under a JSON
              schema, an answer or one call; where the endpoint keeps the schema, no call is malformed.
    Requests  tools stand in the system text, calls and results are messages of text. A session's ledger counts them as
              it gave them.
    Streams   come whole, once it is known what the text is.
    Raises    UnsupportedError for a model of another wire than chat completions.
    """

    def __init__(self, model: ChatModel, *, calls: Calls = "text") -> None:
        if calls not in get_args(Calls):
            raise UsageError(f"calls={calls!r}: it is text or schema")
        if model.wire != "openai":
            raise UnsupportedError(f"{model.name} is on the wire {model.wire}, whose models all have native calls")
        self._model = model
        self._calls: Calls = calls

    @property
    def name(self) -> str:
        """See `ChatModel`."""
        return self._model.name

    @property
    def wire(self) -> ModelWire:
        """See `ChatModel`."""
        return self._model.wire

    @property
    def timeout_s(self) -> float | None:
        """The model's own, None: it has none."""
        return getattr(self._model, "timeout_s", None)

    @property
    def context_tokens(self) -> int:
        """See `ChatModel`."""
        return self._model.context_tokens

    def create(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """See `ChatModel`."""
        sent = text_request(payload, self._calls)
        return call_reply(self._model.create(sent, timeout_s=timeout_s, cancel=cancel), payload, self._calls)

    async def acreate(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """See `ChatModel`."""
        sent = text_request(payload, self._calls)
        return call_reply(await self._model.acreate(sent, timeout_s=timeout_s, cancel=cancel), payload, self._calls)

    def stream(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> WholeStream:
        """See `ChatModel`."""
        return WholeStream(
            lambda: self.create(payload, timeout_s=timeout_s, cancel=cancel),
            lambda: self.acreate(payload, timeout_s=timeout_s, cancel=cancel),
        )

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
        return self._model.complete(messages, schema=schema, max_tokens=max_tokens, timeout_s=timeout_s, cancel=cancel)

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
        return await self._model.acomplete(
            messages, schema=schema, max_tokens=max_tokens, timeout_s=timeout_s, cancel=cancel
        )

    def close(self) -> None:
        """See `ChatModel`."""
        self._model.close()


class WholeStream:
    """A `ReplyStream` of one reply that came whole."""

    def __init__(self, ask: Callable[[], dict[str, Any]], aask: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._ask, self._aask = ask, aask

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from chunks_of(self._ask())

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        for chunk in chunks_of(await self._aask()):
            yield chunk

    def close(self) -> None:
        """See `ReplyStream`; between its chunks nothing is open."""
