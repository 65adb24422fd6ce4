"""Secrets over HTTP."""

from __future__ import annotations

from tests.client.borrowed import borrowed
from tests.service import test_session_secrets

WITHOUT = (
    "test_a_value_of_any_size_is_refused_by_its_size",  # a body of that size is refused before it is a value
)

globals().update(borrowed(test_session_secrets, *WITHOUT))
