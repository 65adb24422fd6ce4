"""Stored values in text, plain form: as they are, and as JSON writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

PROVABLE_CHARS: Final = 8


def find_values(text: str, values: Mapping[str, str]) -> list[str]:
    """The names whose whole value stands in the text, as it is or JSON-escaped, in the order of `values`.

    Values of fewer than 8 characters are not looked for: they stand everywhere by chance. Cost O(values · text).
    """
    return [
        name
        for name, value in values.items()
        if len(value) >= PROVABLE_CHARS and (value in text or json.dumps(value, ensure_ascii=False)[1:-1] in text)
    ]


def unproven(values: Mapping[str, str]) -> list[str]:
    """The names whose value is too short to look for; empty values count as nothing."""
    return [name for name, value in values.items() if 0 < len(value) < PROVABLE_CHARS]
