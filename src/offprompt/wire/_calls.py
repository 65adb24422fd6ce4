"""What a JSON object calls, if it is a call: the name and arguments under all their spellings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from offprompt.records import as_dict, as_list
from offprompt.wire._lenient import UnreadableError, check_value, read_whole

NAME_KEYS: Final = ("name", "action", "tool", "tool_name", "function")
ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input", "action_input")
WRAPPERS: Final = ("tool_calls", "tool_call", "function_call")
_SLOT: Final = {"slot": ("slot", "key", "name")}
SPELLINGS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "mem_write": {**_SLOT, "value": ("value", "content")},
    "mem_read": _SLOT,
    "mem_forget": _SLOT,
    "mem_search": {"query": ("query", "q")},
}
"""How models write the arguments of memory calls, by the name that they have."""

BARE: Final = {"mem_read": "slot", "mem_forget": "slot", "mem_search": "query", "mem_write": ""}
"""The argument that a bare text stands for; empty: none. Other calls': `input`."""

_NAME_TAIL = re.compile(r"[.:]\d+\Z|\.call\Z|(?<=[a-z0-9])json\Z", re.ASCII)
_MARKERS: Final = {"type": ("function", "tool_use", "tool_call"), "recipient": ("assistant",)}


@dataclass(frozen=True, slots=True)
class Call:
    """A call that can be run."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BadCall:
    """A call that cannot, and why."""

    name: str
    why: str


class CallError(ValueError):
    """A call without one safe meaning."""


Calls: TypeAlias = "tuple[Call | BadCall, ...]"


def known(raw: str, names: Collection[str]) -> str | None:
    """The known name that a model wrote, or None: as it is, or without `functions.`, a number, `.call`, `json`."""
    bare = raw.removeprefix("functions.")
    return next((name for name in (raw, bare, _NAME_TAIL.sub("", bare)) if name in names), None)


def call_of(name: str, arguments: Mapping[str, Any]) -> Call | BadCall:
    """The call of those arguments, taken out of a wrapper and under their proper names; bad, if they cannot be used."""
    try:
        check_value(dict(arguments))
        return Call(name, tidy(name, _unwrapped(name, arguments)))
    except UnreadableError as exc:
        return BadCall(name, exc.why)
    except CallError as exc:
        return BadCall(name, str(exc))


def bare_call(name: str, value: str) -> Call | BadCall:
    """The call whose only argument is a text without a name."""
    key = BARE.get(name, "input")
    return call_of(name, {key: value}) if key else BadCall(name, "its arguments have no names")


def _unwrapped(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the one key that holds all arguments, or the call itself."""
    if len(arguments) != 1:
        return arguments
    key, value = next(iter(arguments.items()))
    inner = as_dict(value)
    if key in ARGUMENT_KEYS and isinstance(value, str) and value.lstrip().startswith("{"):
        inner = _object(value)
    if inner is None:
        return arguments
    if key in ARGUMENT_KEYS:
        return inner
    if key in (*WRAPPERS, "function") and any(item in inner for item in NAME_KEYS):
        call = _call(inner, (name,), tagged=True)
        if not isinstance(call, Call):
            raise CallError("it holds a call of another name, or one that cannot be read")
        return call.arguments
    return arguments


def calls_in(value: Mapping[str, Any], names: Collection[str], *, tagged: bool) -> list[Call | BadCall]:
    """The calls that an object makes under those names, in order; empty if it is no call, or of another name.

    tagged   it stood where only calls stand: the name alone is enough.
    """
    for wrapper in WRAPPERS:
        inner = value.get(wrapper)
        items = as_list(inner) if as_list(inner) is not None else [inner]
        members = [member for member in map(as_dict, items or ()) if member is not None]
        if members and not any(key in value for key in ARGUMENT_KEYS):
            calls = [_call(member, names, tagged=True) for member in members]
            # With a client's call among them the object stays whole, and is not ours.
            return [call for call in calls if call is not None] if all(calls) else []
    call = _call(value, names, tagged=tagged)
    if call is None and tagged and len(value) == 1:
        call = _keyed(value, names)
    return [] if call is None else [call]


def _keyed(value: Mapping[str, Any], names: Collection[str]) -> Call | BadCall | None:
    """A call whose name is the object's one key."""
    name, arguments = next(iter(value.items()))
    if name not in names:
        return None
    inner = {} if arguments is None else as_dict(arguments)
    return BadCall(name, "its arguments are not an object") if inner is None else call_of(name, inner)


def _call(value: Mapping[str, Any], names: Collection[str], *, tagged: bool) -> Call | BadCall | None:
    inner = as_dict(value.get("function"))
    if inner is not None:
        return _call(inner, names, tagged=True)
    keys = [key for key in NAME_KEYS if _is_name(value.get(key), names)]
    if not keys:
        return None
    name: str = value[keys[0]]
    other = next((value[key] for key in keys if value[key] != name), None)
    if other is not None:
        return BadCall(name, f"it has two names, {name} and {other}")
    try:
        bare = value.get("action_input")
        if isinstance(bare, str) and bare.strip() and bare.lstrip()[0] not in "{｛":
            return bare_call(name, bare)
        arguments = _arguments(value, keys)
        if arguments is None:
            return Call(name, {}) if tagged else None
        return None if _is_schema(arguments) else Call(name, tidy(name, arguments))
    except CallError as exc:
        return BadCall(name, str(exc))


def _is_name(value: object, names: Collection[str]) -> bool:
    return isinstance(value, str) and value in names


def _is_schema(arguments: Mapping[str, Any]) -> bool:
    """Whether they are the definition of a tool that a model repeats, not a call of it."""
    return arguments.get("type") == "object" and as_dict(arguments.get("properties")) is not None


def _arguments(value: Mapping[str, Any], name_keys: list[str]) -> Mapping[str, Any] | None:
    """The arguments; None: there are none, and nothing that could be."""
    given = [key for key in ARGUMENT_KEYS if key in value]
    if given:
        read = [_object(value[key]) for key in given]
        if any(other != read[0] for other in read[1:]):
            raise CallError(f"it has arguments twice, under {' and '.join(given)}")
        return read[0]
    skip = {*name_keys, *(key for key, marks in _MARKERS.items() if value.get(key) in marks)}
    flat = {key: part for key, part in value.items() if key not in skip}
    return flat or None


def _object(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            return read_whole(value)
        except UnreadableError as exc:
            raise CallError(f"its arguments cannot be read: {exc.why}") from exc
    arguments = as_dict(value)
    if arguments is None:
        raise CallError("its arguments are not an object")
    return arguments


def tidy(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments under the names that memory calls have; other calls' as they are.

    Raises   CallError if two spellings of one argument differ.
    """
    result = dict(_unwrapped(name, arguments)) if name in SPELLINGS else dict(arguments)
    for proper, spellings in SPELLINGS.get(name, {}).items():
        given = [key for key in spellings if key in result]
        if not given:
            continue
        if any(result[key] != result[given[0]] for key in given[1:]):
            raise CallError(f"it gives {' and '.join(given)}, which mean the same, with different values")
        value = result[given[0]]
        for key in given:
            del result[key]
        result[proper] = value
    return result
