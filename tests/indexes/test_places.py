"""What all indexes outside share: URLs, names of collections, errors that say the way out and never a key."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from offprompt.errors import BackendError, UnsupportedError, UsageError
from offprompt.indexes._places import collection_of, parse_index_url
from offprompt.indexes.chroma import ChromaIndex
from offprompt.indexes.qdrant import QdrantIndex
from offprompt.protocols import VectorIndex
from offprompt.records import Sought
from offprompt.testing.kit import ALICE
from offprompt.testing.vector_suite import DIMENSION, EMBEDDER, direction, entry
from tests.servers import Server, free_port

Make = Callable[..., VectorIndex]
SCHEMES: list[tuple[str, Make]] = [("qdrant", QdrantIndex), ("chroma", ChromaIndex)]


@pytest.fixture(params=SCHEMES, ids=["qdrant", "chroma"])
def engine(request: pytest.FixtureRequest) -> tuple[str, Make]:
    return request.param


def opened(engine: tuple[str, Make], rest: str) -> VectorIndex:
    scheme, make = engine
    return make(f"{scheme}{rest}", embedder=EMBEDDER, dimension=DIMENSION)


@contextmanager
def mute_server() -> Generator[int]:
    """A server that takes connections and never says a word; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken: list[socket.socket] = []
        threading.Thread(target=lambda: _take_all(listening, taken), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        for connection in taken:
            connection.close()


def _take_all(listening: socket.socket, taken: list[socket.socket]) -> None:
    while True:
        try:
            taken.append(listening.accept()[0])
        except OSError:
            return


def test_a_url_names_host_port_key_and_options() -> None:
    url = parse_index_url("qdrant+https://:s%40cret@db.example?collection=mine&timeout_s=2.5", port=6333)
    assert (url.host, url.port, url.tls, url.key, url.collection, url.timeout_s) == (
        "db.example",
        6333,
        True,
        "s@cret",
        "mine",
        2.5,
    )
    assert str(url) == "qdrant+https://db.example:6333"
    assert parse_index_url("qdrant://key@[::1]:7000", port=6333, key="other").key == "key"
    assert parse_index_url("chroma://h", port=8000, key="given").key == "given"
    assert (parse_index_url("qdrant:///a b/c", port=1).path, parse_index_url("qdrant:////a", port=1).path) == (
        "a b/c",
        "/a",
    )


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("://", "names no place"),
        ("://h:x", "write .*://HOST:PORT"),
        ("://h/path", "behind the host"),
        ("://h?colection=x", "unknown option 'colection'; the options are collection, timeout_s"),
        ("://h?collection=a/b", "letters, digits"),
        ("://h?timeout_s=soon", "seconds above 0"),
        ("://h?timeout_s=-1", "seconds above 0"),
    ],
)
def test_a_wrong_url_says_what_would_be_right(engine: tuple[str, Make], rest: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        opened(engine, rest)


def test_chroma_is_no_folder() -> None:
    with pytest.raises(UsageError, match="chroma://HOST:PORT"):
        opened(SCHEMES[1], ":///folder")


def test_each_embedder_has_a_collection_of_its_own() -> None:
    url = parse_index_url("qdrant://h", port=1)
    names = {collection_of(url, name) for name in ("use@1", "use@2", "模型", "模型二", "a" * 300, "a" * 301)}
    assert len(names) == 6
    assert all(name.startswith("offprompt-") and name.isascii() and len(name) < 64 for name in names)


def test_a_server_that_is_not_there_is_said_without_its_key(engine: tuple[str, Make]) -> None:
    port = free_port()
    secure = "+https" if engine[0] == "qdrant" else ""  # its client warns of a key on a connection that others can read
    index = opened(engine, f"{secure}://:very-secret@127.0.0.1:{port}")
    for call in (
        index.count,
        lambda: index.upsert([entry("m_a")]),
        lambda: index.nearest(direction(1), Sought(ALICE), limit=1),
        index.drop,
    ):
        with pytest.raises(
            BackendError, match=rf"{engine[0]}(\+https)?://127.0.0.1:{port} does not answer: .*; start it"
        ) as said:
            call()
        assert "very-secret" not in str(said.value)
    index.close()


def test_a_server_that_never_answers_is_waited_for_as_long_as_the_url_says(engine: tuple[str, Make]) -> None:
    with mute_server() as port:
        index = opened(engine, f"://127.0.0.1:{port}?timeout_s=1")
        with pytest.raises(BackendError, match="does not answer"):
            index.count()
        index.close()


def test_a_client_that_is_not_installed_is_named(engine: tuple[str, Make], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, {"qdrant": "qdrant_client", "chroma": "chromadb"}[engine[0]], None)
    with pytest.raises(UnsupportedError, match=rf"pip install 'offprompt\[{engine[0]}\]'"):
        opened(engine, "://h")


def test_a_collection_of_another_dimension_is_an_error_at_the_first_use(tmp_path: Path, chroma_server: Server) -> None:
    from qdrant_client import QdrantClient, models  # noqa: PLC0415

    folder = f"qdrant:///{tmp_path}/q"
    name = collection_of(parse_index_url(folder, port=1), EMBEDDER)
    client = QdrantClient(path=str(tmp_path / "q"))
    client.create_collection(name, models.VectorParams(size=5, distance=models.Distance.COSINE))
    client.close()
    server = f"chroma://127.0.0.1:{chroma_server.port}?collection=wrong"
    smaller = ChromaIndex(server, embedder=EMBEDDER, dimension=5)
    smaller.upsert([entry("m_a", vector=np.ones(5, np.float32))])
    smaller.close()
    for url, make in ((folder, QdrantIndex), (server, ChromaIndex)):
        index = make(url, embedder=EMBEDDER, dimension=DIMENSION)
        for call in (index.count, lambda index=index: index.upsert([entry("m_a")])):
            with pytest.raises(UsageError, match=rf"has vectors of 5 numbers, and {EMBEDDER} makes {DIMENSION}; give"):
                call()
        index.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client leaves its lock file open
def test_a_folder_that_another_process_has_open_is_said(tmp_path: Path) -> None:
    import portalocker  # noqa: PLC0415 - of the client

    first = opened(SCHEMES[0], f":///{tmp_path}")
    first.upsert([entry("m_a")])
    first.close()
    with portalocker.Lock(tmp_path / ".lock", "r+", flags=portalocker.LockFlags.EXCLUSIVE):
        index = opened(SCHEMES[0], f":///{tmp_path}")
        with pytest.raises(BackendError, match="already accessed by another instance"):
            index.count()
    assert index.count() == 1
    index.close()


def test_an_index_that_somebody_dropped_is_made_anew(chroma_server: Server, tmp_path: Path) -> None:
    url = f"chroma://127.0.0.1:{chroma_server.port}?collection=dropped"
    for make, where in ((ChromaIndex, url), (QdrantIndex, f"qdrant:///{tmp_path}")):
        index, other = (make(where, embedder=EMBEDDER, dimension=DIMENSION) for _ in range(2))
        index.upsert([entry("m_a")])
        assert other.count() == 1
        index.drop()
        other.upsert([entry("m_b", vector=np.asarray(direction(3)))])
        assert index.count() == 1
        index.close()
        other.close()
