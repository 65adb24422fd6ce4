"""Where a reply's text may hold calls: JSON objects outside of reasoning, code and inline examples."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from offprompt.wire._lenient import UnreadableError, read_object

DATA_FENCES: Final = frozenset(
    {"", "json", "json5", "jsonc", "jsonl", "tool", "tool_call", "tool_calls", "action", "actions", "text", "xml"}
)
"""What a fence may call its content and still hold calls; anything else is code that is being shown."""

MAX_INLINE_CHARS: Final = 2000
"""Longer than that, two single backticks are not taken for the ends of one inline example."""

UNENDED_REASONING: Final = "it stands in reasoning that is not closed; close it and call again"

_TOKEN = re.compile(
    r"<think(?:ing)?>|</think(?:ing)?>|</?tool_call>|`+|~{3,}|[{｛](?=\s*(?:[\"'“”‘’＂\\]|[^\W\d]\w*\s*[:：]|\}))",
    re.IGNORECASE,
)
_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_INLINE_END: Final = {size: re.compile(rf"(?<!`)`{{{size}}}(?!`)") for size in (1, 2)}
_INFO = re.compile(r"[^\S\n]*([\w+#.-]*)")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n")
_CLOSERS = re.compile(r"[ \t]*\}+")
_BEFORE = re.compile(r"<tool_call>\s*\Z", re.IGNORECASE)
_AFTER = re.compile(r"\s*</tool_call>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One JSON object in a reply's text.

    start, end  its own characters. value: what it says, None: unreadable, and `why`.
    tagged      it stands in `<tool_call>`.
    """

    start: int
    end: int
    value: dict[str, Any] | None = None
    why: str = ""
    tagged: bool = False


@dataclass(slots=True)
class _Walk:
    text: str
    pos: int = 0
    found: list[Envelope] = field(default_factory=list[Envelope])
    fence: str = ""
    tagged: bool = False
    reasoning: bool = False


def find_envelopes(text: str) -> list[Envelope]:
    """The JSON objects of a reply's text that may be calls, in order; raises nothing.

    Reasoning   nothing in `<think>…</think>`, nor before a `</think>` whose opening is not in the reply; what stands
                behind a `<think>` that never closes is unreadable.
    Code        nothing in `inline code`, nor in a fence that names a programming language.
    Cut off     an object that never closes takes the rest of the text: nothing behind it is looked at, since it may
                be part of its value.
    """
    walk = _Walk(text)
    while (token := _TOKEN.search(text, walk.pos)) is not None:
        _take(walk, token)
    return walk.found


def _take(walk: _Walk, token: re.Match[str]) -> None:
    kind = token[0].casefold()
    walk.pos = token.end()
    if kind.startswith("<think"):
        end = None if walk.reasoning else _THINK_END.search(walk.text, walk.pos)
        walk.reasoning = end is None
        walk.pos = end.end() if end else walk.pos
    elif kind.startswith("</think"):
        walk.found.clear()
    elif kind.startswith(("<tool", "</tool")):
        walk.tagged = kind[1] != "/"
    elif kind[0] in "`~":
        _code(walk, kind)
    else:
        _object(walk, token.start())


def _code(walk: _Walk, run: str) -> None:
    text = walk.text
    if walk.fence:
        if run[0] == walk.fence[0] and len(run) >= len(walk.fence):
            walk.fence = ""
        return
    if len(run) >= 3:
        info = _INFO.match(text, walk.pos)
        if info is not None and info[1].casefold() not in DATA_FENCES:
            end = text.find(run, info.end())
            walk.pos = len(text) if end < 0 else end + len(run)
        else:
            walk.fence, walk.pos = run, info.end() if info else walk.pos
        return
    limit = min(len(text), walk.pos + MAX_INLINE_CHARS)
    paragraph = _PARAGRAPH_END.search(text, walk.pos, limit)
    close = _INLINE_END[len(run)].search(text, walk.pos, paragraph.start() if paragraph else limit)
    walk.pos = close.end() if close else walk.pos


def _object(walk: _Walk, start: int) -> None:
    try:
        found = read_object(walk.text, start)
    except UnreadableError as exc:
        item = Envelope(start, exc.end, why=exc.why, tagged=walk.tagged)
    else:
        item = Envelope(start, found.end, found.value, tagged=walk.tagged)
    if walk.reasoning:
        item = replace(item, value=None, why=UNENDED_REASONING)
    walk.found.append(item)
    walk.pos = max(item.end, start + 1)


def without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text without those spans and what only framed them: tags, fences, list brackets and commas between.

    Untouched in all else; empty if only white space would be left.
    """
    if not spans:
        return text
    merged: list[list[int]] = []
    for start, end in spans:
        wide_start, wide_end = _widen(text, start, end)
        if merged and not text[merged[-1][1] : wide_start].strip(" \t\r\n,;"):
            merged[-1][1] = max(wide_end, merged[-1][1])
        else:
            merged.append([wide_start, wide_end])
    pieces: list[str] = []
    last = 0
    for start, end in merged:
        framed_start, framed_end = _unframe(text, last, start, end)
        pieces.append(text[last:framed_start])
        last = framed_end
    rest = "".join([*pieces, text[last:]])
    return rest if rest.strip() else ""


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    closers = _CLOSERS.match(text, end)
    end = closers.end() if closers else end
    before = _BEFORE.search(text, max(0, start - 40), start)
    after = _AFTER.match(text, end)
    return before.start() if before else start, after.end() if after else end


_LIST_OPEN = re.compile(r"\[\s*\Z")
_LIST_CLOSE = re.compile(r"\s*,?\s*\]")
_FENCE_OPEN = re.compile(r"(?:`{3,}|~{3,})[^\S\n]*[\w.-]*\s*\Z")
_FENCE_CLOSE = re.compile(r"\s*(?:`{3,}|~{3,}|\Z)")


def _unframe(text: str, floor: int, start: int, end: int) -> tuple[int, int]:
    """Take along a list's brackets, then a fence's lines, where both sides are there."""
    for opening, closing in ((_LIST_OPEN, _LIST_CLOSE), (_FENCE_OPEN, _FENCE_CLOSE)):
        before, after = opening.search(text, max(floor, start - 40), start), closing.match(text, end)
        if before is not None and after is not None:
            start, end = before.start(), after.end()
    return start, end
