"""The providers' own clients, with a session that a server keeps."""

from __future__ import annotations

from tests.client.borrowed import borrowed
from tests.service import test_session_sdk

WITHOUT = (
    "test_async_clients",  # in test_workers, with an AsyncClient
    "test_the_upstream_is_strict",  # it asks no session
    "test_async_session_is_session",  # in test_workers
)

globals().update(borrowed(test_session_sdk, *WITHOUT))
