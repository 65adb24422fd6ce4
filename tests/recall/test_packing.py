from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.errors import BackendError
from offprompt.recall.docs import analyse
from offprompt.recall.packing import pack, unpack


@given(st.text(max_size=80), st.booleans())
def test_content_comes_back_as_it_was(text: str, with_vector: bool) -> None:
    vector = np.linspace(-1, 1, 8, dtype=np.float32) if with_vector else None
    before = analyse(text, speaker="Ann", event_at=1.7e9, vector=vector)
    after = unpack(pack(before))
    assert after is not None
    assert (after.terms, after.times, after.asks) == (before.terms, before.times, before.asks)
    assert (after.vector is None) == (before.vector is None)
    assert after.vector is None or np.array_equal(after.vector, np.asarray(before.vector))


def test_another_format_is_told_from_damage() -> None:
    data = pack(analyse("green tea 绿茶"))
    assert unpack(b"\xff" + data[1:]) is None
    for cut in (1, 5, len(data) - 1):
        with pytest.raises(BackendError, match="damaged"):
            unpack(data[:cut])


def test_a_packed_text_is_small() -> None:
    text = "She moved to Shanghai in May because her company opened an office there"
    assert len(pack(analyse(text))) < 2 * len(text)
