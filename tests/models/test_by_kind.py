"""One embedder for each kind of memory: each is found by its own, and scores mean what they mean alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import offprompt
from offprompt import BackendError, UsageError
from offprompt.models.by_kind import ByKindEmbedder, asked, part_of, placed, zeros_of
from offprompt.protocols import Embedder, EmbedKind
from offprompt.service.reindexing import waiting
from tests.servers import Server, openai_url


class Letters:
    """Counts letters from one on, in so many numbers, over a ground that all texts share."""

    piece_chars = 100

    def __init__(self, dimension: int, ground: float) -> None:
        self.dimension, self.ground = dimension, ground
        self.name = f"letters-{dimension}"
        self.unrelated = 0.6 if ground else 0.1
        self.asked: list[tuple[str, str]] = []
        self.fails = False

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        if self.fails:
            raise BackendError(f"{self.name} is not there")
        self.asked += [(kind, text) for text in texts]
        rows = [
            [self.ground + sum(ord(c) % self.dimension == at for c in text) for at in range(self.dimension)]
            for text in texts
        ]
        found = np.array(rows, np.float32) + np.float32(0.01)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def both() -> tuple[Letters, Letters, ByKindEmbedder]:
    small, large = Letters(7, 0.0), Letters(11, 5.0)
    return small, large, ByKindEmbedder({"fact": small, "episode": large, "passage": large})


def test_a_question_is_as_close_to_a_memory_as_by_its_own_embedder() -> None:
    small, large, made = both()
    assert (made.dimension, made.spread**2) == (18, pytest.approx(2))
    question = made.encode(["where is the tea"], kind="query")[0]
    assert np.linalg.norm(question) == pytest.approx(1, abs=1e-6)
    for kind, own in (("fact", small), ("episode", large), ("passage", large)):
        vectors = own.encode(["the tea is here", "no coffee"], kind="passage")
        there = made.placed(kind, vectors)  # type: ignore[arg-type]
        assert np.allclose(np.linalg.norm(there, axis=1), 1, atol=1e-6)
        alone = vectors @ own.encode(["where is the tea"], kind="query")[0]
        assert np.allclose(there @ question * made.spread, alone, atol=1e-5)
    assert made.zeros == {"fact": 0.1, "episode": 0.6, "passage": 0.6}


def test_a_facts_vector_asks_for_facts() -> None:
    small, _, made = both()
    vectors = small.encode(["the tea is here", "no coffee"], kind="passage")
    there = made.placed("fact", vectors)
    question = asked(made, there[0])
    assert np.linalg.norm(question) == pytest.approx(1, abs=1e-6)
    assert np.allclose(there @ question * made.spread, vectors @ vectors[0], atol=1e-5)


def test_one_embedder_is_what_it_was() -> None:
    small = Letters(7, 0.0)
    vectors = small.encode(["tea"], kind="passage")
    assert part_of(small, "episode") is small
    assert placed(small, "episode", vectors) is vectors
    assert asked(small, vectors[0]) is not None
    assert (zeros_of(small), zeros_of(None)) == (({}, 1.0), ({}, 1.0))


def take_for(monkeypatch: pytest.MonkeyPatch, small: Letters, large: Letters) -> None:
    named: dict[str, Embedder] = {"use": small, "openai:other": large}

    def made(name: str, **_: object) -> Embedder:
        return named[name]

    monkeypatch.setattr("offprompt.models.embedders.embedder_for", made)


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Letters, Letters]:
    """A memory with two embedders, and the two."""
    small, large, _ = both()
    take_for(monkeypatch, small, large)
    return offprompt.open(":memory:", embedder_episodes="openai:other"), small, large


def test_each_kind_is_embedded_by_its_own(mixed: tuple[Any, Letters, Letters]) -> None:
    mem, small, large = mixed
    ada = mem.scope(user="ada")
    ada.remember("The tea is in the cupboard.", derive="none")
    ada.remember({"role": "user", "content": "The coffee is in the drawer."}, derive="none")
    assert [text for _, text in small.asked] == ["The tea is in the cupboard."]
    assert [text for _, text in large.asked] == ["The coffee is in the drawer."]
    assert waiting(mem.parts.memories.kit) == 0
    found = ada.recall("Where is the coffee?", explain=True, floor=0.0)
    assert {hit.memory.kind for hit in found} == {"fact", "episode"}
    for hit, own in ((hit, small if hit.memory.kind == "fact" else large) for hit in found):
        vectors = own.encode([hit.text], kind="passage") @ own.encode(["Where is the coffee?"], kind="query").T
        alone = max(0.0, (float(vectors[0, 0]) - own.unrelated) / (1 - own.unrelated))
        assert hit.parts.get("vector", 0.0) == pytest.approx(0.4 * alone, abs=2e-3)


def test_where_one_fails_memories_wait_and_are_found_by_words(mixed: tuple[Any, Letters, Letters]) -> None:
    mem, _, large = mixed
    ada = mem.scope(user="ada")
    large.fails = True
    ada.remember("The tea is in the cupboard.", derive="none")
    ada.remember({"role": "user", "content": "The coffee is in the drawer."}, derive="none")
    assert waiting(mem.parts.memories.kit) == 1
    found = ada.recall("Where is the coffee?")
    assert found[0].text == "The coffee is in the drawer."
    assert "words alone" in found.degraded
    large.fails = False
    assert ada.memories.reindex().done == 1
    assert ada.recall("Where is the coffee?").degraded == ""


def test_near_duplicates_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large, _ = both()
    take_for(monkeypatch, small, large)
    mem = offprompt.open(":memory:", embedder_episodes="openai:other", merge_cosine=0.9)
    ada = mem.scope(user="ada")
    assert ada.remember("The tea is in the big cupboard.", derive="none")[0].outcome == "added"
    assert ada.remember("The tea is in a big cupboard.", derive="none")[0].outcome == "merged"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"embedder_episodes": "word2vec"}, "'word2vec' is not known"),
        ({"embedder": "none", "embedder_passages": "use"}, "for all kinds of memory or for none"),
        ({"embedder_episodes": "none"}, "for all kinds of memory or for none"),
    ],
)
def test_what_does_not_fit_is_said_when_memory_is_opened(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        offprompt.open(":memory:", **settings)


def test_the_same_embedder_for_all_kinds_is_one() -> None:
    kit = offprompt.open(":memory:", embedder_episodes="use", embedder_passages="use").parts.memories.kit
    assert kit.embedder is not None
    assert not isinstance(kit.embedder, ByKindEmbedder)


def test_two_real_ones_side_by_side(embeddings_server: Server) -> None:
    ada = offprompt.open(
        ":memory:", embedder_episodes="openai:multilingual-e5-small-q4", embedder_url=openai_url(embeddings_server)
    ).scope(user="ada")
    ada.remember(["My cat likes fish.", "The train to Ulm is late."], derive="none")
    said = ("我的狗喜欢跑步。", "My dog likes long walks.")
    ada.remember([{"role": "user", "content": text} for text in said], derive="none")
    assert ada.recall("What does my pet cat like to eat?")[0].text == "My cat likes fish."
    assert ada.recall("What does my dog enjoy?", kinds=["episode"])[0].text == "My dog likes long walks."
    assert ada.recall("What does my dog enjoy?").degraded == ""
