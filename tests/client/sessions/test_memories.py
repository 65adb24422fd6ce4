"""Sessions over HTTP: memories."""

from __future__ import annotations

import pytest

from tests.client.borrowed import borrowed
from tests.service import test_session_memories

WITHOUT = (
    "test_the_recalled_is_frozen_for_the_turn_and_counts_as_used",  # a worker stores uses with its own next write
)

pytestmark = pytest.mark.long
globals().update(borrowed(test_session_memories, *WITHOUT))
