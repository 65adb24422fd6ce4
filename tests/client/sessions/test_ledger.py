"""Sessions over HTTP: ledger."""

from __future__ import annotations

import pytest

from tests.client.borrowed import borrowed
from tests.service import test_session_ledger

WITHOUT = (
    "test_the_chain_holds_and_breaks",  # it looks inside the store
)

pytestmark = pytest.mark.long
globals().update(borrowed(test_session_ledger, *WITHOUT))
