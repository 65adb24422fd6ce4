"""A server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rest.running import Running, running


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A real server over a memory in process, which all tests of a module share: each takes a user of its own."""
    with running() as own:
        yield own
