"""The cross-encoder against a stand-in of fastembed: its weights cannot be had everywhere."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

import offprompt
from offprompt import BackendError, UnsupportedError
from offprompt.models import cross_encoder
from offprompt.models.cross_encoder import CrossEncoder


class StandIn:
    """What fastembed's class looks like from outside."""

    logits: Any = (2.0, -700.0, 0.0)

    def __init__(self, name: str, *, threads: int) -> None:
        if name == "unknown":
            raise ValueError("Model unknown is not supported")
        assert threads == 1

    def rerank(self, query: str, documents: list[str]) -> Any:
        del query
        return iter(self.logits[: len(documents)])


@pytest.fixture(autouse=True)
def fastembed(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"fastembed.rerank.cross_encoder": SimpleNamespace(TextCrossEncoder=StandIn)}
    monkeypatch.setattr(cross_encoder, "import_module", modules.__getitem__)


def test_scores_are_between_0_and_1_in_the_order_of_the_texts() -> None:
    found = CrossEncoder("m").scores("q", ["a", "b", "c"])
    assert found[0] == pytest.approx(1 / (1 + math.exp(-2)))
    assert 0 <= found[1] < 1e-20
    assert found[2] == 0.5
    assert CrossEncoder("unknown").scores("q", []) == [], "no texts: nothing is loaded"


def test_it_reranks_a_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandIn, "logits", (0.0, 1.0, 2.0, 3.0))
    ada = offprompt.open(":memory:").scope(user="ada")
    ada.remember(["I live in Ulm.", "I lived in Graz before.", "I live near a lake."], derive="none")
    plain = [hit.text for hit in ada.recall("Where do I live?")]
    assert [hit.text for hit in ada.recall("Where do I live?", rerank=CrossEncoder("m"))] == plain[::-1]


@pytest.mark.parametrize("logits", [(1.0,), (1.0, math.nan), (1.0, "x")])
def test_what_is_wrong_is_an_error_and_leaves_the_order(monkeypatch: pytest.MonkeyPatch, logits: Any) -> None:
    monkeypatch.setattr(StandIn, "logits", logits)
    with pytest.raises(BackendError, match="m"):
        CrossEncoder("m").scores("q", ["a", "b"])
    ada = offprompt.open(":memory:").scope(user="ada")
    ada.remember(["I live in Ulm.", "I lived in Graz before."], derive="none")
    assert ada.recall("Where do I live?", rerank=CrossEncoder("m")).degraded.startswith("not reranked")


def test_without_fastembed_or_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match="cannot load 'unknown'"):
        CrossEncoder("unknown").scores("q", ["a"])

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(cross_encoder, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"pip install 'offprompt\[fastembed\]'"):
        CrossEncoder("m").scores("q", ["a"])
