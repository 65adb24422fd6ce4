"""fastembed and sentence-transformers against stand-ins of their classes: their weights cannot be had everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from offprompt import BackendError
from offprompt.models import embedders_extra
from offprompt.models.embedders import embedder_for
from offprompt.models.embedders_extra import FastEmbedEmbedder, SentenceTransformersEmbedder
from offprompt.models.learning import PROBES

SAID: list[tuple[str, str]] = []


def vectors(kind: str, texts: list[str]) -> NDArray[np.float64]:
    SAID.extend((kind, text) for text in texts if not any(probe in text for probe in PROBES))
    if "fail" in texts[0]:
        raise RuntimeError("out of memory")
    return np.array([[1.0 + len(text) % 5, len(text) % 7, len(text) % 3] for text in texts])


class TextEmbedding:
    """As fastembed's looks from outside."""

    def __init__(self, model_name: str, *, threads: int) -> None:
        if model_name == "unknown":
            raise ValueError("Model unknown is not supported")
        assert threads == 1

    def query_embed(self, texts: list[str]) -> Iterator[NDArray[np.float64]]:
        return iter(vectors("query", texts))

    def passage_embed(self, texts: list[str]) -> Iterator[NDArray[np.float64]]:
        return iter(vectors("passage", texts))


class SentenceTransformer:
    """As that of sentence-transformers looks from outside."""

    def __init__(self, model_name: str) -> None:
        if model_name == "unknown":
            raise OSError("unknown is not a local folder and is not a valid model identifier")

    def encode_query(self, texts: list[str], *, show_progress_bar: bool) -> NDArray[np.float64]:
        assert not show_progress_bar
        return vectors("query", texts)

    def encode_document(self, texts: list[str], *, show_progress_bar: bool) -> NDArray[np.float64]:
        assert not show_progress_bar
        return vectors("passage", texts)


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    SAID.clear()
    modules: dict[str, Any] = {
        "fastembed": SimpleNamespace(TextEmbedding=TextEmbedding),
        "sentence_transformers": SimpleNamespace(SentenceTransformer=SentenceTransformer),
    }
    monkeypatch.setattr(embedders_extra, "import_module", modules.__getitem__)


@pytest.mark.parametrize("made", [FastEmbedEmbedder("m"), SentenceTransformersEmbedder("m")], ids=["fast", "sentence"])
def test_queries_and_passages_are_told_apart(made: Any) -> None:
    found = made.encode(["绿茶"], kind="query")
    assert (found.shape, found.dtype, made.dimension) == ((1, 3), np.float32, 3)
    assert np.linalg.norm(found[0]) == pytest.approx(1)
    made.encode(["tea"], kind="passage")
    assert SAID == [("query", "绿茶"), ("passage", "tea")]
    assert 0 < made.unrelated < 1


def test_fastembed_gets_the_prefixes_of_the_family() -> None:
    made = embedder_for("fastembed:intfloat/multilingual-e5-large/3")
    assert made is not None
    made.encode(["tea"], kind="query")
    made.encode(["tea"], kind="passage")
    assert SAID == [("query", "query: tea"), ("passage", "passage: tea")]
    assert made.name == "intfloat/multilingual-e5-large@fastembed/3"


def test_another_size_than_the_due_one_is_refused() -> None:
    made = embedder_for("sentence-transformers:all-MiniLM-L6-v2")
    assert made is not None
    with pytest.raises(BackendError, match="3 numbers where 384 were due"):
        made.encode(["tea"], kind="query")


@pytest.mark.parametrize("kind", [FastEmbedEmbedder, SentenceTransformersEmbedder])
def test_what_fails_is_a_backend_error(kind: Any) -> None:
    with pytest.raises(BackendError, match="cannot load 'unknown'"):
        kind("unknown").encode(["tea"], kind="query")
    with pytest.raises(BackendError, match="failed on 1 texts: out of memory"):
        kind("m").encode(["fail"], kind="query")
