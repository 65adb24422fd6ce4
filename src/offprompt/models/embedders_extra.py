"""Embedders of libraries that fetch their weights themselves: fastembed and sentence-transformers, both extras."""

from __future__ import annotations

import threading
from functools import cached_property
from importlib import import_module
from typing import Any, Final

import numpy as np

from offprompt.errors import BackendError, UnsupportedError
from offprompt.models.embedder_names import embedding_model
from offprompt.models.learning import LearningEmbedder, Vectors
from offprompt.protocols import EmbedKind

_FAILURES: Final = (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


class FastEmbedEmbedder(LearningEmbedder):
    """A model that fastembed runs, by ONNX on one thread. Prefixes are put where the family wants them."""

    def __init__(self, model: str, *, dimension: int = 0) -> None:
        super().__init__(f"{model}@fastembed", dimension=dimension)
        self._model_name, self._family, self._running = model, embedding_model(model), threading.Lock()

    @cached_property
    def _model(self) -> Any:
        try:
            made = import_module("fastembed").TextEmbedding
        except ImportError as exc:
            raise _lacking("fastembed") from exc
        try:
            return made(self._model_name, threads=1)
        except _FAILURES as exc:
            raise BackendError(f"fastembed cannot load {self._model_name!r}: {exc}; check the model's name") from exc

    def _vectors(self, texts: list[str], kind: EmbedKind) -> Vectors:
        before = self._family.query if kind == "query" else self._family.passage
        with self._running:
            encode = self._model.query_embed if kind == "query" else self._model.passage_embed
            try:
                return np.asarray(list(encode([before + text for text in texts])), np.float32)
            except _FAILURES as exc:
                raise BackendError(f"the embedder {self.name} failed on {len(texts)} texts: {exc}") from exc


class SentenceTransformersEmbedder(LearningEmbedder):
    """A model that sentence-transformers runs, with the prompts that it brings for queries and documents."""

    def __init__(self, model: str, *, dimension: int = 0) -> None:
        super().__init__(f"{model}@sentence-transformers", dimension=dimension)
        self._model_name, self._running = model, threading.Lock()

    @cached_property
    def _model(self) -> Any:
        try:
            made = import_module("sentence_transformers").SentenceTransformer
        except ImportError as exc:
            raise _lacking("sentence-transformers") from exc
        try:
            return made(self._model_name)
        except _FAILURES as exc:
            raise BackendError(
                f"sentence-transformers cannot load {self._model_name!r}: {exc}; check the model's name"
            ) from exc

    def _vectors(self, texts: list[str], kind: EmbedKind) -> Vectors:
        with self._running:
            encode = self._model.encode_query if kind == "query" else self._model.encode_document
            try:
                return np.asarray(encode(texts, show_progress_bar=False), np.float32)
            except _FAILURES as exc:
                raise BackendError(f"the embedder {self.name} failed on {len(texts)} texts: {exc}") from exc


def _lacking(extra: str) -> UnsupportedError:
    return UnsupportedError(f"the embedder {extra!r} is not installed; run: pip install 'offprompt[{extra}]'")
