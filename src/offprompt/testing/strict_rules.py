"""What a strict provider refuses in any request: unknown and missing fields, wrong types, tools without form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from offprompt.records import as_dict, as_list

Check: TypeAlias = Callable[[object], str]
"""What is wrong with a value, in a few words; empty if nothing is."""

TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
MAX_TOOLS: Final = 128


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason for a 400: what is wrong, and which field it is about."""

    message: str
    field: str = ""


def text(value: object) -> str:
    """Text."""
    return "" if isinstance(value, str) else "must be text"


def anything(value: object) -> str:
    """Any value."""
    del value
    return ""


def flag(value: object) -> str:
    """True or false."""
    return "" if isinstance(value, bool) else "must be true or false"


def whole(low: int, high: int | None = None) -> Check:
    """A whole number in a range."""

    def check(value: object) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return "must be a whole number"
        most = "" if high is None else f", at most {high}"
        return "" if value >= low and (high is None or value <= high) else f"must be at least {low}{most}"

    return check


def number(low: float, high: float) -> Check:
    """A number in a range."""

    def check(value: object) -> str:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return "must be a number"
        return "" if low <= value <= high else f"must be between {low} and {high}"

    return check


def one_of(*values: object) -> Check:
    """One of some values."""
    return lambda value: "" if value in values else f"must be one of {', '.join(map(str, values))}"


def is_object(value: object) -> str:
    """An object."""
    return "" if as_dict(value) is not None else "must be an object"


def is_list(value: object) -> str:
    """A list."""
    return "" if as_list(value) is not None else "must be a list"


def texts(value: object) -> str:
    """A list of texts."""
    items = as_list(value)
    return "" if items is not None and all(isinstance(item, str) for item in items) else "must be a list of texts"


def either(*checks: Check) -> Check:
    """A value that one of the checks accepts."""
    return lambda value: "" if any(not check(value) for check in checks) else checks[0](value)


def or_null(check: Check) -> Check:
    """What the check accepts, or null."""
    return lambda value: "" if value is None else check(value)


def check_fields(
    given: Mapping[str, Any],
    known: Mapping[str, Check],
    *,
    needed: Iterable[str] = (),
    at: str = "",
    unknown: str = "Unknown parameter: '{field}'.",
) -> list[Fault]:
    """Unknown fields, missing ones, and values of the wrong type; `at`: where the object stands in the request."""
    faults: list[Fault] = []
    for key, value in given.items():
        field = f"{at}.{key}" if at else key
        if key not in known:
            faults.append(Fault(unknown.format(field=field), field))
        elif wrong := known[key](value):
            faults.append(Fault(f"Invalid value for '{field}': it {wrong}.", field))
    for key in needed:
        if key not in given:
            field = f"{at}.{key}" if at else key
            faults.append(Fault(f"Missing required parameter: '{field}'.", field))
    return faults


def check_tool(name: object, schema: object, at: str, *, pattern: re.Pattern[str] = TOOL_NAME) -> list[Fault]:
    """A tool's name and schema."""
    faults: list[Fault] = []
    if not isinstance(name, str) or not pattern.fullmatch(name):
        faults.append(Fault(f"Invalid '{at}.name': {name!r} does not match {pattern.pattern}.", f"{at}.name"))
    given = as_dict(schema)
    if schema is not None and (given is None or given.get("type") != "object"):
        faults.append(Fault(f"Invalid schema for '{at}': its type must be \"object\".", at))
    return faults


def check_names(names: Iterable[str], at: str = "tools") -> list[Fault]:
    """Names that stand twice, and too many of them."""
    given = list(names)
    faults = [
        Fault(f"Tool names must be unique: {name!r} stands twice.", at)
        for name in sorted(set(given))
        if given.count(name) > 1
    ]
    if len(given) > MAX_TOOLS:
        faults.append(Fault(f"There are {len(given)} tools; at most {MAX_TOOLS} are allowed.", at))
    return faults
