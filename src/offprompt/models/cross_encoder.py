"""A cross-encoder as Reranker, by fastembed (an extra), which fetches the weights."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from offprompt.errors import BackendError, UnsupportedError

_FAILURES: Final = (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


@dataclass
class CrossEncoder:
    """A model that reads question and text together, on this machine, without a language model. Thread-safe.

    name   as fastembed knows it: `BAAI/bge-reranker-v2-m3`, `jinaai/jina-reranker-v2-base-multilingual`.
    Cost   nothing is loaded before the first question; then a pass of the model for each text, on one thread.
    """

    name: str
    _running: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @cached_property
    def _model(self) -> Any:
        try:
            made = import_module("fastembed.rerank.cross_encoder").TextCrossEncoder
        except ImportError as exc:
            raise UnsupportedError(
                "cross-encoders need fastembed, which is not installed; run: pip install 'offprompt[fastembed]'"
            ) from exc
        try:
            return made(self.name, threads=1)
        except _FAILURES as exc:
            raise BackendError(f"fastembed cannot load {self.name!r}: {exc}; check the model's name") from exc

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """See Reranker: the model's logits through the logistic function.

        Raises   UnsupportedError without fastembed; BackendError if the model cannot be had, or fails.
        """
        if not texts:
            return []
        with self._running:
            model = self._model
            try:
                logits = [float(each) for each in model.rerank(query, list(texts))]
            except _FAILURES as exc:
                raise BackendError(f"the cross-encoder {self.name} failed on {len(texts)} texts: {exc}") from exc
        if len(logits) != len(texts) or not all(map(math.isfinite, logits)):
            raise BackendError(
                f"the cross-encoder {self.name} gave {len(logits)} scores for {len(texts)} texts, or none"
            )
        return [1 / (1 + math.exp(-max(min(each, 60.0), -60.0))) for each in logits]
