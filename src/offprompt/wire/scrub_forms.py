"""What a stored value looks like in a text: the forms that scrubbing looks for, and which are no more than chance."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from offprompt.records import Json, as_dict, as_list, canonical, compact
from offprompt.wire.pointers import leaves
from offprompt.wire.thresholds import doubled

WORD_CHARS: Final = 3
"""From here a value is looked for where it stands as a whole word or number."""

ANYWHERE_CHARS: Final = 4
"""From here text is looked for wherever it stands, also as a part of a JSON value. A Han character counts as two."""

NUMBER_CHARS: Final = 8
"""From here digits are looked for inside longer runs of digits too."""

PART_DIGITS: Final = 6
"""From here a number is looked for as a part of a JSON value."""

MAX_DEPTH: Final = 50
"""JSON nested deeper is looked for in its usual texts only, and its parts."""

_HAN: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Han is written without spaces: a Han letter beside a word does not make it another word.
_BEFORE, _AFTER = rf"(?<![^\W_{_HAN}])", rf"(?![^\W_{_HAN}])"
_IN_NUMBER: Final = (r"(?<!\d)(?<!\d[.,])", r"(?!\d)(?![.,]\d)")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR: Final = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null", re.ASCII)

Cut = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a value, or of a part of it. cut: the text between its places; size: of two forms the longer wins."""

    size: int
    name: str
    pointer: str
    cut: Cut


def too_short(value: Json) -> bool:
    """Whether a value cannot be told from chance at all, so that it is neither scrubbed nor proved to be absent.

    Booleans and null always; numbers under 3 characters; text under 3, a Han character counted twice and a run of
    spaces or dashes once; empty objects and lists.
    """
    if isinstance(value, str):
        return doubled(value.strip()) < WORD_CHARS
    if value is None or isinstance(value, bool):
        return True
    return len(compact(value)) < WORD_CHARS


def forms(name: str, value: Json, *, parts: bool) -> Iterator[Form]:
    r"""All forms of a value that is not too short.

    Text     as it is, and JSON-escaped once and twice, with and without `\u`.
    Numbers  their JSON text, whole.
    JSON     the text of the same value in any spelling: spaces, order of keys, escapes; also JSON-escaped.
    parts    of JSON also each text of 4 characters and each number of 6 digits in it.
    """
    if too_short(value):
        return
    if isinstance(value, (str, int, float)):
        yield from _single(name, "", value)
        return
    texts = {compact(value), canonical(value), json.dumps(value, ensure_ascii=False), json.dumps(value)}
    for form in {form for text in texts for form in _spellings(text)}:
        yield Form(len(form), name, "", _plain(form))
    if _is_shallow(value):
        yield Form(len(compact(value)), name, "", _spelled(value))
    if parts:
        for pointer, part in _parts(value):
            yield from _single(name, pointer, part)


def _single(name: str, pointer: str, value: str | float) -> Iterator[Form]:
    text = value if isinstance(value, str) else compact(value)
    is_number = not isinstance(value, str)
    is_word = is_number or doubled(text) < ANYWHERE_CHARS
    is_digits = is_number or (text.isdecimal() and len(text) < NUMBER_CHARS)
    for form in _spellings(text):
        before = _BEFORE * is_word + _IN_NUMBER[0] * is_digits
        after = _AFTER * is_word + _IN_NUMBER[1] * is_digits
        whole = re.compile(before + re.escape(form) + after).split if before else _plain(form)
        yield Form(len(form), name, pointer, whole)


def _plain(form: str) -> Cut:
    return lambda text: text.split(form)


def _spellings(text: str) -> set[str]:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return {text}
    once = {json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]}
    return {text, *once, *(json.dumps(form, ensure_ascii=False)[1:-1] for form in once)}


def _parts(value: Json) -> Iterator[tuple[str, str | float]]:
    """The texts and numbers in a JSON value that are looked for by themselves, with their pointers."""
    for pointer, part in leaves(value):
        if isinstance(part, str):
            if doubled(part.strip()) >= ANYWHERE_CHARS:
                yield pointer, part
        elif (
            isinstance(part, (int, float))
            and not isinstance(part, bool)
            and sum(char.isdigit() for char in compact(part)) >= PART_DIGITS
        ):
            yield pointer, part


def _is_shallow(value: Json) -> bool:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [item for part in level for item in [*(as_dict(part) or {}).values(), *(as_list(part) or [])]]
        if not level:
            return True
    return False


def _spelled(value: Json) -> Cut:
    """Cuts a text at each place where the same JSON value is written, however it is spelled. Cost: O(n)."""
    members = as_dict(value)
    opening = r"\["
    if members is not None:
        keys = {re.escape(form) for key in members for form in (json.dumps(key, ensure_ascii=False), json.dumps(key))}
        opening = rf"\{{[ \t\r\n]*(?:{'|'.join(sorted(keys))})"
    start = re.compile(opening)

    def cut(text: str) -> list[str]:
        pieces: list[str] = []
        last = 0
        for match in start.finditer(text):
            end = _same(text, match.start(), value) if match.start() >= last else -1
            if end >= 0:
                pieces.append(text[last : match.start()])
                last = end
        return [*pieces, text[last:]]

    return cut


def _same(text: str, at: int, value: object) -> int:
    """Where the JSON text of the value ends that begins at a place, or -1 if it is not there."""
    members, items = as_dict(value), as_list(value)
    if members is not None:
        return _same_object(text, at, members)
    if items is not None:
        return _same_list(text, at, items)
    if isinstance(value, str):
        found, end = _string(text, at, len(value))
        return end if found == value else -1
    match = _SCALAR.match(text, at)
    if match is None:
        return -1
    try:
        found = json.loads(match[0])
    except ValueError:
        return -1
    return match.end() if found == value and isinstance(found, bool) == isinstance(value, bool) else -1


def _string(text: str, at: int, chars: int) -> tuple[str | None, int]:
    """The JSON string at a place and its end; None if there is none of at most that many characters."""
    match = _STRING.match(text, at, at + 12 * chars + 2)
    if match is None:
        return None, -1
    try:
        return json.loads(match[0], strict=False), match.end()
    except ValueError:
        return None, -1


def _same_object(text: str, at: int, members: dict[str, object]) -> int:
    if not text.startswith("{", at):
        return -1
    longest = max(map(len, members), default=0)
    left = dict(members)
    at = _spaces(text, at + 1)
    while left:
        key, at = _string(text, at, longest)
        if key is None or key not in left:
            return -1
        at = _spaces(text, at)
        if not text.startswith(":", at):
            return -1
        at = _same(text, _spaces(text, at + 1), left.pop(key))
        if at < 0:
            return -1
        at = _spaces(text, at)
        if left:
            if not text.startswith(",", at):
                return -1
            at = _spaces(text, at + 1)
    return at + 1 if text.startswith("}", at) else -1


def _same_list(text: str, at: int, items: list[object]) -> int:
    if not text.startswith("[", at):
        return -1
    at = _spaces(text, at + 1)
    for place, item in enumerate(items):
        at = _same(text, at, item)
        if at < 0:
            return -1
        at = _spaces(text, at)
        if place < len(items) - 1:
            if not text.startswith(",", at):
                return -1
            at = _spaces(text, at + 1)
    return at + 1 if text.startswith("]", at) else -1


def _spaces(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
