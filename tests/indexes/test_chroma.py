"""Vectors in a Chroma server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from offprompt.indexes.chroma import ChromaIndex
from offprompt.testing.suites import VectorIndexSuite
from offprompt.testing.vector_suite import OpenIndex
from tests.servers import Server


def url_of(server: Server, options: str = "") -> str:
    return f"chroma://127.0.0.1:{server.port}?collection=t{uuid.uuid4().hex}{options}"


class TestServer(VectorIndexSuite):
    """VectorIndex."""

    @pytest.fixture
    def open_index(self, chroma_server: Server) -> Iterator[OpenIndex]:
        url, opened = url_of(chroma_server), list[ChromaIndex]()

        def make(embedder: str, dimension: int) -> ChromaIndex:
            opened.append(ChromaIndex(url, embedder=embedder, dimension=dimension))
            return opened[-1]

        yield make
        for index in opened:
            index.drop()
            index.close()
