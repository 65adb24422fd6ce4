"""Sessions over HTTP: policies of slots."""

from __future__ import annotations

import pytest

from tests.client.borrowed import borrowed
from tests.service import test_policies_shown

pytestmark = pytest.mark.long
globals().update(borrowed(test_policies_shown))
