"""A balanced scan over nearly-JSON text: where an object ends, and its text with the usual slips put right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from offprompt.wire._marks import CLOSE_FRAME, CLOSING

MAX_DEPTH: Final = 64

_WIDE: Final = {"｛": "{", "｝": "}", "［": "[", "］": "]", "：": ":", "，": ","}
_PAIRS: Final = {"{": "}", "[": "]"}
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: Final = {"true": "true", "false": "false", "null": "null", "none": "null"}
_NOT_NUMBERS: Final = frozenset({"nan", "infinity", "-infinity", "+infinity", "inf", "-inf", "+inf"})
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z", re.ASCII)
_KEY = re.compile(r"[^\W\d]\w*\Z")
_SPACE = re.compile(r"\s+")
_BARE = re.compile(r"[^\s{}\[\]:,\"'“”｛｝［］：，]+")
_BARE_NARROW = re.compile(r"[^\s{}\[\]:,\"']+")
_COMMENT = re.compile(r"//[^\n]*|#(?=\s)[^\n]*|/\*.*?\*/", re.DOTALL)
_FOLLOWS = re.compile(rf"\s*(?:[,:}}\]]|\Z|//|/\*|#\s|{CLOSE_FRAME})", re.IGNORECASE)
_FOLLOWS_WIDE = re.compile(rf"\s*(?:[,:}}\]｛｝［］：，]|\Z|//|/\*|#\s|{CLOSE_FRAME})", re.IGNORECASE)
_HEX4 = re.compile(r"[0-9a-fA-F]{4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Style:
    """One way to read: which closers end a string by its opener, whether full-width punctuation is structure."""

    quotes: Mapping[str, tuple[str, ...]]
    wide: bool = False
    doubled: bool = False
    slashed: bool = False


READINGS: Final = (
    Style({'"': ('"',), "'": ("'",)}),
    Style({'"': ('"',), "'": ("'",), "“": ("”",), "‘": ("’",), "＂": ("＂",)}, wide=True),
    Style(
        {
            **dict.fromkeys('"“”＂', ('"', "“", "”", "＂")),
            **dict.fromkeys("'‘’", ("'", "‘", "’")),
        },
        wide=True,
    ),
    Style({'""': ('""',)}, doubled=True),
    Style({'\\"': ('\\"',)}, slashed=True),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a scan found.

    end      behind the object; the text's end if it never closes. closed: whether it closes.
    normal   the object with its slips put right. clean: False, it holds bare words that are no JSON.
    inner    a string has quotes inside without a backslash. why: what is wrong with it in any case, or empty.
    """

    end: int
    closed: bool
    normal: str = ""
    clean: bool = True
    inner: bool = False
    why: str = ""


@dataclass(slots=True)
class _State:
    text: str
    style: Style
    pos: int
    out: list[str] = field(default_factory=list[str])
    stack: list[str] = field(default_factory=list[str])
    clean: bool = True
    inner: bool = False
    why: str = ""


def scan(text: str, start: int, style: Style) -> Reading:
    """Read the object that begins at `text[start]` in one style. O(n), no recursion, raises nothing."""
    state = _State(text, style, start)
    while state.pos < len(text):
        _step(state)
        if not state.stack:
            normal = "".join(state.out)
            return Reading(state.pos, closed=True, normal=normal, clean=state.clean, inner=state.inner, why=state.why)
        if len(state.stack) > MAX_DEPTH:
            return Reading(len(text), closed=False, why=f"it is nested deeper than {MAX_DEPTH} levels")
    return Reading(len(text), closed=False)


def _step(state: _State) -> None:
    text, pos = state.text, state.pos
    char = text[pos]
    if char.isspace():
        blank = _SPACE.match(text, pos)
        state.pos = blank.end() if blank else pos + 1
        return
    structure = _WIDE.get(char, char) if state.style.wide else char
    if structure in "{[":
        state.stack.append(structure)
        _emit(state, structure, pos + 1)
    elif structure in "}]":
        _close(state, structure)
        state.pos = pos + 1
    elif structure in ",:":
        _missing(state)
        _emit(state, structure, pos + 1)
    elif char == "<" and CLOSING.match(text, pos):
        # The model ended the call here: closers that are missing after a whole value were only forgotten.
        if state.out[-1] in (",", ":", "{", "["):
            state.why = "it is cut off before its end"
        while state.stack:
            _close(state, _PAIRS[state.stack[-1]])
    elif (opener := _opener(state)) is not None:
        _string(state, opener)
    elif (comment := _comment(state)) is not None:
        state.pos = comment
    else:
        _bare(state)


