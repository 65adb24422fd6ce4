"""The JSON schema of a model's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from offprompt.recall.extract.records import ACTIONS

MAX_PER_TURN: Final = 4
"""Decisions that an answer may hold for each turn, plus four."""


def most_decisions(turns: int) -> int:
    """How many decisions an answer about so many turns may hold."""
    return MAX_PER_TURN * (turns + 1)


def schema_of(turns: int, known: int, categories: Sequence[str] = ()) -> dict[str, Any]:
    """The schema of decisions about turns 1 to `turns` and memories 1 to `known` (0 names none).

    Every object is closed, all members are required: what strict modes of providers ask for.
    """
    text = {"type": "string"}
    members: dict[str, Any] = {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "memory": {"type": "integer", "enum": list(range(known + 1))},
        "turns": {"type": "array", "items": {"type": "integer", "enum": list(range(1, turns + 1))}},
        "speaker": text,
        "quote": text,
        "about": text,
        "text": text,
        "category": {"type": "string", "enum": [*categories, ""]} if categories else text,
        "date": text,
    }
    decision = _closed(members)
    return _closed({"decisions": {"type": "array", "items": decision}})


def _closed(members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": list(members), "properties": members}
