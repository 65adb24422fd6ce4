"""A canary in a `never` slot of a server: no request that it prepares, no answer and no event lets it out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offprompt.client.scopes import BoundScope
from offprompt.testing import MovedClock
from tests.client.alternating import workers
from tests.client.borrowed import borrowed
from tests.service import test_canary
from tests.service.canary import plant

pytestmark = pytest.mark.long
TRIES_ALL = "test_a_model_that_tries_everything_gets_nothing"
"""The others search what is not a server's, or what no entrance changes."""

tests = borrowed(test_canary)
globals().update({name: each for name, each in tests.items() if name == TRIES_ALL or not name.startswith("test_")})


@pytest.fixture
def ann(tmp_path: Path, clock: MovedClock) -> Iterator[BoundScope]:
    """In place of the borrowed tests' own."""
    limits = {"max_value_bytes": 1000, "window_high_tokens": 9000, "window_low_tokens": 3000}
    with workers(tmp_path / "agent.db", clock, **limits) as own:
        scope: Any = own.scope("ann")
        plant(scope)
        yield scope
