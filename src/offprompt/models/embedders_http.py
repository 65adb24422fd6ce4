"""Embedders behind an endpoint for OpenAI's embeddings: OpenAI, Ollama, vLLM, llama.cpp, LM Studio."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from offprompt.errors import BackendError, UsageError
from offprompt.models.clients import Client, StatusError
from offprompt.models.embedder_names import embedding_model
from offprompt.models.endpoint import Endpoint
from offprompt.models.learning import LearningEmbedder, Vectors
from offprompt.models.retrying import Retries
from offprompt.protocols import EmbedKind
from offprompt.records import as_dict, as_list

SHORTENED: Final = "text-embedding-3"
"""Models that make their vectors as short as they are asked to."""


class Meter(Protocol):
    """What counts an embedder's tokens."""

    def allow(self) -> None:
        """Nothing, if texts may be sent.

        Raises   BackendError if the budget is spent.
        """
        ...

    def count(self, model: str, tokens: int) -> None:
        """So many tokens were sent."""
        ...


class EndpointEmbedder(LearningEmbedder):
    """A model behind `/embeddings`. Prefixes of queries and passages are put where its family wants them.

    dimension  0: what comes first. Else sent as `dimensions` to models that can be asked for it, and due from all.
    meter      asked before texts go out, told what the endpoint counted.
    Tries      as chat models'. Raises BackendError for all that goes wrong, a wrong key too: memory goes on by words.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        key: str = "",
        dimension: int = 0,
        timeout_s: float = 60.0,
        retries: Retries | None = None,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(f"{model}@endpoint", dimension=dimension)
        base = base_url.rstrip("/")
        make = partial(Client, "openai", base, key)
        where = f"{model!r} at {base}"
        self._endpoint = Endpoint(where, make, timeout_s=timeout_s, retries=retries or Retries(), key=key)
        self._model, self._family, self._meter = model, embedding_model(model), meter
        self._packed = True

    def _vectors(self, texts: list[str], kind: EmbedKind) -> Vectors:
        before = self._family.query if kind == "query" else self._family.passage
        body: dict[str, Any] = {"model": self._model, "input": [before + text for text in texts]}
        if self._family.typed:
            body["input_type"] = kind
        if self._said and self._model.startswith(SHORTENED):
            body["dimensions"] = self._said
        if self._meter is not None:
            self._meter.allow()
        try:
            reply = self._endpoint.call(lambda client: self._sent(client, body), body, None, None)
        except UsageError as exc:
            raise BackendError(str(exc)) from exc
        if self._meter is not None:
            tokens = (as_dict(reply.get("usage")) or {}).get("prompt_tokens")
            self._meter.count(self._model, tokens if isinstance(tokens, int) else 0)
        return self._read(as_list(reply.get("data")), len(texts))

    async def _sent(self, client: Client, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            packed = {"encoding_format": "base64"} if self._packed else {}
            try:
                return await client.post("/embeddings", body | packed, {})
            except StatusError as exc:
                if not self._packed or exc.status not in (400, 422) or "encoding" not in exc.says:
                    raise
                self._packed = False

    def _read(self, data: list[Any] | None, count: int) -> Vectors:
        """The vectors in the order of the texts, whatever order they came in."""
        items = [as_dict(item) or {} for item in data or ()]
        if len(items) != count:
            raise BackendError(f"{self._told} {len(items)} vectors for {count} texts; none is kept")
        numbers = [item.get("index", at) for at, item in enumerate(items)]
        if any(not isinstance(each, int) for each in numbers) or sorted(numbers) != list(range(count)):
            raise BackendError(f"{self._told} vectors for texts that it was not given; none is kept")
        rows = [_floats(item.get("embedding")) for item in items]
        if len({row.shape for row in rows}) != 1 or rows[0].ndim != 1 or not rows[0].size:
            raise BackendError(f"{self._told} vectors of different sizes, or none; none is kept")
        return np.stack([row for _, row in sorted(zip(numbers, rows, strict=True), key=lambda pair: pair[0])])


def _floats(sent: object) -> Vectors:
    """A vector as numbers, or as base64 of 32-bit ones; empty if it is neither."""
    try:
        if isinstance(sent, str):
            return np.frombuffer(base64.b64decode(sent, validate=True), "<f4").astype(np.float32)
        numbers: Sequence[Any] = as_list(sent) or ()
        with np.errstate(over="ignore"):  # infinite, and refused as such
            return np.asarray(numbers, np.float64).astype(np.float32)
    except (binascii.Error, ValueError, TypeError):
        return np.zeros(0, np.float32)
