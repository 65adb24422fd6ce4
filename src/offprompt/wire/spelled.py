"""Secrets in a text become handles however they are spelled: encoded, folded, in part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offprompt.errors import NameInvalidError
from offprompt.records import Json, text_of
from offprompt.wire.handles import MAX_BODY_CHARS, format_handle
from offprompt.wire.leaks import LeakIndex
from offprompt.wire.pointers import leaves
from offprompt.wire.thresholds import provable

NAMELESS = "[value]"
"""What stands for a secret whose name makes no handle."""


class Spelled:
    """Looks for secrets as `LeakIndex` does, for those in JSON also by each text and number that is long enough.

    Cost   as `LeakIndex`; it is built at the first text.
    """

    def __init__(self, values: Iterable[tuple[str, Json]]) -> None:
        self._values = tuple(values)
        self._named: dict[str, tuple[str, str]] = {}
        self._index: LeakIndex | None = None

    def replaced(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text with handles, and the names of what was found; where finds overlap, all their handles."""
        if not self._values:
            return text, ()
        if self._index is None:
            self._index = self._built()
        found = [(leak.start, leak.end, *self._named[leak.name]) for leak in self._index.find(text)]
        clean = with_handles(text, [(start, end, handle) for start, end, _, handle in found])
        return clean, tuple(dict.fromkeys(name for _, _, name, _ in found))

    def _built(self) -> LeakIndex:
        index = LeakIndex()
        for at, (name, value) in enumerate(self._values):
            for pointer, text in [("", text_of(value)), *_parts(value)]:
                key = f"{at}#{pointer}"
                self._named[key] = name, handle_or_mark(name, pointer)
                index.add(key, text, secret=True)
        return index


def with_handles(text: str, finds: Iterable[tuple[int, int, str]]) -> str:
    """The text with handles for stretches of it: (start, end, handle), by start; overlapping ones are one stretch."""
    spans: list[tuple[int, int, dict[str, None]]] = []
    for start, end, handle in finds:
        if spans and start < spans[-1][1]:
            first, last, handles = spans.pop()
            spans.append((first, max(last, end), {**handles, handle: None}))
        else:
            spans.append((start, end, {handle: None}))
    pieces: list[str] = []
    done = 0
    for start, end, handles in spans:
        pieces += [text[done:start], " ".join(handles)]
        done = end
    return "".join([*pieces, text[done:]])


def handle_or_mark(name: str, pointer: str = "") -> str:
    """What stands for a value: its handle, or a mark where its name makes none."""
    try:
        handle = format_handle(name, pointer)
        return handle if len(handle) <= MAX_BODY_CHARS else format_handle(name)
    except NameInvalidError:
        return NAMELESS


def _parts(value: Json) -> Iterator[tuple[str, str]]:
    """The texts and numbers in a JSON value that are long enough to be looked for, with their pointers."""
    for pointer, part in leaves(value):
        if pointer and isinstance(part, (str, int, float)) and provable(text := text_of(part)):
            yield pointer, text
