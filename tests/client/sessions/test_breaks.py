"""Streams that break, of a session that a server keeps."""

from __future__ import annotations

from tests.client.borrowed import borrowed
from tests.service import test_session_breaks

globals().update(borrowed(test_session_breaks))
