"""Dialogues over HTTP."""

from __future__ import annotations

from tests.client.borrowed import borrowed
from tests.service import test_dialogues_en

globals().update(borrowed(test_dialogues_en))
