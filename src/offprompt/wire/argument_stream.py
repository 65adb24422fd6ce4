"""Handles in streamed tool arguments: JSON text that comes in pieces, resolved as the whole would be."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from offprompt.wire.handle_stream import held_from
from offprompt.wire.handles import (
    EMPHASIS,
    BadHandle,
    FoundHandle,
    Lookup,
    find_candidates,
    resolve_arguments,
    resolve_string,
    restore_lookalikes,
)

_UNIT: Final = re.compile(r'[^"\\\x00-\x1f]+|\\u[0-9a-fA-F]{4}|\\[^u]|[\s\S]')
_CUT_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_MARK: Final = re.compile(r"[{}\[\],:]")


@dataclass(slots=True)
class _Value:
    """A string that is under way.

    pieces   its characters so far, from the opening quote on. sent: how many of them were given out.
    waiting  those that were not, as long as it is not held.
    tail     characters of its end that may begin a handle, or its beginning while that is white space and emphasis.
    started  it is more than that, so it is not one handle alone. held: the rest waits for its end.
    """

    pieces: list[str] = field(default_factory=lambda: ['"'])
    sent: int = 0
    waiting: str = '"'
    tail: str = ""
    started: bool = False
    held: bool = False

    def unsent(self) -> str:
        """What was not given out."""
        return "".join(self.pieces)[self.sent :]


class ArgumentStream:
    """Resolves the handles of one call's arguments as they come.

    Same     what `feed` and `finish` return, joined, is `resolve_arguments(text).text`, unless a handle is bad or
             the arguments are no JSON; `used` and `bad` are always the same. However the text is cut.
    Held     a string from the first thing in it that is a handle, or that would be written otherwise if one came,
             to its end; else only what may begin a handle. White space and emphasis at a string's front wait for what
             follows.
    Bad      once a handle is bad nothing more is given out: the closing quote of its string never comes, so that what
             was given out can not be run.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._pieces: list[str] = []
        self._cut = ""
        self._open: list[str] = []
        self._at_key = False
        self._in_key = False
        self._value: _Value | None = None
        self._used: list[FoundHandle] = []
        self._bad: list[BadHandle] = []

    @property
    def used(self) -> tuple[FoundHandle, ...]:
        """The handles resolved so far, in order; positions in the string that holds them."""
        return tuple(self._used)

    @property
    def bad(self) -> tuple[BadHandle, ...]:
        """Those that could not be; the call must not be run if there is any."""
        return tuple(self._bad)

    def feed(self, text: str) -> str:
        """The next piece; returns what is sure by now."""
        self._pieces.append(text)
        return self._advance(self._cut + text)

    def finish(self) -> str:
        """The rest. What is no JSON comes as it is; handles in it are bad."""
        whole = "".join(self._pieces)
        try:
            json.loads(whole)
        except (ValueError, RecursionError):
            stopped = bool(self._bad)
            self._used, self._bad = [], list(resolve_arguments(whole, self._lookup).bad)
            if stopped or self._bad:
                return ""
            return (self._value.unsent() if self._value else "") + self._cut
        return ""

    def _advance(self, text: str) -> str:
        out: list[str] = []
        self._cut = ""
        at = 0
        while at < len(text):
            if self._value is not None or self._in_key:
                at = self._inside(text, at, out)
                continue
            quote = text.find('"', at)
            end = len(text) if quote < 0 else quote
            self._structure(text[at:end])
            self._give(out, text[at:end])
            at = end
            if quote >= 0:
                self._begin_string(out)
                at += 1
        return "".join(out)

    def _give(self, out: list[str], text: str) -> None:
        if not self._bad:
            out.append(text)

    def _structure(self, text: str) -> None:
        """Keep account of where keys stand."""
        for mark in _MARK.findall(text):
            if mark in "{[":
                self._open.append(mark)
            elif mark in "}]" and self._open:
                self._open.pop()
            self._at_key = mark in "{," and self._open[-1:] == ["{"]

    def _begin_string(self, out: list[str]) -> None:
        if self._at_key:
            self._in_key = True
            self._give(out, '"')
        else:
            self._value = _Value()

    def _inside(self, text: str, at: int, out: list[str]) -> int:
        """One unit of a string: a run of plain characters, an escape, the closing quote."""
        if _CUT_ESCAPE.match(text, at):
            self._cut = text[at:]
            return len(text)
        found = _UNIT.match(text, at)
        unit = found[0] if found else text[at]
        if self._value is None:
            self._give(out, unit)
            self._in_key = unit != '"'
        elif unit == '"':
            self._end_string(self._value, out)
        else:
            _add(self._value, unit)
            self._flow(self._value, out)
        return at + len(unit)

    def _flow(self, value: _Value, out: list[str]) -> None:
        """Give out what is sure of a string that goes on."""
        if not value.started:
            return
        sure = len(value.waiting) - len(value.tail)
        self._give(out, value.waiting[:sure])
        value.sent += sure
        value.waiting = value.tail

    def _end_string(self, value: _Value, out: list[str]) -> None:
        self._value = None
        if not value.held:
            self._give(out, value.waiting + '"')
            return
        raw = "".join([*value.pieces, '"'])
        try:
            before = json.loads(raw, strict=False)
        except ValueError:
            # No JSON, which `finish` says; until then it goes on as it is.
            self._give(out, raw[value.sent :])
            return
        after = resolve_string(before, self._lookup, self._used, self._bad)
        new = raw if after is None else json.dumps(after.value, ensure_ascii=False)
        self._give(out, new[value.sent :])


def _add(value: _Value, unit: str) -> None:
    """Take a unit in; decide whether the string waits for its end."""
    value.pieces.append(unit)
    if value.held:
        return
    if unit[0] == "\\" or unit < " ":
        decoded = _plain_escape(unit)
        if decoded is None or value.tail.strip() or (value.tail and value.started):
            value.held = True
            return
        value.waiting += unit
        if not (decoded.isspace() and not value.started):
            value.started, value.tail = True, ""
        return
    value.waiting += unit
    value.tail += unit
    first = _first_change(value.tail)
    value.held = first is not None
    sure = held_from(value.tail) if first is None else first
    if value.started or value.tail[:sure].strip().strip(EMPHASIS).strip():
        value.started, value.tail = True, value.tail[sure:]


def _first_change(text: str) -> int | None:
    """Where the first handle or escaped lookalike begins that a text holds, or None."""
    restored = restore_lookalikes(text)
    starts = [found.start for found in find_candidates(text)][:1]
    if restored != text:
        starts.append(next(at for at, (a, b) in enumerate(zip(restored, text, strict=False)) if a != b))
    return min(starts, default=None)


def _plain_escape(unit: str) -> str | None:
    """The character of an escape that JSON writers here would write in the same way, else None."""
    try:
        decoded = json.loads(f'"{unit}"')
    except ValueError:
        return None
    return decoded if json.dumps(decoded, ensure_ascii=False) == f'"{unit}"' else None
