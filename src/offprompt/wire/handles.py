"""Handles: `[[mem:NAME]]`, `[[mem:NAME#/json/pointer]]`, `[[mem:@BODY]]`, which stand for stored values.

Pure functions over text. A handle's name is compared in its folded form (`fold_name`); so `issued` names and body ids
must be told apart by it. What only looks like a handle, in words that are not the model's, is escaped with a word
joiner (U+2060) between its two opening brackets: it reads the same and is no handle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, Protocol
from urllib.parse import unquote

from offprompt.errors import HandleError, NameInvalidError
from offprompt.records import Json, as_dict, as_list, clean_name, fold_name, text_of
from offprompt.wire.pointers import key_of

JOINER: Final = "\u2060"
MAX_BODY_CHARS: Final = 1200
"""Characters between the colon and the closing brackets: a name of 64, a pointer."""

MAX_GAP_CHARS: Final = 16
"""Spaces and emphasis before and after `mem`; with more it is no handle, so that a stream holds back little."""

INVISIBLE: Final = (
    "\u00ad\u061c\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
)
"""What cannot be seen: soft hyphens, joiners, marks of direction. None is part of a name."""

OPENING, CLOSING = r"\[［【{｛", r"\]］】}｝"
LETTERS: Final = ("[mMｍＭ]", "[eEｅＥ]", "[mMｍＭ]")
GAP: Final = rf"[\s*`{INVISIBLE}]{{0,{MAX_GAP_CHARS}}}"
BODY: Final = rf"[^{OPENING}{CLOSING}\n]{{0,{MAX_BODY_CHARS}}}"
"""The parts of a handle, as patterns: brackets, the three letters, what may stand around them, name and pointer."""

_HEAD = rf"{GAP}{''.join(LETTERS)}{GAP}[:：]"
_HANDLE = re.compile(rf"[{OPENING}]{{2}}{_HEAD}({BODY})[{CLOSING}]{{2}}")
_LOOKALIKE = re.compile(rf"([{OPENING}])({JOINER}*)(?=[{OPENING}]{_HEAD})")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_COLON = re.compile(r"\s*:")
_BODY_ID = re.compile(r"@[A-Za-z0-9_-]{1,64}", re.ASCII)
_MEMORY_ID: Final = re.compile(r"m_[0-9a-z]{26}", re.IGNORECASE | re.ASCII)
_ASCII_MARKS: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63－", "-"),
        "＿": "_",
        "．": ".",
        "＠": "@",
        **dict.fromkeys(INVISIBLE),
    }
)
EMPHASIS: Final = "*`"
_TRIM: Final = " \t\r\u00a0\u3000*`\"'“”‘’" + INVISIBLE
_PLAIN_IN_POINTER: Final = frozenset("/~_-.:,;=+@!$&()<>|?^")
_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)

Status = Literal["ok", "not_issued", "not_found", "not_allowed"]


@dataclass(frozen=True, slots=True)
class FoundHandle:
    """A handle in a text: its characters, its folded name (`@ID` for a body), its pointer with `~` escapes."""

    start: int
    end: int
    name: str
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look-up answers: the value, or why there is none (it is then not used)."""

    status: Status
    value: Json = None


class Lookup(Protocol):
    """Answers for a handle: gets its folded name (or `@ID`) and pointer; see `at_pointer`."""

    def __call__(self, name: str, pointer: str, /) -> Looked:
        """The value, or the reason."""
        ...


