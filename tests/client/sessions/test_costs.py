"""Sessions over HTTP: costs."""

from __future__ import annotations

import pytest

from tests.client.borrowed import borrowed
from tests.service import test_session_costs

pytestmark = pytest.mark.long
globals().update(borrowed(test_session_costs))
