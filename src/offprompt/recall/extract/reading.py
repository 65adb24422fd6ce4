"""A model's answer, already JSON, as decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offprompt.recall.extract.records import ACTIONS, Decision
from offprompt.recall.extract.schema import most_decisions
from offprompt.records import as_dict, as_list


class BadAnswerError(ValueError):
    """An answer of which nothing can be used; its message says why, to the model too, and never what it holds."""


def read_decisions(answer: object, turns: int) -> tuple[list[Decision], int]:
    """The decisions in an answer, and how many of its parts are none or too many.

    Accepts  the object, or the list in it alone; numbers as texts; one turn instead of a list; members left out.
    Raises   BadAnswerError if there is not one decision.
    """
    found = as_dict(answer)
    items = as_list(answer) if found is None else as_list(found.get("decisions"))
    if items is None:
        raise BadAnswerError('it is not an object {"decisions": […]}')
    read = [_decision(item) for item in items[: most_decisions(turns)]]
    decisions = [one for one in read if one is not None]
    if not decisions:
        raise BadAnswerError("it holds no decision; name each turn, with NONE where there is nothing to remember")
    return decisions, len(items) - len(decisions)


def _decision(item: object) -> Decision | None:
    found = as_dict(item)
    action = str(found.get("action", "")).strip().upper() if found is not None else ""
    if found is None or action not in ACTIONS:
        return None
    turns = found.get("turns", found.get("turn"))
    listed = as_list(turns)
    memory = found.get("memory")
    return Decision(
        action,
        tuple(_number(one) for one in (listed if listed is not None else [turns])),
        0 if memory is None else _number(memory),
        *(_text(found, name) for name in ("speaker", "quote", "about", "text", "category", "date")),
    )


def _number(value: Any) -> int:
    """A number that was given, or -1, which names nothing."""
    if isinstance(value, bool):
        return -1
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and 0 <= value < 10**9 else -1


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return value.strip() if isinstance(value, str) else ""


def names_all(decisions: Sequence[Decision], turns: int) -> bool:
    """Whether the decisions name every turn."""
    return set(range(1, turns + 1)) <= {number for one in decisions for number in one.turns}
