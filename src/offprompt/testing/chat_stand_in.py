"""StandInModel: a chat model in this process, for tests and demonstrations. What speaks is a script, and says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from offprompt.errors import ModelError, UsageError
from offprompt.models.tokenizers import estimate
from offprompt.records import Cancel, Completion, ModelWire, as_dict
from offprompt.testing.strict import Model, RefusedError, StrictUpstream
from offprompt.wire.payload import loaded
from offprompt.wire.profiles import SHAPES


class StandInModel:
    """A `ChatModel` around a stand-in such as `ScriptedModel`; it refuses what the wire's provider would refuse.

    says            called with a request's fields; what it says is the reply. See `StrictUpstream`.
    context_tokens  of the window that it claims; it cuts nothing.
    Deadlines       are not kept: a script answers at once.
    """

    def __init__(
        self,
        says: Model,
        *,
        name: str = "stand-in",
        wire: ModelWire = "openai",
        context_tokens: int = 0,
        binding: bool = False,
        count: Callable[[str], int] = estimate,
    ) -> None:
        self.name, self.context_tokens = name, context_tokens
        self.wire: ModelWire = wire
        self.upstream = StrictUpstream(wire, says, binding=binding, count=count)

    def create(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """See `ChatModel`."""
        del timeout_s
        return self._called(payload, cancel)

    async def acreate(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """See `ChatModel`."""
        return self.create(payload, timeout_s=timeout_s, cancel=cancel)

    def stream(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> StandInStream:
        """See `ChatModel`."""
        del timeout_s
        counts = {"stream_options": {"include_usage": True}} if self.wire == "openai" else {}
        return StandInStream(lambda: self._called({**payload, **counts, "stream": True}, cancel))

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
        system, rest = [each for each in messages if each["role"] == "system"], messages
        payload: dict[str, Any] = {"max_tokens": max_tokens}
        if self.wire == "anthropic":
            rest = [each for each in messages if each["role"] != "system"]
            payload |= {"system": "\n\n".join(each["content"] for each in system)}
        reply = self.create({**payload, "messages": list(rest)}, timeout_s=timeout_s, cancel=cancel)
        raw = SHAPES[self.wire].reply(reply)
        text = SHAPES[self.wire].text(raw.message)
        return Completion(text, loaded(text) if schema is not None else None, usage=raw.usage)

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
        return self.complete(messages, schema=schema, max_tokens=max_tokens, timeout_s=timeout_s, cancel=cancel)

    def close(self) -> None:
        """See `ChatModel`; there is nothing to let go of."""

    def _called(self, payload: Mapping[str, Any], cancel: Cancel | None) -> Any:
        if cancel is not None and cancel.cancelled:
            raise ModelError(f"the call to {self.name} was called off", kind="cancelled")
        filled = {"model": self.name, **({"max_tokens": 1024} if self.wire == "anthropic" else {}), **payload}
        try:
            return self.upstream(**filled)
        except RefusedError as exc:
            error = as_dict(exc.body.get("error")) or {}
            said = f"{self.name} refused the request: {error.get('message')}"
            if exc.status in (400, 401, 403, 404, 422):
                raise UsageError(said) from exc
            raise ModelError(said, kind="rate_limit" if exc.status == 429 else "server", status=exc.status) from exc


class StandInStream:
    """See `ReplyStream`."""

    def __init__(self, call: Callable[[], Iterator[dict[str, Any]]]) -> None:
        self._call, self._open = call, True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            for chunk in self._call():
                if not self._open:
                    return
                yield chunk
        except TimeoutError as exc:
            raise ModelError(f"the stream broke off: {exc}", kind="connection") from exc

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        for chunk in self:
            yield chunk

    def close(self) -> None:
        """See `ReplyStream`."""
        self._open = False
