"""Arguments in JSON behind a name that stands outside of them, as most token dialects have it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from offprompt.wire._calls import BadCall, Call, call_of, known
from offprompt.wire._envelope import Envelope
from offprompt.wire._lenient import UnreadableError, read_object

MAX_BOUNDS: Final = 4
"""How many possible ends of a call are tried: an argument may hold the mark that ends it, hardly ever more."""

_HEADER = re.compile(r"\s*(?:(?:`{3,}|~{3,})[^\S\n]*\w*\s*|json\s*(?=[{｛]))?")
_AFTER = re.compile(r"[ \t]*\}*\s*(?:`{3,}|~{3,})?\s*")


@dataclass(frozen=True, slots=True)
class Body:
    """Where arguments begin, and what ends them: `bound` matches an end, or is empty before the next call."""

    start: int
    at: int
    bound: re.Pattern[str]
    empty: bool = True
    resumes: re.Pattern[str] | None = None


def read_named(text: str, name: str, body: Body, names: Collection[str]) -> Envelope:
    """The call of that name whose arguments begin at `body.at`.

    Good     one JSON object, in a fence or not, and nothing else before the bound; nothing at all, if `body.empty`.
    Bad      cut off, more than one object, no object. What is bad ends at its bound only if a call or the end of the
             text follows there (`body.resumes`), otherwise with the text: what follows may be part of a value.
    Cost     O(n) over all calls of a text: each bound is looked at from MAX_BOUNDS calls at most.
    """
    header = _HEADER.match(text, body.at)
    at = header.end() if header else body.at
    proper = known(name, names)
    bounds = _bounds(text, at, body.bound)
    why = ""
    for stop, end in bounds:
        try:
            found, behind = _object(text, at, stop, end, empty=body.empty and end > stop)
        except UnreadableError as exc:
            why = why or exc.why
            continue
        call = _called(proper, found)
        return Envelope(body.start, end if text[behind:stop].strip() == "" else behind, call)
    bad = () if proper is None else (BadCall(proper, why or "it is cut off before its end"),)
    return Envelope(body.start, _bad_end(text, at, bounds[0], body.resumes), bad)


def _bad_end(text: str, at: int, bound: tuple[int, int], resumes: re.Pattern[str] | None) -> int:
    """The bound, if no text is open there and a call may follow; otherwise the text's end."""
    stop, end = bound
    piece = text[at:stop]
    is_open = (piece.count('"') - piece.count('\\"')) % 2
    if resumes is None:
        return end if not is_open else len(text)
    return end if not is_open and resumes.match(text, end) else len(text)


def _called(name: str | None, arguments: dict[str, Any]) -> tuple[Call | BadCall, ...]:
    return () if name is None else (call_of(name, arguments),)


def _bounds(text: str, at: int, bound: re.Pattern[str]) -> list[tuple[int, int]]:
    """(where the arguments stop, where the mark behind them ends), nearest first."""
    found: list[tuple[int, int]] = []
    pos = at
    while len(found) < MAX_BOUNDS and (mark := bound.search(text, pos)) is not None:
        found.append((mark.start(), mark.end()))
        pos = max(mark.end(), mark.start() + 1)
    if len(found) < MAX_BOUNDS:
        found.append((len(text), len(text)))
    return found


def _object(text: str, at: int, stop: int, end: int, *, empty: bool) -> tuple[dict[str, Any], int]:
    piece = text[at:end]
    if not text[at:stop].strip(" \t\r\n`"):
        if empty:
            return {}, stop
        raise UnreadableError("its arguments are missing", stop)
    if piece[0] not in "{｛":
        raise UnreadableError("its arguments are not an object", stop)
    found = read_object(piece)
    after = _AFTER.match(text, at + found.end, max(stop, at + found.end))
    behind = after.end() if after else at + found.end
    if text[behind:stop].lstrip(" ,;").startswith(("{", "[", "｛")):
        raise UnreadableError("more than one object stands where its arguments are", stop)
    return found.value, behind
