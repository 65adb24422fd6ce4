"""Reading the JSON objects that models write: exactly where it is JSON, with care where it nearly is."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from offprompt.records import as_dict, as_list, canonical, compact
from offprompt.wire._scanner import MAX_DEPTH, READINGS, Reading, scan

MAX_REPAIR_CHARS: Final = 20_000
"""json-repair takes time that grows faster than its input; what is longer and broken is refused."""

ENVELOPE_KEYS: Final = frozenset(
    {"name", "action", "tool", "function", "tool_name", "arguments", "parameters", "args", "input", "action_input"}
)
MARKS: Final = ("<tool_call>", "</tool_call>", "<think>", "</think>", "```")

_DOUBLED = re.compile(r'\{\s*""\w')
_SLASHED = re.compile(r'\{\s*\\"')
_WORD = re.compile(r"\w+")


class UnreadableError(ValueError):
    """A JSON object that cannot be used; `end` is where it ends in the text it was read from."""

    def __init__(self, why: str, end: int) -> None:
        self.why, self.end = why, end
        super().__init__(why)


class _MeaningError(ValueError):
    """Well-formed, but without one safe meaning."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object that was read: its value, and the end of its text."""

    value: dict[str, Any]
    end: int


def read_object(text: str, start: int = 0) -> Found:
    """The JSON object that begins at `text[start]`, an opening brace.

    Accepts  JSON; then near misses of one meaning: raw line ends in strings, single, curly, doubled or full-width
             quotes and punctuation, trailing commas, comments, bare keys, Python literals, unescaped inner quotes;
             closers missing before `</tool_call>`; at last json-repair, if it neither lost nor made up a word.
             Equal keys: the last counts, except where they name the call or its arguments.
    Raises   UnreadableError: cut off before its end; no reading; two different ones; NaN or infinity; half a
             character; nested deeper than 64 levels.
    Cost     O(n) for JSON. Never any other error, whatever the text.
    """
    try:
        value, end = _STRICT.raw_decode(text, start)
    except _MeaningError as exc:
        raise UnreadableError(str(exc), scan(text, start, READINGS[0]).end) from exc
    except (ValueError, RecursionError):
        return _read_leniently(text, start)
    found = as_dict(value)
    if found is None:
        raise UnreadableError("it is not an object", end)
    check_value(found, end)
    return Found(found, end)


def strict_object(text: str, start: int) -> Found | None:
    """The object there if it is JSON as it should be, whatever follows; None if it is not, or not yet."""
    try:
        value, end = _STRICT.raw_decode(text, start)
        found = as_dict(value)
        if found is None:
            return None
        check_value(found, end)
    except (ValueError, RecursionError):
        return None
    return Found(found, end)


def read_whole(text: str) -> dict[str, Any]:
    """The one object that the text consists of, in a fence or not; `json` before it and brackets behind it are ignored.

    Raises   UnreadableError as `read_object`, or if there is anything else in the text.
    """
    head = text.lstrip()
    bare = head.lstrip("`~")
    fence = head[: len(head) - len(bare)][:1]
    head = bare.lstrip()
    head = head[4:].lstrip() if head.startswith("json") else head
    if not head.startswith(("{", "｛")):
        return _unwrapped(head)
    found = read_object(head)
    if head[found.end :].strip(" \t\r\n}]" + fence):
        raise UnreadableError("there is more text behind the object", len(text))
    return found.value


def _unwrapped(text: str) -> dict[str, Any]:
    # Some servers encode the arguments twice: a JSON string that holds the object.
    if text.startswith('"'):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            inner = None
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            return read_whole(inner)
    raise UnreadableError("it is not a JSON object" if text else "it is empty", len(text))


