"""The index that others are tested against keeps all its contracts."""

from __future__ import annotations

import pytest

from offprompt.testing.exact_vectors import ExactVectors
from offprompt.testing.suites import VectorIndexSuite
from offprompt.testing.vector_suite import OpenIndex


class TestExact(VectorIndexSuite):
    """VectorIndex."""

    @pytest.fixture
    def open_index(self) -> OpenIndex:
        return ExactVectors
