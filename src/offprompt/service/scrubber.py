"""Stored values in texts become handles: secrets in any spelling, other values as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from offprompt.records import Json, as_dict, as_list, compact, text_of
from offprompt.wire.handles import MAX_BODY_CHARS, format_handle
from offprompt.wire.leaks import LeakIndex
from offprompt.wire.scrub import scrub_arguments, scrub_text
from offprompt.wire.thresholds import provable


@dataclass(slots=True)
class Scrubber:
    """Scrubs what comes from elsewhere; made once for the values of a turn.

    hidden   values of `never` slots, by name: looked for in any spelling, encoded too, and in parts.
    others   values that are looked for only as they are: an encoded one is rare, and what looks like it may be the
             tool's own.
    """

    hidden: Mapping[str, Json] = field(repr=False)
    others: Mapping[str, Json] = field(repr=False)
    _index: LeakIndex | None = field(default=None, repr=False)
    _named: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]], repr=False)

    def scrub(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text with handles in place of values, and the names of those found."""
        clean, names = scrub_text(text, {**self.others, **self.hidden}, parted=self.hidden)
        clean, more = self._decoded(clean)
        return clean, tuple(dict.fromkeys((*names, *more)))

    def hide(self, text: str) -> str:
        """The text with handles in place of secrets; other values stay."""
        return self._decoded(scrub_text(text, self.hidden)[0])[0]

    def mask(self, text: str) -> str:
        """`hide` for what is told of a text, such as an error: what looks like a handle stays as it is."""
        return self._decoded(text)[0]

    def arguments(self, arguments: str) -> str:
        """A call's arguments with handles in place of values; the same text where there are none."""
        clean = scrub_arguments(arguments, {**self.others, **self.hidden}, parted=self.hidden)[0]
        try:
            value = json.loads(clean)
        except (ValueError, RecursionError):
            return self._decoded(clean)[0]
        decoded = _mapped(value, lambda text: self._decoded(text)[0])
        return clean if decoded == value else compact(decoded)

    def _decoded(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text without secrets that are encoded, folded or there in part; where some overlap, all their handles."""
        if not self.hidden:
            return text, ()
        if self._index is None:
            self._index = self._built()
        pieces: list[str] = []
        names: dict[str, None] = {}
        last = 0
        spans: list[tuple[int, int, dict[str, None]]] = []
        for leak in self._index.find(text):
            name, handle = self._named[leak.name]
            names[name] = None
            if spans and leak.start < spans[-1][1]:
                start, end, handles = spans.pop()
                spans.append((start, max(end, leak.end), {**handles, handle: None}))
            else:
                spans.append((leak.start, leak.end, {handle: None}))
        for start, end, handles in spans:
            pieces += [text[last:start], " ".join(handles)]
            last = end
        return "".join([*pieces, text[last:]]), tuple(names)

    def _built(self) -> LeakIndex:
        index = LeakIndex()
        for name, value in self.hidden.items():
            for pointer, text in [("", text_of(value)), *_parts(value)]:
                key = f"{name}#{pointer}"
                handle = format_handle(name, pointer)
                self._named[key] = name, handle if len(handle) <= MAX_BODY_CHARS else format_handle(name)
                index.add(key, text, secret=True)
        return index


def _parts(value: Json) -> Iterator[tuple[str, str]]:
    """The texts and numbers in a JSON value that are long enough to be looked for, with their pointers."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        pointer, part = waiting.pop()
        members, items = as_dict(part), as_list(part)
        if members is not None:
            keys = ((key.replace("~", "~0").replace("/", "~1"), item) for key, item in members.items())
            waiting += [(f"{pointer}/{key}", item) for key, item in keys]
        elif items is not None:
            waiting += [(f"{pointer}/{at}", item) for at, item in enumerate(items)]
        elif pointer and isinstance(part, (str, int, float)) and provable(text := text_of(part)):
            yield pointer, text


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text in it changed, keys too."""
    if isinstance(value, str):
        return change(value)
    if (members := as_dict(value)) is not None:
        return {change(key): _mapped(item, change) for key, item in members.items()}
    items = as_list(value)
    return value if items is None else [_mapped(item, change) for item in items]