def _read_leniently(text: str, start: int) -> Found:
    doubled = _DOUBLED.match(text, start) is not None
    slashed = _SLASHED.match(text, start) is not None
    styles = [style for style in READINGS if style.doubled is doubled and style.slashed is slashed]
    scans = [scan(text, start, style) for style in styles]
    closed = [item for item in scans if item.closed]
    if not closed:
        first = scans[0]
        raise UnreadableError(first.why or "it is cut off before its end", first.end)
    refused = next((item for item in closed if item.why), None)
    if refused is not None:
        raise UnreadableError(refused.why, refused.end)
    values: dict[str, Found] = {}
    inner = False
    try:
        for item in closed:
            value = _loads(item)
            if value is not None:
                values.setdefault(canonical(value), Found(value, item.end))
                inner = inner or item.inner
    except (_MeaningError, ValueError, RecursionError) as exc:
        raise UnreadableError(_why(exc), closed[0].end) from exc
    if len(values) > 1:
        raise UnreadableError("it can be read in two ways", closed[0].end)
    if values:
        found = next(iter(values.values()))
        if inner:
            _agree(_repaired(text[start : found.end]), found)
    else:
        found = _repair_checked(text[start : closed[0].end], closed[0].end)
    check_value(found.value, found.end)
    if (inner or not values) and any(mark in leaf for leaf in _texts(found.value) for mark in MARKS):
        raise UnreadableError("it is broken and holds marks of another call", found.end)
    return found


def _loads(reading: Reading) -> dict[str, Any] | None:
    if not reading.clean:
        return None
    try:
        return as_dict(_STRICT.decode(reading.normal))
    except _MeaningError:
        raise
    except (ValueError, RecursionError):
        return None


def _repair_checked(raw: str, end: int) -> Found:
    if len(raw) > MAX_REPAIR_CHARS:
        raise UnreadableError("it is not JSON, and too long to repair", end)
    value = as_dict(_repaired(raw))
    if value is None or not _same_words(raw, value):
        raise UnreadableError("it is not JSON and cannot be repaired without guessing", end)
    return Found(value, end)


def _repaired(raw: str) -> object:
    # Imported here: only broken JSON needs it, and it would slow every `import offprompt`.
    from json_repair import loads  # noqa: PLC0415

    try:
        return loads(raw, skip_json_loads=True)
    except (ValueError, RecursionError, IndexError):
        return None


def _agree(other: object, found: Found) -> None:
    """Inner quotes without a backslash have one reading only if a second reader finds the same."""
    if other != found.value:
        raise UnreadableError("its quotes can be read in two ways", found.end)


def _same_words(raw: str, value: dict[str, Any]) -> bool:
    """Whether a repair kept every letter and digit in order, and added none."""
    try:
        after = compact(value)
    except (ValueError, RecursionError):
        return False
    return _words(raw) == _words(after)


def _words(text: str) -> str:
    return "".join("null" if word == "none" else word for word in _WORD.findall(text.casefold()))


def check_value(value: dict[str, Any], end: int = 0) -> None:
    """Refuse what JSON text cannot carry; without recursion, since the value may be deep.

    Raises   UnreadableError: NaN, infinity, half a character, too deep.
    """
    todo: list[tuple[object, int]] = [(value, 1)]
    while todo:
        item, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise UnreadableError(f"it is nested deeper than {MAX_DEPTH} levels", end)
        if isinstance(item, float) and not math.isfinite(item):
            raise UnreadableError("it holds NaN or infinity, which JSON does not have", end)
        if isinstance(item, str) and any("\ud800" <= char <= "\udfff" for char in item):
            raise UnreadableError("it holds half a character (a lone surrogate)", end)
        members = as_dict(item)
        if members is not None:
            todo += [(part, depth) for part in members]
            todo += [(part, depth + 1) for part in members.values()]
        else:
            todo += [(part, depth + 1) for part in as_list(item) or ()]


def _texts(value: object) -> list[str]:
    texts: list[str] = []
    todo: list[object] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            texts.append(item)
        members = as_dict(item)
        todo += (as_list(item) or ()) if members is None else [*members, *members.values()]
    return texts


def _why(exc: BaseException) -> str:
    return str(exc) if isinstance(exc, _MeaningError) else "it holds a number or text that JSON does not have"


def _no_constant(name: str) -> Any:
    raise _MeaningError(f"it holds {name}, which JSON does not have")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, part in pairs:
        if key in ENVELOPE_KEYS and key in value and value[key] != part:
            raise _MeaningError(f"it has {key!r} twice, with different values")
        value[key] = part
    return value


_STRICT: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, strict=False)
