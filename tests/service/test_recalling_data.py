"""Turns that left on real logs: ordinary turns carry hardly a byte of them, questions bring them back."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.recalled import logs, measure

pytestmark = pytest.mark.data


@pytest.mark.illegal  # logs have fields of their own in their messages
@pytest.mark.parametrize("name", ["airline 21-40", "chat 3"])
def test_ordinary_turns_bring_hardly_anything_back_and_questions_do(data: Path, name: str) -> None:
    figures = measure(next(log for log in logs(data) if log.name == name))
    assert figures.turns > 80
    assert figures.recalled / figures.turns < 0.04
    assert figures.tokens / figures.turns < 8
    assert figures.small == 0, "small talk and other subjects"
    assert figures.found >= figures.asked - 1
