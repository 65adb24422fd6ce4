"""Stored values in texts become handles: secrets in any spelling, other values as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from offprompt.records import Json, as_dict, as_list, compact
from offprompt.wire.scrub import LookedFor
from offprompt.wire.spelled import Spelled


@dataclass(slots=True)
class Scrubber:
    """Scrubs what comes from elsewhere; made once for the values of a turn.

    hidden   values of `never` slots, by name: looked for in any spelling, encoded too, and in parts.
    others   values that are looked for only as they are: an encoded one is rare, and what looks like it may be the
             tool's own.
    """

    hidden: Mapping[str, Json] = field(repr=False)
    others: Mapping[str, Json] = field(repr=False)
    _spelled: Spelled | None = field(default=None, repr=False)
    _every: LookedFor | None = field(default=None, repr=False)
    _secret: LookedFor | None = field(default=None, repr=False)

    def scrub(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text with handles in place of values, and the names of those found."""
        clean, names = self._all().scrub(text)
        clean, more = self._decoded(clean)
        return clean, tuple(dict.fromkeys((*names, *more)))

    def hide(self, text: str) -> str:
        """The text with handles in place of secrets; other values stay."""
        if self._secret is None:
            self._secret = LookedFor(self.hidden)
        return self._decoded(self._secret.scrub(text)[0])[0]

    def mask(self, text: str) -> str:
        """`hide` for what is told of a text, such as an error: what looks like a handle stays as it is."""
        return self._decoded(text)[0]

    def arguments(self, arguments: str) -> tuple[str, tuple[str, ...]]:
        """A call's arguments with handles in place of values, and the names of those; the same text without any."""
        clean, names = self._all().arguments(arguments)
        found = dict.fromkeys(names)

        def decoded(text: str) -> str:
            text, more = self._decoded(text)
            found.update(dict.fromkeys(more))
            return text

        return map_arguments(clean, decoded), tuple(found)

    def _all(self) -> LookedFor:
        if self._every is None:
            self._every = LookedFor({**self.others, **self.hidden}, parted=self.hidden)
        return self._every

    def _decoded(self, text: str) -> tuple[str, tuple[str, ...]]:
        if self._spelled is None:
            self._spelled = Spelled(self.hidden.items())
        return self._spelled.replaced(text)


def map_arguments(arguments: str, change: Callable[[str], str]) -> str:
    """A call's arguments with every text and key in them changed; what is no JSON is one text."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return change(arguments)
    changed = _mapped(value, change)
    return arguments if changed == value else compact(changed)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text in it changed, keys too."""
    if isinstance(value, str):
        return change(value)
    if (members := as_dict(value)) is not None:
        return {change(key): _mapped(item, change) for key, item in members.items()}
    items = as_list(value)
    return value if items is None else [_mapped(item, change) for item in items]
