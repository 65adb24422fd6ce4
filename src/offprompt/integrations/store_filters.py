"""Filters of LangGraph's stores: which values fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from offprompt.errors import UsageError
from offprompt.records import as_dict, as_list

COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "$gt": lambda own, given: own > given,
    "$gte": lambda own, given: own >= given,
    "$lt": lambda own, given: own < given,
    "$lte": lambda own, given: own <= given,
}


def check_filter(given: Mapping[str, Any]) -> None:
    """Nothing, if all operators of a filter are known.

    Raises   UsageError naming one that is not.
    """
    for wanted in given.values():
        for operator in as_dict(wanted) or {}:
            if operator.startswith("$") and operator not in ("$eq", "$ne", *COMPARED):
                raise UsageError(f"{operator!r} is no operator of a filter; there are $eq, $ne, {', '.join(COMPARED)}")


def fits(own: Any, wanted: Any) -> bool:
    """Whether a value is what a filter wants."""
    asked = as_dict(wanted)
    if asked is not None and any(name.startswith("$") for name in asked):
        return all(_applies(own, name, value) for name, value in asked.items())
    if asked is not None:
        members = as_dict(own)
        return members is not None and all(fits(members.get(name), value) for name, value in asked.items())
    if isinstance(wanted, (list, tuple)):
        listed, wants = as_list(own), list(cast("Sequence[Any]", wanted))
        return listed is not None and len(listed) == len(wants) and all(map(fits, listed, wants))
    return own == wanted


def _applies(own: Any, operator: str, given: Any) -> bool:
    if operator == "$eq":
        return own == given
    if operator == "$ne":
        return own != given
    try:
        return COMPARED[operator](float(own), float(given))
    except (TypeError, ValueError):
        return False
