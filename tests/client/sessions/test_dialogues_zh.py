"""Dialogues in Chinese over HTTP."""

from __future__ import annotations

import pytest

from tests.client.borrowed import borrowed
from tests.service import test_dialogues_zh

pytestmark = pytest.mark.long
globals().update(borrowed(test_dialogues_zh))
