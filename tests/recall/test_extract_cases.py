"""The checks of extraction on sentences with known facts: what is true passes, what is not does not."""

from __future__ import annotations

import pytest

from bench.extraction import Language, cases, measured, said


@pytest.mark.parametrize(("language", "least"), [("en", 0.96), ("zh", 0.93)])
def test_what_is_true_passes(language: Language, least: float) -> None:
    counts = measured(said(cases(), language), language, "true", "normal")
    assert counts["kept"] >= least * counts.total()


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("kind", ["invented", "denied"])
def test_what_is_invented_or_turned_round_does_not(language: Language, kind: str) -> None:
    counts = measured(said(cases(), language), language, "invented" if kind == "invented" else "denied", "normal")
    assert counts.total() > 100
    assert counts["kept"] <= 1
