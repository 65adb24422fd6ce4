from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from offprompt.protocols import EmbedKind
from offprompt.recall.chunks import MAX_PIECES, embed, pieces


class Lengths:
    """A vector of two numbers: the length of the text and one."""

    name, dimension, piece_chars, unrelated = "lengths", 2, 10, 0.0

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        assert kind == "passage"
        self.seen += texts
        vectors = np.array([[len(text), 1] for text in texts], np.float32).reshape(-1, 2)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_sentences_stay_whole_in_both_languages() -> None:
    assert pieces("One two. Three four! Five?", 18) == ["One two.", "Three four! Five?"]
    assert pieces("她搬到了上海。她很高兴！真的吗？", 10) == ["她搬到了上海。", "她很高兴！ 真的吗？"]
    assert pieces("", 10) == [""]


@given(st.text(max_size=400), st.integers(1, 50))
def test_pieces_are_bounded_and_lose_only_space(text: str, size: int) -> None:
    found = pieces(text, size)
    assert 1 <= len(found) <= MAX_PIECES
    assert all(len(piece) <= size for piece in found)
    if len(found) < MAX_PIECES:
        assert "".join("".join(found).split()) == "".join(text.split())


def test_each_piece_carries_its_speaker_and_a_text_has_one_unit_vector() -> None:
    embedder = Lengths()
    vectors = embed(embedder, ["Short.", "A longer one. And more."], kind="passage", speakers=["Ann", ""])
    assert embedder.seen == ["Ann: Short.", "A longer o", "ne.", "And more."]
    assert vectors.shape == (2, 2)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert embed(embedder, [], kind="passage").shape == (0, 2)
