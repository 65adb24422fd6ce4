"""What reads and writes text: clock, tokenizer, redactor, embedder, chat model, reranker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from offprompt.records import Cancel, Completion, ModelWire
from offprompt.records.redaction import Redacted

if TYPE_CHECKING:  # NumPy is loaded where vectors are used, not where contracts are read
    import numpy as np
    from numpy.typing import NDArray

EmbedKind = Literal["query", "passage"]


class Clock(Protocol):
    """Where `now` comes from."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        ...


class Tokenizer(Protocol):
    """How a model's tokens are counted."""

    @property
    def name(self) -> str:
        """The encoding's name, e.g. `o200k_base`; of an estimate, `estimate`."""
        ...

    @property
    def exact(self) -> bool:
        """Whether counts are the model's own; False: a declared estimate."""
        ...

    def count(self, text: str) -> int:
        """Tokens of the text; special tokens in it count as plain text. Cost O(n), cached for repeated texts."""
        ...

    def clip(self, text: str, max_tokens: int) -> str:
        """The longest prefix of the text that ends between characters and has at most that many tokens."""
        ...


class Redactor(Protocol):
    """What takes out of a text what may not be stored; it runs before the journal and before anything is derived."""

    def redact(self, text: str) -> Redacted:
        """The text with a mark in place of each find, and the finds as places in the text as it was, in order.

        Rules    marks say in the text's language what was given; redacting a redacted text changes nothing.
        Raises   nothing, whatever the text.
        """
        ...


class Embedder(Protocol):
    """Texts as vectors: what means the same lies close."""

    @property
    def name(self) -> str:
        """The model with a digest of its weights: vectors of different names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        ...

    @property
    def piece_chars(self) -> int:
        """Characters up to which a text is embedded as a whole; longer ones are embedded in pieces."""
        ...

    @property
    def unrelated(self) -> float:
        """The cosine of texts that have nothing to do with each other; the zero of a vector score."""
        ...

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Unit vectors.

        Shapes   n texts; returns (n, dimension), float32, rows of length 1. An empty text has a vector too.
        kind     `query` or `passage`; models without that distinction ignore it.
        Safety   any number of threads. The same text gives the same vector, alone or in a batch, up to rounding.
        Raises   UnsupportedError if what the model needs is not installed; BackendError if it fails.
        """
        ...


class ReplyStream(Protocol):
    """A streamed reply: iterate over it once, with `for` or `async for`, for chunks as dicts in the wire's own shape.

    Raises   while iterating, as `ChatModel.create`. A stream that breaks off is not tried again: what came was given.
    """

    def __iter__(self) -> Iterator[dict[str, Any]]: ...

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]: ...

    def close(self) -> None:
        """Let go of the connection; after the end, or a second time, it does nothing. Leaving the loop does it too."""
        ...


class ChatModel(Protocol):
    """A language model behind an endpoint.

    Payload    keyword arguments of the provider's client, such as `Session.prepare` gives; `model` and, on Anthropic's
               wire, `max_tokens` are filled in where they are left out. It is never changed.
    timeout_s  seconds for the whole call, tries and waiting together; for a stream, until its end. None: the model's.
    Tries      rate limits (429), 5xx and lost connections are tried again after a growing, jittered wait, or the one
               that `Retry-After` names, while the deadline allows; other refusals never are.
    Cancel     `cancel`, or for awaited calls the task's own cancelling, closes the connection at once.
    Safety     any number of threads and event loops.
    Raises     UsageError for what the provider refuses (key, model, request: HTTP 400, 401, 403, 404, 422): no try
               would help; ModelError for all else; UnsupportedError if the provider's client is not installed.
               No message holds the key, or what was sent.
    """

    @property
    def name(self) -> str:
        """The model, as its provider calls it."""
        ...

    @property
    def wire(self) -> ModelWire:
        """The shape of payloads and replies."""
        ...

    @property
    def context_tokens(self) -> int:
        """The window. Asked of the endpoint once, where it tells; else what is known by name; 0: not known.

        Raises   nothing: an endpoint that does not answer tells nothing.
        """
        ...

    def create(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """The reply as plain data, with all that the provider put in; what `Session.absorb` takes."""
        ...

    async def acreate(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> dict[str, Any]:
        """See `create`."""
        ...

    def stream(
        self, payload: Mapping[str, Any], *, timeout_s: float | None = None, cancel: Cancel | None = None
    ) -> ReplyStream:
        """The reply in chunks, for `for` and `async for`; what `Session.absorb_stream` takes.

        The request goes out with the first chunk asked for. Counts of tokens are asked for where the wire has to be.
        """
        ...

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        timeout_s: float | None = None,
        cancel: Cancel | None = None,
    ) -> Completion:
        """One answer, for memory work.

        messages   `{"role": "system" | "user" | "assistant", "content": text}`, on every wire.
        schema     the answer is asked for as JSON under it: by the endpoint's own means, else in words. Every object
                   in it should be closed (`additionalProperties` false) with all members required.
        max_tokens of the answer; a reply that needs more ends with finish `length`, and then has no `data`.
        Raises     as `create`; ModelError `reply` for what is not a reply at all. An empty answer is no error.
        """
        ...

    async def acomplete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
        timeout_s: float | None = None,
        cancel: Cancel | None = None,
    ) -> Completion:
        """See `complete`."""
        ...

    def close(self) -> None:
        """Let go of connections; a second call does nothing."""
        ...


class Reranker(Protocol):
    """What puts texts in the order in which they answer a question."""

    @property
    def name(self) -> str:
        """The model that it asks."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """One number from 0 to 1 for each text, in their order; higher answers better. No texts: no call.

        Raises   as `ChatModel.complete`; ModelError `reply` if the model scored other texts than these.
        """
        ...
