"""One embedder for each kind of memory, as one embedder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from offprompt.protocols import Embedder, EmbedKind
from offprompt.records import MemoryKind

Vectors = NDArray[np.float32]


class ByKindEmbedder:
    """Facts, episodes and passages by an embedder each; the vectors of each have numbers of their own.

    parts      by kind; two kinds may share one. It fails where one of them does.
    Memory     its kind's vector in that embedder's place, zeros in all others; length 1.
    Question   the vectors of all parts in their places, of one length each, together 1: its cosine to a memory is that
               of the memory's embedder, divided by `spread`.
    zeros      by kind, the cosine of unrelated texts in its own embedder.
    """

    def __init__(self, parts: Mapping[MemoryKind, Embedder]) -> None:
        self._parts = dict(parts)
        self._distinct = list({id(part): part for part in parts.values()}.values())
        self.spread = math.sqrt(len(self._distinct))
        self.piece_chars = min(part.piece_chars for part in self._distinct)

    @property
    def name(self) -> str:
        """The kinds with the names of their embedders."""
        return " ".join(f"{kind}={part.name}" for kind, part in self._parts.items())

    @property
    def dimension(self) -> int:
        """Numbers of all parts together."""
        return sum(part.dimension for part in self._distinct)

    @property
    def zeros(self) -> dict[str, float]:
        """See the class."""
        return {kind: part.unrelated for kind, part in self._parts.items()}

    @property
    def unrelated(self) -> float:
        """The cosine of a question to an unrelated fact."""
        return self._parts["fact"].unrelated / self.spread

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Vectors:
        """Unit vectors; see Embedder. Passages are facts here; see `placed` for others."""
        if kind == "passage":
            return self.placed("fact", self._parts["fact"].encode(texts, kind=kind))
        found = [part.encode(texts, kind=kind) for part in self._distinct]
        return (np.concatenate(found, axis=1) / self.spread).astype(np.float32)

    def part(self, kind: MemoryKind) -> Embedder:
        """The embedder of a kind."""
        return self._parts[kind]

    def placed(self, kind: MemoryKind, vectors: Vectors) -> Vectors:
        """The vectors of a kind's embedder in its place."""
        found = np.zeros((len(vectors), self.dimension), np.float32)
        at = self._place(kind)
        found[:, at : at + vectors.shape[1]] = vectors
        return found

    def asked(self, vector: NDArray[np.floating]) -> Vectors:
        """A fact's vector as a question for facts: shorter by `spread` in its place, so that cosines mean the same."""
        found = np.zeros(self.dimension, np.float32)
        own = self._place("fact")
        for part, at in zip(self._distinct, self._places(), strict=True):
            if at == own:
                found[at : at + part.dimension] = vector[at : at + part.dimension]
            else:
                # What stands here meets zeros in every fact.
                found[at] = 1.0
        return (found / self.spread).astype(np.float32)

    def _places(self) -> list[int]:
        sizes = [part.dimension for part in self._distinct]
        return [sum(sizes[:at]) for at in range(len(sizes))]

    def _place(self, kind: MemoryKind) -> int:
        part = self._parts[kind]
        return next(at for each, at in zip(self._distinct, self._places(), strict=True) if each is part)


def part_of(embedder: Embedder, kind: MemoryKind) -> Embedder:
    """The embedder of a kind of memory: itself, unless it is one for each."""
    return embedder.part(kind) if isinstance(embedder, ByKindEmbedder) else embedder


def placed(embedder: Embedder, kind: MemoryKind, vectors: Vectors) -> Vectors:
    """Vectors of `part_of` as the embedder's own."""
    return embedder.placed(kind, vectors) if isinstance(embedder, ByKindEmbedder) else vectors


def asked(embedder: Embedder, vector: NDArray[np.floating]) -> NDArray[np.floating]:
    """A fact's vector as a question for facts."""
    return embedder.asked(vector) if isinstance(embedder, ByKindEmbedder) else vector


def zeros_of(embedder: Embedder | None) -> tuple[dict[str, float], float]:
    """The cosines that count as 0 by kind (empty: one for all), and what a question's cosines are multiplied by."""
    return (embedder.zeros, embedder.spread) if isinstance(embedder, ByKindEmbedder) else ({}, 1.0)
