"""Long text in pieces that an embedder reads well, and one vector of them again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.protocols import Embedder, EmbedKind

MAX_PIECES: Final = 64
"""Pieces of one text that are embedded; what comes after is found by its words."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def pieces(text: str, max_chars: int) -> list[str]:
    """Whole sentences together up to max_chars; a longer sentence is cut. At least one piece, at most MAX_PIECES."""
    found: list[str] = []
    held = ""
    for part in _SENTENCE_END.split(text):
        sentence = part.strip()
        if held and len(held) + len(sentence) >= max_chars:
            found.append(held)
            held = ""
        held = f"{held} {sentence}".strip()
        while len(held) > max_chars:
            found.append(held[:max_chars])
            held = held[max_chars:].strip()
        if len(found) >= MAX_PIECES:
            return found[:MAX_PIECES]
    return [*found, held] if held or not found else found


def embed(
    embedder: Embedder, texts: Sequence[str], *, kind: EmbedKind, speakers: Sequence[str] = ()
) -> NDArray[np.float32]:
    """One unit vector for each text: the mean of its pieces' vectors.

    speakers  of each text, or none; the name stands before each piece ("Speaker: …"), because who says it is part of
              what a turn means.
    Shapes    n texts; returns (n, embedder.dimension), rounded to half precision as they are stored.
    Cost      one encode of all pieces; embedder.piece_chars bounds their length.
    Source    Wieting et al. 2016, "Towards universal paraphrastic sentence embeddings", for the mean.
    """
    named = [f"{name}: " if name else "" for name in speakers] or [""] * len(texts)
    cut = [
        [f"{name}{piece}" for piece in pieces(text, embedder.piece_chars)]
        for name, text in zip(named, texts, strict=True)
    ]
    vectors = embedder.encode([piece for each in cut for piece in each], kind=kind)
    means = np.zeros((len(texts), embedder.dimension), np.float32)
    np.add.at(means, np.repeat(np.arange(len(cut)), [len(each) for each in cut]), vectors)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return (means / np.maximum(lengths, np.float32(1e-9))).astype(np.float16).astype(np.float32)
