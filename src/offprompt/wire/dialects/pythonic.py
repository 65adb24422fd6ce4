"""Calls as Python writes them: Llama 3 and 4, LFM2, OLMo, Gemma 3, and Llama's built-in tools."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from offprompt.wire._calls import BadCall, Call, call_of, known
from offprompt.wire._envelope import Dialect, Envelope
from offprompt.wire._lenient import UnreadableError
from offprompt.wire._literal import CUT, read_arguments
from offprompt.wire._marks import NAME

MAX_BROKEN_CHARS: Final = 2000
"""How far behind a fault in a call the next call of its list is looked for."""

_CALL = re.compile(rf"\s*({NAME})\(")
_NEXT = re.compile(r"\s*(?:,|(\]+))")
_RESUME = re.compile(rf"\)\s*(?:,\s*(?={NAME}\()|(?=\]))")
_BLOCK = re.compile(r"(?:<\|python_(?:tag|start)\|>|<function_calls?>|<tool_code>|`{3}tool_code[^\S\n]*\n)\s*")
_BETWEEN = re.compile(rf"[\s;,]*(?={NAME}\()")
_BLOCK_END = re.compile(r"\s*(?:<\|python_end\|>|</function_calls?>|</tool_code>|`{3}|<\|eom_id\|>|<\|eot_id\|>)")
_WHOLE_VALUE = re.compile(r"[\"'\]}\d]\Z|\b(?:True|False|None|true|false|null)\Z")


def _list(text: str, start: int, names: Collection[str]) -> Envelope | None:
    calls: list[Call | BadCall] = []
    pos = start + 1
    while True:
        header = _CALL.match(text, pos)
        if header is None:
            return _broken(start, pos, calls, "the list that it stands in is broken")
        pos = _member(text, header, names, calls)
        after = _NEXT.match(text, pos)
        if after is None:
            why = "the list that it stands in is broken" if text[pos:].strip() else CUT
            return _broken(start, len(text) if why is CUT else pos, calls, why)
        pos = after.end()
        if after[1]:
            return Envelope(start, pos, tuple(calls))


def _member(text: str, header: re.Match[str], names: Collection[str], calls: list[Call | BadCall]) -> int:
    """Add a call of the list; where it ends. A bad one ends before the next call, where that can be told."""
    name = known(header[1], names)
    try:
        arguments, pos = read_arguments(text, header.end())
    except UnreadableError as exc:
        if name is not None:
            calls.append(BadCall(name, exc.why))
        mark = _RESUME.search(text, exc.end, exc.end + MAX_BROKEN_CHARS)
        body = text[header.end() : mark.start()].rstrip() if mark else ""
        if mark is None or not _WHOLE_VALUE.search(body) or any(body.count(quote) % 2 for quote in "\"'"):
            return len(text)
        return mark.start() + 1
    if name is not None:
        calls.append(call_of(name, arguments))
    return pos


def _broken(start: int, end: int, calls: list[Call | BadCall], why: str) -> Envelope | None:
    """Calls in what is no list after all are bad; without any it was prose."""
    bad = tuple(call if isinstance(call, BadCall) else BadCall(call.name, why) for call in calls)
    return Envelope(start, end, bad) if bad else None


def _block(text: str, start: int, names: Collection[str]) -> Envelope | None:
    opening = _BLOCK.match(text, start)
    if opening is None:
        return None
    calls: list[Call | BadCall] = []
    pos = opening.end()
    while (between := _BETWEEN.match(text, pos)) is not None:
        header = _CALL.match(text, between.end())
        if header is None:
            break
        name = known(header[1], names)
        try:
            arguments, pos = read_arguments(text, header.end())
        except UnreadableError as exc:
            bad = () if name is None else (BadCall(name, exc.why),)
            return Envelope(start, len(text), (*calls, *bad))
        if name is not None:
            calls.append(call_of(name, arguments))
    if pos == opening.end():
        return None
    closing = _BLOCK_END.match(text, pos)
    return Envelope(start, closing.end() if closing else pos, tuple(calls))


PYTHONIC = Dialect(rf"\[(?=\s*{NAME}\()", _list)
BLOCK = Dialect(
    rf"(?:<\|python_(?:tag|start)\|>|<function_calls?>|<tool_code>|`{{3}}tool_code[^\S\n]*\n)(?=\s*{NAME}\()", _block
)
