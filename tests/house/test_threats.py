"""The threat model names only tests that are there."""

from __future__ import annotations

import re

from tests.house.tree import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_each_test_that_the_threat_model_names_is_there() -> None:
    named = NAMED.findall((ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    texts = {path: (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else "" for path, _ in named}
    assert [(path, name) for path, name in named if f"def {name or 'test_'}" not in texts[path]] == []