@dataclass(frozen=True, slots=True)
class BadHandle:
    """A handle that was not resolved: as it stood in the text, its name and pointer, and why."""

    text: str
    name: str
    pointer: str
    why: Literal["not_issued", "not_found", "not_allowed", "malformed"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A text with its handles resolved, those that were used, in order, and those that could not be."""

    text: str
    used: tuple[FoundHandle, ...] = ()
    bad: tuple[BadHandle, ...] = ()


def format_handle(name: str, pointer: str = "") -> str:
    """The handle of a slot's value, of a part of it, of a body (`@ID`), or of a memory (`m_…`).

    pointer  a JSON pointer, empty for the whole; written as in a URI fragment where brackets or spaces would not do.
    Raises   HandleError unless the pointer is empty or begins with `/`; NameInvalidError if the name is none.
    Source   RFC 6901, section 6 for the pointer.
    """
    if not _stands_for_text(name):
        clean_name(name)
    if pointer and not pointer.startswith("/"):
        raise HandleError(f"the JSON pointer {pointer!r} of {name} does not begin with '/'; write '/{pointer}'")
    return f"[[mem:{name}#{_quote(pointer)}]]" if pointer else f"[[mem:{name}]]"


def _stands_for_text(name: str) -> bool:
    """Whether the name is a body's or a memory's id, which no slot has."""
    return _BODY_ID.fullmatch(name) is not None or _MEMORY_ID.fullmatch(name) is not None


def _quote(pointer: str) -> str:
    return "".join(
        char
        if char.isalnum() or char in _PLAIN_IN_POINTER
        else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in pointer
    )


def find_handles(text: str) -> list[FoundHandle]:
    r"""The handles in a text, in order, also where a model damaged them and the meaning is clear.

    Clear    case, spaces, full-width letters and punctuation, 【【 and {{ for [[, emphasis, quotes or backticks around
             the name, invisible characters (joiners, marks of direction), other hyphens, `\_`, `\/`, a pointer
             without its first slash. Not: a name that is no name.
    """
    return [found for found in find_candidates(text) if found.name]


def find_candidates(text: str) -> Iterator[FoundHandle]:
    """All that has the form of a handle, in order; those whose name is no name have none."""
    for match in _HANDLE.finditer(text):
        name, pointer = _split(match[1])
        yield FoundHandle(match.start(), match.end(), name, pointer)


def _split(body: str) -> tuple[str, str]:
    """The folded name, empty if it is none, and the pointer."""
    name, _, pointer = body.replace("＃", "#").partition("#")
    name = name.replace("\\", "").translate(_ASCII_MARKS).strip(_TRIM)
    pointer = pointer.replace("\\/", "/").strip(_TRIM)
    if pointer.startswith("／"):
        pointer = "/" + pointer[1:]
    pointer = _unquote(pointer)
    if pointer and not pointer.startswith("/"):
        pointer = "/" + pointer
    if _stands_for_text(name):
        return fold_name(name), pointer
    try:
        return fold_name(clean_name(name)), pointer
    except NameInvalidError:
        return "", pointer


def _unquote(pointer: str) -> str:
    try:
        return unquote(pointer, errors="surrogatepass")
    except UnicodeDecodeError:
        # Per cent signs that a model meant as such.
        return pointer


def at_pointer(value: Json, pointer: str) -> Looked:
    """The part of a value that a JSON pointer names, or `not_found`; in text only the empty pointer finds anything.

    Source   RFC 6901: `~1` is `/`, `~0` is `~`, array indexes without leading zeros, no `-`.
    """
    if not pointer:
        return Looked("ok", value)
    if not pointer.startswith("/"):
        return Looked("not_found")
    current: object = value
    for step in pointer[1:].split("/"):
        key = key_of(step)
        members, items = as_dict(current), as_list(current)
        if members is not None and key in members:
            current = members[key]
        elif items is not None and _INDEX.fullmatch(key) and len(key) < 10 and int(key) < len(items):
            current = items[int(key)]
        else:
            return Looked("not_found")
    return Looked("ok", current)  # pyright: ignore[reportArgumentType]  parts of JSON are JSON


def resolve_text(text: str, lookup: Lookup, *, missing: str) -> Resolved:
    """A text with each handle replaced by its value's text, a bad one by `missing`; escaped lookalikes restored.

    Values are not searched for handles in their turn. Without handles and lookalikes the same text comes back.
    """
    pieces: list[str] = []
    used: list[FoundHandle] = []
    bad: list[BadHandle] = []
    last = 0
    for found in find_handles(text):
        pieces.append(restore_lookalikes(text[last : found.start]))
        looked = lookup(found.name, found.pointer)
        if looked.status == "ok":
            used.append(found)
            pieces.append(text_of(looked.value))
        else:
            bad.append(BadHandle(text[found.start : found.end], found.name, found.pointer, looked.status))
            pieces.append(missing)
        last = found.end
    pieces.append(restore_lookalikes(text[last:]))
    return Resolved("".join(pieces), tuple(used), tuple(bad))


def resolve_arguments(arguments: str, lookup: Lookup) -> Resolved:
    """Tool arguments, JSON text, with their handles resolved; the call must not be run if any is bad.

    Typed    a string that is one handle, with spaces and emphasis around it or not, becomes the value itself, JSON and
             all; one that holds handles gets their text. Keys are not resolved. What looks like a handle and names
             nothing is bad (`malformed`) too.
    Bytes    only the strings concerned are rewritten, all other characters stay; with a bad handle, or none, and
             without escaped lookalikes, the same text comes back.
    Broken   arguments that are no JSON are not touched; handles in them are bad.
    Positions of `used` are those in the string that holds them.
    """
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        bad = tuple(_bad(arguments, found, "malformed") for found in find_candidates(arguments))
        return Resolved(arguments, bad=bad)
    pieces: list[str] = []
    used: list[FoundHandle] = []
    bad_ones: list[BadHandle] = []
    last = 0
    for match in _STRING.finditer(arguments):
        if _COLON.match(arguments, match.end()):
            continue
        before = json.loads(match[0], strict=False)
        after = resolve_string(before, lookup, used, bad_ones)
        if after is not None:
            pieces += [arguments[last : match.start()], json.dumps(after.value, ensure_ascii=False)]
            last = match.end()
    if bad_ones:
        return Resolved(arguments, tuple(used), tuple(bad_ones))
    return Resolved("".join([*pieces, arguments[last:]]), tuple(used))


def resolve_string(text: str, lookup: Lookup, used: list[FoundHandle], bad: list[BadHandle]) -> Looked | None:
    """The new value of one string of arguments, or None if it stays; adds to `used` and `bad`."""
    candidates = list(find_candidates(text))
    broken = [_bad(text, found, "malformed") for found in candidates if not found.name]
    if broken:
        bad += broken
        return None
    if len(candidates) == 1 and _stands_alone(text, candidates[0]):
        looked = lookup(candidates[0].name, candidates[0].pointer)
        if looked.status == "ok":
            used.append(candidates[0])
            return looked
        bad.append(_bad(text, candidates[0], looked.status))
        return None
    resolved = resolve_text(text, lookup, missing="")
    used += resolved.used
    bad += resolved.bad
    return Looked("ok", resolved.text) if resolved.text != text else None


def _stands_alone(text: str, found: FoundHandle) -> bool:
    """Whether a text is that handle and nothing else; emphasis around the whole of it is damage, too."""
    before, after = text[: found.start].strip(), text[found.end :].strip()
    return before == after[::-1] and not before.strip(EMPHASIS)


def _bad(
    text: str, found: FoundHandle, why: Literal["not_issued", "not_found", "not_allowed", "malformed"]
) -> BadHandle:
    return BadHandle(text[found.start : found.end], found.name, found.pointer, why)


def escape_lookalikes(text: str) -> str:
    """The text with all that looks like a handle made to be none; `restore_lookalikes` gives back exactly the text."""
    return _LOOKALIKE.sub(rf"\1{JOINER}\2", text)


def restore_lookalikes(text: str) -> str:
    """The text without what `escape_lookalikes` put in."""
    return _LOOKALIKE.sub(lambda match: match[1] + match[2][1:], text)
