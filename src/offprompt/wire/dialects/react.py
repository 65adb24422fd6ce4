"""ReAct: `Action:` and `Action Input:`, in English and Chinese, and what a model invents behind them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from offprompt.wire._calls import BadCall, Call, Calls, bare_call, call_of, known
from offprompt.wire._envelope import Dialect, Envelope
from offprompt.wire._lenient import UnreadableError, read_object, read_whole
from offprompt.wire._literal import CUT, read_arguments, read_literal
from offprompt.wire._marks import NAME
from offprompt.wire._named import Body, read_named

_ACTION: Final = r"(?:Action|行动|动作|操作)"
_INPUT: Final = r"(?:Action[ _-]?Input|行动输入|动作输入|操作输入|输入|参数)"
_LEAD: Final = r"(?:^[^\S\n]*(?:[*_#>-]{1,4}[^\S\n]*)?|(?<=`))"
_COLON: Final = r"[*_]{0,2}\s{0,2}[:：][*_]{0,2}"
_HEADER = re.compile(
    rf"{_LEAD}{_ACTION}{_COLON}\s{{0,3}}[`\"'*]{{0,2}}({NAME})[`\"'*]{{0,2}}[^\S\n]*", re.IGNORECASE | re.MULTILINE
)
_ARGUMENTS = re.compile(rf"\s*(?:[*_#>-]{{1,4}}[^\S\n]*)?{_INPUT}{_COLON}[^\S\n]*", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})[^\S\n]*\w*\s*")
_BRACKET = re.compile(r"\s*\)")
_BLANK = re.compile(r"\s*")
_LABEL: Final = (
    rf"(?:Observation|Thought|{_ACTION}(?:[ _-]?Input)?|Final[ _]Answer|观察(?:结果)?|结果|思考|想法|最终答案)"
)
_BOUND = re.compile(rf"(?=\n[^\S\n]*(?:[*_#>-]{{1,4}}[^\S\n]*)?{_LABEL}{_COLON})", re.IGNORECASE)
_AT_LABEL = re.compile(rf"\s*(?:\Z|\n[^\S\n]*{_LABEL}{_COLON})", re.IGNORECASE)
_EMPTY: Final = frozenset({"", "none", "null", "n/a", "无", "{}", "()"})
_LINE_CHARS: Final = 400
_GOES_ON = re.compile(rf"[({{｛*_#>-]|{_INPUT}", re.IGNORECASE)
INVENTED = re.compile(
    r"^[^\S\n]*(?:[*_#>`-]{1,4}[^\S\n]*)?(?:Observation|观察(?:结果)?)[*_]{0,2}\s{0,2}[:：]",
    re.IGNORECASE | re.MULTILINE,
)
"""Where a model answers its own call."""


def _react(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _HEADER.match(text, start)
    if header is None:
        return None
    raw, at = header[1], header.end()
    name = known(raw, names)
    label = _ARGUMENTS.match(text, at)
    if label is not None:
        return _input(text, raw, start, label.end(), names)
    if text.startswith("(", at):
        return _bracketed(text, raw, start, at + 1, names)
    if text[at : at + 1] in ("{", "｛"):
        return _stopping(read_named(text, raw, Body(start, at, _BOUND, empty=False), names))
    if name is not None and _AT_LABEL.match(text, at):
        return Envelope(start, at, (BadCall(name, "its Action Input is missing"),), stops=True)
    return None


def declined(text: str, start: int) -> bool:
    """Whether the line that begins as an action goes on as prose, whatever follows it."""
    header = _HEADER.match(text, start)
    if header is None:
        return False
    line, newline, _ = text[header.end() : header.end() + _LINE_CHARS].partition("\n")
    return bool(newline and line.strip()) and not _GOES_ON.match(line)


def _stopping(found: Envelope) -> Envelope:
    return Envelope(found.start, found.end, found.calls, stops=True)


def _input(text: str, raw: str, start: int, at: int, names: Collection[str]) -> Envelope:
    fence = _FENCE.match(text, at)
    blank = _BLANK.match(text, fence.end() if fence else at)
    body = blank.end() if blank else at
    if text[body : body + 1] in ("{", "｛"):
        return _stopping(read_named(text, raw, Body(start, body, _BOUND, empty=False), names))
    bound = _BOUND.search(text, at)
    stop = bound.start() if bound else len(text)
    line = text[at:stop].strip().strip("`").strip()
    name = known(raw, names)
    calls: Calls = () if name is None else (_bare(name, line, whole=bound is not None or text[:stop].endswith("\n")),)
    return Envelope(start, stop, calls, stops=True)


def _bare(name: str, value: str, *, whole: bool) -> Call | BadCall:
    """A call whose input is no object: a quoted text, or the rest of a line that is known to be whole."""
    if value.casefold() in _EMPTY:
        return call_of(name, {}) if whole or value else BadCall(name, CUT)
    if value[0] in "\"'":
        try:
            text, end = read_literal(value, 0)
        except UnreadableError as exc:
            return BadCall(name, exc.why)
        if value[end:].strip():
            return BadCall(name, "more than one text stands where its input is")
        return _decoded(name, text)
    if value[0] in "[(<":
        return BadCall(name, "its arguments are not an object")
    if not whole:
        return BadCall(name, "its input may be cut off: it has neither quotes nor a line end")
    return bare_call(name, value)


def _decoded(name: str, value: str) -> Call | BadCall:
    # An object in quotes is an object that was encoded twice.
    if not value.lstrip().startswith("{"):
        return bare_call(name, value)
    try:
        return call_of(name, read_whole(value))
    except UnreadableError as exc:
        return BadCall(name, exc.why)


def _bracketed(text: str, raw: str, start: int, at: int, names: Collection[str]) -> Envelope:
    name = known(raw, names)
    blank = _BLANK.match(text, at)
    body = blank.end() if blank else at
    try:
        arguments, end = _in_brackets(text, body) if text[body : body + 1] in ("{", "｛") else read_arguments(text, at)
    except UnreadableError as exc:
        line = text.find("\n", max(exc.end, at))
        bad = () if name is None else (BadCall(name, exc.why),)
        return Envelope(start, len(text) if line < 0 or exc.why == CUT else line, bad, stops=True)
    return Envelope(start, end, () if name is None else (call_of(name, arguments),), stops=True)


def _in_brackets(text: str, at: int) -> tuple[dict[str, Any], int]:
    found = read_object(text, at)
    closing = _BRACKET.match(text, found.end)
    if closing is None:
        why = "more than its arguments is in brackets" if text[found.end :].strip() else CUT
        raise UnreadableError(why, found.end)
    return found.value, closing.end()


REACT = Dialect(rf"{_LEAD}(?:(?i:Action)|行动|动作|操作){_COLON}(?=\s{{0,3}}[`\"'*]{{0,2}}{NAME})", _react)
