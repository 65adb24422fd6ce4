"""A reply's text without its calls, and without what only framed them."""

from __future__ import annotations

import re
from typing import Final

from offprompt.wire._envelope import Envelope
from offprompt.wire._marks import CLOSE_FRAME, OPEN_FRAME

_REACH: Final = 80
_ROUNDS: Final = 4
_CLOSERS = re.compile(r"[ \t]*\}+")
_BEFORE = re.compile(rf"(?:{OPEN_FRAME})\s*\Z", re.IGNORECASE)
_AFTER = re.compile(rf"\s*(?:{CLOSE_FRAME})", re.IGNORECASE)
_LIST = (re.compile(r"\[\s*\Z"), re.compile(r"\s*,?\s*\]"))
_FENCE = (
    re.compile(r"(?:(?:`{3,}|~{3,})[^\S\n]*[\w.-]*|`{1,2})\s*\Z"),
    re.compile(r"\s*(?:`+|~{3,}|\Z)"),
)


def without(text: str, envelopes: list[Envelope]) -> str:
    """The text without those envelopes and what only framed them: marks, fences, list brackets and commas between.

    Untouched in all else; empty if only white space would be left.
    """
    if not envelopes:
        return text
    merged: list[list[int]] = []
    for item in envelopes:
        wide_start, wide_end = _widen(text, item)
        if merged and not text[merged[-1][1] : wide_start].strip(" \t\r\n,;"):
            merged[-1][1] = max(wide_end, merged[-1][1])
        else:
            merged.append([wide_start, wide_end, item.floor])
    pieces: list[str] = []
    last = 0
    for start, end, floor in merged:
        framed_start, framed_end = _unframe(text, max(last, floor), start, end)
        pieces.append(text[last:framed_start])
        last = max(framed_end, last)
    rest = "".join([*pieces, text[last:]])
    return rest if rest.strip() else ""


def _widen(text: str, item: Envelope) -> tuple[int, int]:
    closers = _CLOSERS.match(text, item.end)
    return _marked(text, item.floor, item.start, closers.end() if closers else item.end)


def _marked(text: str, floor: int, start: int, end: int) -> tuple[int, int]:
    """Take along marks on either side."""
    for _ in range(_ROUNDS):
        before = _BEFORE.search(text, max(floor, start - _REACH), start)
        after = _AFTER.match(text, end)
        if before is None and after is None:
            break
        start, end = before.start() if before else start, after.end() if after else end
    return start, end


def _unframe(text: str, floor: int, start: int, end: int) -> tuple[int, int]:
    """Take along a list's brackets, marks, and a fence's lines, where both sides are there."""
    for opening, closing in (_LIST, _FENCE):
        before, after = opening.search(text, max(floor, start - _REACH), start), closing.match(text, end)
        if before is not None and after is not None:
            start, end = before.start(), after.end()
        start, end = _marked(text, floor, start, end)
    return start, end
