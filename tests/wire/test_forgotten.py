"""Forgotten values are masked where they stand as words of their own."""

from __future__ import annotations

import pytest

from offprompt.wire.forgotten import Forgotten


@pytest.mark.parametrize(
    ("values", "text", "masked"),
    [
        (["Plover Lane 12"], "I live in plover  lane 12, mostly.", "I live in …, mostly."),
        (["Ann"], "Ann and Anna", "… and Anna"),
        (["Ann Lee", "Ann"], "Ann Lee, Ann", "…, …"),
        (["小雨"], "我妹妹小雨过敏", "我妹妹…过敏"),
        (["5", "雨"], "5 days of 雨", "5 days of 雨"),
        (["a.c"], "abc a.c", "abc …"),
        ([], "nothing", "nothing"),
    ],
)
def test_masked(values: list[str], text: str, masked: str) -> None:
    assert Forgotten.of(values).masked(text) == masked
