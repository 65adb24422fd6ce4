"""Turns over HTTP."""

from __future__ import annotations

from tests.client.borrowed import borrowed
from tests.service import test_session

WITHOUT = (
    "test_a_second_call_at_the_same_time_is_a_conflict",  # of one object; that of workers is in test_workers
)

globals().update(borrowed(test_session, *WITHOUT))
