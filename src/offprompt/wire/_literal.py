"""Python literals and calls as models write them; JSON's words are understood too. Nothing is ever evaluated."""

from __future__ import annotations

import re
from typing import Any, Final

from offprompt.wire._lenient import UnreadableError
from offprompt.wire._marks import NAME
from offprompt.wire._scanner import MAX_DEPTH

_WORDS: Final[dict[str, Any]] = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_CLOSE: Final = {"[": "]", "(": ")", "{": "}"}
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"[+-]?(?:\d{1,4000}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_PLAIN = {quote: re.compile(rf"[^{quote}\\]+") for quote in "\"'"}
_HEX = {"x": re.compile(r"[0-9a-fA-F]{2}"), "u": re.compile(r"[0-9a-fA-F]{4}"), "U": re.compile(r"[0-9a-fA-F]{8}")}
_KEY = re.compile(rf"({NAME})\s*=(?!=)\s*")
CUT: Final = "it is cut off before its end"


def read_literal(text: str, pos: int, depth: int = 1) -> tuple[Any, int]:
    """The value that begins at `text[pos]` and its end.

    Accepts  strings in either quote, numbers, True, False, None and their JSON spellings, lists, tuples (as lists),
             dicts with text keys.
    Raises   UnreadableError: cut off, nested too deep, or anything else (bytes, sets, expressions).
    """
    if depth > MAX_DEPTH:
        raise UnreadableError(f"it is nested deeper than {MAX_DEPTH} levels", pos)
    char = text[pos : pos + 1]
    if not char:
        raise UnreadableError(CUT, pos)
    if char in "\"'":
        return _string(text, pos)
    if char in "[(":
        return _list(text, pos, depth)
    if char == "{":
        return _dict(text, pos, depth)
    word = _WORD.match(text, pos)
    if word is not None and word[0] in _WORDS:
        return _WORDS[word[0]], word.end()
    number = _NUMBER.match(text, pos)
    if number is None:
        raise UnreadableError("it holds something that is no literal", pos)
    return (int(number[0]) if re.fullmatch(r"[+-]?\d+", number[0]) else float(number[0])), number.end()


def read_arguments(text: str, pos: int) -> tuple[dict[str, Any], int]:
    """`key=value, …)` behind an opening bracket: the arguments, and the end behind the closing one.

    Raises   UnreadableError as `read_literal`; a value without a name; a name twice with different values.
    """
    value: dict[str, Any] = {}
    pos = _skip(text, pos)
    while text[pos : pos + 1] != ")":
        key = _KEY.match(text, pos)
        if key is None:
            raise UnreadableError(CUT if pos >= len(text) else "an argument has no name", pos)
        part, pos = read_literal(text, key.end())
        if key[1] in value and value[key[1]] != part:
            raise UnreadableError(f"it has {key[1]} twice, with different values", pos)
        value[key[1]] = part
        pos = _separator(text, pos, ")")
    return value, pos + 1


def _skip(text: str, pos: int) -> int:
    space = _SPACE.match(text, pos)
    return space.end() if space else pos


def _separator(text: str, pos: int, closer: str) -> int:
    """Behind a comma, or at the closer."""
    pos = _skip(text, pos)
    char = text[pos : pos + 1]
    if char == ",":
        return _skip(text, pos + 1)
    if char != closer:
        raise UnreadableError("something stands between its parts" if char else CUT, pos)
    return pos


def _list(text: str, pos: int, depth: int) -> tuple[list[Any], int]:
    closer = _CLOSE[text[pos]]
    value: list[Any] = []
    pos = _skip(text, pos + 1)
    while text[pos : pos + 1] != closer:
        part, pos = read_literal(text, pos, depth + 1)
        value.append(part)
        pos = _separator(text, pos, closer)
    return value, pos + 1


def _dict(text: str, pos: int, depth: int) -> tuple[dict[str, Any], int]:
    value: dict[str, Any] = {}
    pos = _skip(text, pos + 1)
    while text[pos : pos + 1] != "}":
        key, pos = read_literal(text, pos, depth + 1)
        pos = _skip(text, pos)
        if not isinstance(key, str) or text[pos : pos + 1] != ":":
            raise UnreadableError("it holds something that is no literal" if text[pos : pos + 1] else CUT, pos)
        part, pos = read_literal(text, _skip(text, pos + 1), depth + 1)
        value[key] = part
        pos = _separator(text, pos, "}")
    return value, pos + 1


def _string(text: str, pos: int) -> tuple[str, int]:
    quote, pos = text[pos], pos + 1
    parts: list[str] = []
    while True:
        plain = _PLAIN[quote].match(text, pos)
        if plain is not None:
            parts.append(plain[0])
            pos = plain.end()
        char = text[pos : pos + 1]
        if char == quote:
            return "".join(parts), pos + 1
        if not char or pos + 1 >= len(text):
            raise UnreadableError(CUT, len(text))
        piece, pos = _escape(text, pos)
        parts.append(piece)


def _escape(text: str, pos: int) -> tuple[str, int]:
    char = text[pos + 1]
    if char in _HEX:
        digits = _HEX[char].match(text, pos + 2)
        code = int(digits[0], 16) if digits else -1
        if digits is None or code > 0x10FFFF:
            return "\\", pos + 1
        low = _HEX["u"].match(text, pos + 8) if 0xD800 <= code < 0xDC00 and text[pos + 6 : pos + 8] == "\\u" else None
        if low is not None and 0xDC00 <= int(low[0], 16) < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[0], 16) - 0xDC00), pos + 12
        return chr(code), digits.end()
    if char in _ESCAPES:
        return _ESCAPES[char], pos + 2
    # Not an escape of Python either (a pattern, a path): the backslash is meant, unless it keeps a quote or itself.
    return (char, pos + 2) if char in "\"'\\/" else ("\\", pos + 1)
