"""What the handles of a streamed reply stand for, as a server says it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from offprompt.records import canonical
from offprompt.wire.handles import Looked, Lookup, format_handle
from offprompt.wire.streamed import Lookups


class Asked:
    """A lookup that asks for each handle; what stands for something is asked for once."""

    def __init__(self, ask: Callable[[str], Mapping[str, Any]]) -> None:
        self._ask = ask
        self._known: dict[str, Looked] = {}

    def __call__(self, name: str, pointer: str, /) -> Looked:
        """See `wire.handles.Lookup`."""
        handle = format_handle(name, pointer)
        looked = self._known.get(handle) or _looked(self._ask(handle))
        if looked.status == "ok":
            self._known[handle] = looked
        return looked


class _Told:
    """A lookup among what the server has told; `others` knows the rest."""

    def __init__(self, told: Mapping[str, Mapping[str, Any]], others: Lookup) -> None:
        self._told, self._others = told, others

    def __call__(self, name: str, pointer: str, /) -> Looked:
        told = self._told.get(format_handle(name, pointer))
        return self._others(name, pointer) if told is None else _looked(told)


def lookups_of(looked: Mapping[str, Any], others: Lookup) -> Lookups:
    """How a reply's handles were looked up when it was absorbed; others: for what it did not hold."""
    calls = {(each["name"], _same(each["arguments"])): _Told(each["handles"], others) for each in looked["calls"]}

    def of_call(tool: str, arguments: str) -> Lookup:
        return calls.get((tool, _same(arguments))) or others

    return Lookups(_Told(looked["text"], others), others, looked["missing"], of_call)


def _same(arguments: str) -> str:
    """Arguments without what differs between chunks and whole replies: spaces, the order of members."""
    try:
        return canonical(json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments


def _looked(found: Mapping[str, Any]) -> Looked:
    return Looked(found["status"], found.get("value"))