def _emit(state: _State, piece: str, pos: int) -> None:
    state.out.append(piece)
    state.pos = pos


def _close(state: _State, closer: str) -> None:
    # One that does not match is no JSON, whatever it closes.
    state.stack.pop()
    _missing(state)
    if state.out[-1] == ",":
        state.out.pop()
    state.out.append(closer)


def _missing(state: _State) -> None:
    if state.out[-1] == ":":
        state.why = "a value is missing"


def _opener(state: _State) -> str | None:
    return next((quote for quote in state.style.quotes if state.text.startswith(quote, state.pos)), None)


def _comment(state: _State) -> int | None:
    """The end of a comment that begins here; `//` inside a bare word such as a URL does not begin one."""
    if state.text[state.pos - 1] not in " \t\r\n,{[}]\"'":
        return None
    match = _COMMENT.match(state.text, state.pos)
    return match.end() if match else None


def _string(state: _State, opener: str) -> None:
    text, pos = state.text, state.pos + len(opener)
    closers = state.style.quotes[opener]
    follows = _FOLLOWS_WIDE if state.style.wide else _FOLLOWS
    parts: list[str] = []
    slashed, escapes = state.style.slashed, not opener.startswith("<")
    while pos < len(text):
        char = text[pos]
        if char == "\\" and escapes and not (slashed and text.startswith(closers, pos)):
            # Where every quote has a backslash, what another one means cannot be told.
            state.clean = state.clean and not slashed
            piece, pos = _escape(text, pos)
            parts.append(piece)
            continue
        closer = next((item for item in closers if text.startswith(item, pos)), None)
        if closer is not None:
            if follows.match(text, pos + len(closer)):
                _emit(state, json.dumps("".join(parts), ensure_ascii=False), pos + len(closer))
                return
            state.inner = True
        parts.append(char)
        pos += 1
    state.pos = pos
    state.clean = False


def _escape(text: str, pos: int) -> tuple[str, int]:
    char = text[pos + 1 : pos + 2]
    if char == "u":
        digits = _HEX4.match(text, pos + 2)
        if digits is None:
            return "\\", pos + 1
        code = int(digits[0], 16)
        low = _HEX4.match(text, pos + 8) if 0xD800 <= code < 0xDC00 and text.startswith("\\u", pos + 6) else None
        if low is not None and 0xDC00 <= int(low[0], 16) < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[0], 16) - 0xDC00), pos + 12
        return chr(code), pos + 6
    if char in _ESCAPES:
        return _ESCAPES[char], pos + 2
    if char and char in "\"'\\/“”‘’":
        return char, pos + 2
    # Not an escape of JSON (a pattern, a path): the backslash is meant.
    return "\\", pos + 1


def _bare(state: _State) -> None:
    match = (_BARE if state.style.wide else _BARE_NARROW).match(state.text, state.pos)
    if match is None:
        # A quote of another style, or one in the middle of a bare word.
        state.clean = False
        _emit(state, state.text[state.pos], state.pos + 1)
        return
    word = match[0]
    lower = word.casefold()
    if lower in _NOT_NUMBERS:
        state.why = f"it holds {word}, which JSON does not have"
    elif not word.strip(".…"):
        state.why = "something is left out in it"
    if lower in _LITERALS and _is_value(state, match.end()):
        word = _LITERALS[lower]
    elif not _NUMBER.match(word):
        if _KEY.match(word) and not _is_value(state, match.end()):
            word = json.dumps(word, ensure_ascii=False)
        else:
            state.clean = False
    # The space keeps two bare words apart, so that they are never read as one.
    _emit(state, word + " ", match.end())


def _is_value(state: _State, end: int) -> bool:
    rest = _SPACE.match(state.text, end)
    after = state.text[rest.end() if rest else end :][:1]
    return after not in (":", "：")
