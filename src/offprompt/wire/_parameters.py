"""Arguments as elements, one tag a parameter, as the XML dialects have them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.wire._calls import BadCall, call_of, known
from offprompt.wire._envelope import Envelope
from offprompt.wire._lenient import UnreadableError, read_object, strict_object
from offprompt.wire._literal import CUT, read_literal

MAX_STRAY_CHARS: Final = 2000
"""How far behind a call a closing tag without its opening is looked for."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The tags of one dialect.

    opening  of a parameter: group 1 its name, group 2 (if any) `true` where the value is text. at_line: an opening
             that must end a value whose own closing tag is missing. closing: of a parameter. end: of the call.
    marks    what a value holds only if it quotes another call, or if the end of its parameter is missing.
    """

    opening: re.Pattern[str]
    at_line: re.Pattern[str]
    closing: re.Pattern[str]
    end: re.Pattern[str]
    marks: re.Pattern[str]


@dataclass(slots=True)
class _Reader:
    text: str
    pos: int
    grammar: Grammar
    ahead: dict[re.Pattern[str], re.Match[str] | None] = field(default_factory=dict[re.Pattern[str], Any])

    def next(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The next match from here on; each stretch of text is searched once."""
        if pattern in self.ahead:
            match = self.ahead[pattern]
            if match is None or match.start() >= self.pos:
                return match
        self.ahead[pattern] = pattern.search(self.text, self.pos)
        return self.ahead[pattern]


def read_parameters(text: str, name: str, start: int, at: int, grammar: Grammar, names: Collection[str]) -> Envelope:
    """The call of that name whose parameters begin at `at`.

    Values   text as it stands, without one line end on each side. Objects and lists, in JSON or as Python writes
             them, are read. Numbers, `true` and the like stay text, where the dialect does not say what they are.
    Bad      cut off; text between parameters; a parameter twice with different values; a value that holds marks of
             another call, so that its end cannot be told. What is bad takes the rest of the text.
    """
    reader = _Reader(text, at, grammar)
    proper = known(name, names)
    try:
        arguments = _arguments(reader)
    except UnreadableError as exc:
        # What follows may be part of a value.
        return Envelope(start, len(text), () if proper is None else (BadCall(proper, exc.why),))
    return Envelope(start, reader.pos, () if proper is None else (call_of(proper, arguments),))


def _arguments(reader: _Reader) -> dict[str, Any]:
    text, grammar = reader.text, reader.grammar
    value: dict[str, Any] = {}
    while True:
        while reader.pos < len(text) and text[reader.pos].isspace():
            reader.pos += 1
        end = grammar.end.match(text, reader.pos)
        if end is not None:
            reader.pos = end.end()
            _refuse_stray(reader)
            return value
        opening = grammar.opening.match(text, reader.pos)
        if opening is None:
            rest = text[reader.pos : reader.pos + 1]
            cut = not rest or reader.next(grammar.end) is None
            raise UnreadableError(CUT if cut else "text stands between its parameters", reader.pos)
        reader.pos = opening.end()
        key, part = opening[1].strip(), _value(reader)
        typed = opening[2] if grammar.opening.groups > 1 else None
        part = _typed(part, typed)
        if key in value and value[key] != part:
            raise UnreadableError(f"it has {key!r} twice, with different values", reader.pos)
        value[key] = part


def _refuse_stray(reader: _Reader) -> None:
    """A closing tag behind the call that nothing opened: the call's end was part of a value."""
    limit = reader.pos + MAX_STRAY_CHARS
    closing = reader.grammar.closing.search(reader.text, reader.pos, limit)
    if closing is not None and reader.grammar.opening.search(reader.text, reader.pos, closing.start()) is None:
        raise UnreadableError("a closing tag stands behind it, so that its end cannot be told", reader.pos)


def _value(reader: _Reader) -> str:
    """The text up to the value's end; its closing tag may be missing before the next parameter, where that is closed.

    Before the end of the call it may not: a value that was cut off may quote that end.
    """
    start = reader.pos
    closing, other = reader.next(reader.grammar.closing), reader.next(reader.grammar.at_line)
    if closing is None:
        raise UnreadableError(CUT, len(reader.text))
    repaired = other is not None and other.start() < closing.start()
    stop = other if other is not None and repaired else closing
    reader.pos = stop.start() if repaired else stop.end()
    value = reader.text[start : stop.start()]
    quoted = reader.grammar.opening.search(value) or (repaired and reader.grammar.marks.search(value))
    if quoted or (repaired and not value.strip()):
        raise UnreadableError("a value holds marks of another call, so that its end cannot be told", reader.pos)
    return value


def _typed(raw: str, is_text: str | None) -> Any:
    if is_text is not None:
        return raw if is_text == "true" else _said(raw)
    value = raw.removeprefix("\r").removeprefix("\n").removesuffix("\n").removesuffix("\r")
    body = value.strip()
    if body[:1] + body[-1:] not in ("{}", "[]"):
        return value
    member = f'{{"value":{body}}}'
    strict = strict_object(member, 0)
    if strict is not None and len(strict.value) == 1 and strict.end == len(member):
        return strict.value["value"]
    try:
        found, end = read_literal(body, 0)
    except UnreadableError:
        return value
    if end < len(body):
        return value
    return found if as_dict(found) is not None or as_list(found) is not None else value


def _said(raw: str) -> Any:
    """A value in JSON, or as Python writes it; then in what is nearly JSON."""
    body = raw.strip()
    # As a member, so that every kind of value is read by the one reader of JSON.
    member = f'{{"value":{body}}}'
    found = strict_object(member, 0)
    if found is None:
        try:
            value, end = read_literal(body, 0)
        except UnreadableError:
            found = read_object(member)
        else:
            if end == len(body):
                return value
            found = read_object(member)
    if found.end != len(member) or len(found.value) != 1:
        raise UnreadableError("it holds something that is no value", found.end)
    return found.value["value"]
