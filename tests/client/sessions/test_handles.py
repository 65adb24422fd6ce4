"""Handles over HTTP."""

from __future__ import annotations

from tests.client.borrowed import borrowed
from tests.service import test_session_handles

globals().update(borrowed(test_session_handles))
