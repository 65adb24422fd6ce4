"""Embedders of which nothing is known before they have answered once: how many numbers, what counts as unrelated."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import BackendError, UnsupportedError
from offprompt.protocols import EmbedKind

Vectors = NDArray[np.float32]

PIECE_CHARS: Final = 1000
UNRELATED: Final = 0.3
"""Until it is measured."""

PROBES: Final = (
    "The train to the coast leaves at a quarter past seven.",
    "My sister is allergic to walnuts.",
    "The invoice of March has not been paid yet.",
    "A violin has four strings.",
    "明天下午可能会下雨。",
    "他小时候学过三年钢琴。",
    "服务器昨晚重启了两次。",
    "这道菜要少放盐。",
)
"""Sentences that have nothing to do with each other."""


class LearningEmbedder(ABC):
    """An Embedder that measures itself with its first texts: eight sentences, embedded once in a process.

    dimension   what was said, else what came. Raises as `encode`, where it must be asked for.
    unrelated   the mean cosine of the eight sentences; .3 while there is no answer.
    """

    piece_chars = PIECE_CHARS

    def __init__(self, name: str, *, dimension: int = 0, batch: int = 64) -> None:
        self.name = f"{name}/{dimension}" if dimension else name
        self._told = f"the embedder {self.name} sent"
        self._said, self._batch = dimension, batch
        self._known: tuple[int, float] | None = None
        self._lock = threading.Lock()

    @property
    def dimension(self) -> int:
        """See Embedder."""
        return self._said or self._learnt()[0]

    @property
    def unrelated(self) -> float:
        """See Embedder."""
        try:
            return self._learnt()[1]
        except (BackendError, UnsupportedError):
            return UNRELATED

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Vectors:
        """Unit vectors; see Embedder.

        Raises   BackendError, UnsupportedError; also for fewer vectors than texts, of another size than the first ones,
                 or that point nowhere. Then there is none at all.
        """
        dimension = self._learnt()[0]
        return self._checked(texts, kind, dimension) if texts else np.zeros((0, dimension), np.float32)

    @abstractmethod
    def _vectors(self, texts: list[str], kind: EmbedKind) -> Vectors:
        """One vector for each text, none of them empty; of any length, unchecked."""
        ...

    def _learnt(self) -> tuple[int, float]:
        with self._lock:
            if self._known is None:
                vectors = self._checked(PROBES, "passage", self._said)
                cosines = vectors @ vectors.T
                others = cosines[~np.eye(len(PROBES), dtype=bool)]
                self._known = vectors.shape[1], float(np.clip(others.mean(), 0.0, 0.95))
            return self._known

    def _checked(self, texts: Sequence[str], kind: EmbedKind, dimension: int) -> Vectors:
        """Vectors in batches, each of length 1, or an error for all; dimension 0: any."""
        found: list[Vectors] = []
        for at in range(0, len(texts), self._batch):
            batch = [text.encode(errors="replace").decode() or " " for text in texts[at : at + self._batch]]
            vectors = self._vectors(batch, kind)
            if vectors.ndim != 2 or len(vectors) != len(batch):
                raise BackendError(f"{self._told} {len(vectors)} vectors for {len(batch)} texts; none is kept")
            dimension = dimension or vectors.shape[1]
            if vectors.shape[1] != dimension:
                raise BackendError(
                    f"{self._told} vectors of {vectors.shape[1]:,} numbers where {dimension:,} were due; none is "
                    "kept. Set the model that made the others, or name the new size behind it "
                    f'(embedder = "…/{vectors.shape[1]}") and reindex'
                )
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            if not np.isfinite(lengths).all() or not lengths.all():
                raise BackendError(f"{self._told} a vector that points nowhere (zeros, NaN); none is kept")
            found.append((vectors / lengths).astype(np.float32))
        return np.concatenate(found)
