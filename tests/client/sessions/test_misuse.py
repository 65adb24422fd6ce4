"""Sessions over HTTP: misuse."""

from __future__ import annotations

import pytest

from tests.client.borrowed import borrowed
from tests.service import test_session_misuse

WITHOUT = (
    "test_a_reply_that_comes_back_trimmed_is_known_again",  # it looks inside the session
)

pytestmark = pytest.mark.long
globals().update(borrowed(test_session_misuse, *WITHOUT))
