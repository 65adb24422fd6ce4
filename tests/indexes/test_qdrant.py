"""Vectors in Qdrant: the client's own folder. What stands for a server is in test_qdrant_edge and test_qdrant_wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offprompt.indexes.qdrant import QdrantIndex
from offprompt.testing.suites import VectorIndexSuite
from offprompt.testing.vector_suite import OpenIndex


class TestFolder(VectorIndexSuite):
    """VectorIndex."""

    @pytest.fixture
    def open_index(self, tmp_path: Path) -> Iterator[OpenIndex]:
        opened: dict[str, QdrantIndex] = {}

        def make(embedder: str, dimension: int) -> QdrantIndex:
            opened[embedder] = QdrantIndex(f"qdrant:///{tmp_path}/q", embedder=embedder, dimension=dimension)
            return opened[embedder]

        yield make
        for index in opened.values():
            index.close()
