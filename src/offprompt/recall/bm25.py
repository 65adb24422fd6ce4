"""How rare a term is, for all word scores; and the constants of those over memories."""

from __future__ import annotations

import math
from typing import Final

K1: Final = 0.9
B: Final = 0.4
"""As in Lin et al. 2021, "Pyserini: a Python toolkit for reproducible information retrieval research"."""


def idf(texts: int, holders: int) -> float:
    """How rare a term is that `holders` of so many texts hold; never below 0.

    Source   Robertson & Zaragoza 2009, "The probabilistic relevance framework: BM25 and beyond", with 1 + … in the
             logarithm so that no term counts against a text.
    """
    return math.log(1 + (texts - holders + 0.5) / (holders + 0.5))
