"""How far an unfinished text is surely free of calls."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from offprompt.wire._calls import calls_in
from offprompt.wire._lenient import strict_object
from offprompt.wire._walk import DATA_FENCES, INFO, INLINE_END, MAX_INLINE_CHARS, PARAGRAPH_END, THOUGHT_END, TOKEN
from offprompt.wire.dialects.react import declined

_LABELS: Final = ("Action", "行动", "动作", "操作")


def _prefixes(word: str) -> str:
    """A pattern of every beginning of the word."""
    pattern = ""
    for char in reversed(word):
        pattern = f"{re.escape(char)}(?:{pattern})?" if pattern else re.escape(char)
    return pattern


_LABEL_BEGUN: Final = "|".join(f"(?i:{_prefixes(word)})" for word in _LABELS)
_LEAD: Final = r"(?:^[^\S\n]*(?:[*_#>-]{1,4}[^\S\n]*)?|(?<=`))"
_CHANNEL: Final = r"<\|channel\|?>\s{0,9}\w{0,20}"
_TAIL = re.compile(
    "(?:"
    + "|".join(
        (
            r"<(?:[^\s<>]+(?:\s{1,4}\w*)?)?",
            _CHANNEL,
            rf"<\|start\|>\w{{0,20}}(?:\s*(?:t|to|to=[\w.-]*))?\s*(?:<[|\w]*|{_CHANNEL})?",
            r"<\|action_start\|>\s{0,9}",
            r"\[[\s\w./:-]*",
            r"[{｛]\s*(?:[^\W\d]\w*\s*)?",
            r"◁\S{0,8}",
            r">{1,3}[\w.-]{0,128}[^\S\n]*",
            rf"(?<!\w)(?:{_prefixes('call:')})",
            r"(?<!\w)call:\s{0,4}[\w.-]*\s{0,4}:?\s{0,4}",
            rf"{_prefixes('assistant')}",
            rf"(?:assistant\s?)?{_prefixes('commentary')}",
            r"(?:assistant\s?)?commentary\s{0,4}(?:to?)?",
            _prefixes("functools"),
            rf"{_LEAD}(?:{_LABEL_BEGUN})?",
            rf"{_LEAD}(?:(?i:Action)|行动|动作|操作)[*_]{{0,2}}\s{{0,2}}(?:[:：][*_]{{0,2}}\s{{0,3}}[`\"'*]{{0,2}})?",
            r"(?:`+|~+)[^\S\n]*[\w.+#-]*\s*",
        )
    )
    + r")\Z",
    re.MULTILINE,
)
"""What may become an opening when more text comes."""

_START = re.compile(r"\s*(?:[^\W\d][\w.-]{0,127}[^\S\n]*(?:\n\s*)?)?\Z")
_BEFORE = re.compile(r"(?:\[|(?:`{3,}|~{3,})[^\S\n]*[\w.+#-]*|`{1,2})\s*\Z")
_TOOL_CODE_BEGUN = re.compile(rf"(?:{_prefixes('tool_cod')})\Z")
_REACH: Final = 120


@dataclass(slots=True)
class Scan:
    """The part of a text that is not decided yet.

    text    from some characters before it on; `first` until any were forgotten. pos: decided up to here.
    sent    let through up to here. held: everything from here on waits for the end.
    """

    names: Collection[str]
    text: str = ""
    pieces: list[str] = field(default_factory=list[str])
    first: bool = True
    pos: int = 0
    sent: int = 0
    held: bool = False
    run: str = ""
    code: str = ""
    thought: str = ""
    ended: bool = False
    solid: bool = False
    any_sent: bool = False

    def join(self) -> None:
        """Take in the pieces that came."""
        self.text = "".join([self.text, *self.pieces])
        self.pieces.clear()

    def forget(self, context: int) -> None:
        """Drop what was let through, but for some context."""
        drop = min(self.sent, self.pos) - context
        if drop > 0:
            self.text = self.text[drop:]
            self.pos -= drop
            self.sent -= drop
            self.first = False


def scan_more(scan: Scan) -> None:
    """Move `pos` and `sent` as far as no text that may follow can change it."""
    while not scan.held and _advance(scan):
        pass
    _send(scan)


def _advance(scan: Scan) -> bool:
    """Decide up to behind the next token; False: the text must grow first."""
    text = scan.text
    if scan.code:
        end = text.find(scan.code, scan.pos)
        if end < 0:
            _decide(scan, max(scan.pos, len(text) - len(scan.code) + 1))
            return False
        _decide(scan, end + len(scan.code))
        scan.code = ""
        return True
    if scan.thought:
        return _in_thought(scan)
    if scan.first and scan.pos == 0 and (text.startswith("analysis") or _START.match(text)):
        scan.held = text.startswith("analysis") and len(text) > len("analysis")
        return False
    tail, token = _tail(scan), TOKEN.search(text, scan.pos)
    if token is None or token.start() > tail:
        _decide(scan, tail)
        return False
    _decide(scan, token.start())
    kind = token.lastgroup or ""
    if kind == "code":
        return _code(scan, token)
    if kind == "plain":
        return _object(scan)
    if kind in THOUGHT_END:
        if token.end() == len(text):
            return False
        scan.thought = kind
        return _in_thought(scan, token.end())
    if kind == "thought_end":
        _decide(scan, token.end())
        scan.solid = scan.solid and scan.ended
        scan.ended = True
        return True
    if kind == "react" and declined(text, token.start()):
        _decide(scan, token.end())
        return True
    # A line that begins as an action may still go on as prose; all other openings are marks that prose does not have.
    scan.held = kind != "react" or "\n" in text[token.end() :]
    return False


def _decide(scan: Scan, pos: int) -> None:
    scan.solid = scan.solid or bool(scan.text[scan.pos : pos].strip())
    scan.pos = pos


def _tail(scan: Scan) -> int:
    tail = _TAIL.search(scan.text, scan.pos)
    return tail.start() if tail else len(scan.text)


def _send(scan: Scan) -> None:
    """Let through what is decided, but for what would leave with a call that may follow: list brackets, fences."""
    until = scan.pos
    for _ in range(4):
        before = _BEFORE.search(scan.text, max(scan.sent, until - _REACH), until)
        if before is None or scan.code:
            break
        until = before.start()
    if until > scan.sent and (scan.any_sent or scan.text[scan.sent : until].strip()):
        scan.sent = until
        scan.any_sent = True


def _in_thought(scan: Scan, start: int | None = None) -> bool:
    """Behind the opening of a thought: to its end, or to the first token, which counts if the end never comes."""
    text = scan.text
    begin = scan.pos if start is None else start
    end = THOUGHT_END[scan.thought].search(text, begin)
    if end is not None:
        scan.pos, scan.thought, scan.solid, scan.ended = end.end(), "", False, True
        return True
    token = TOKEN.search(text, begin)
    tail = _TAIL.search(text, begin)
    scan.pos = min(token.start() if token else len(text), tail.start() if tail else len(text))
    return False


def _object(scan: Scan) -> bool:
    found = strict_object(scan.text, scan.pos)
    if found is None:
        return False
    if calls_in(found.value, scan.names, tagged=False):
        scan.held = True
        return False
    _decide(scan, found.end)
    return True


def _code(scan: Scan, token: re.Match[str]) -> bool:
    text, run, after = scan.text, token[0], token.end()
    if after == len(text) or (run == "```" and _TOOL_CODE_BEGUN.match(text, after)):
        return False
    if run == "```" and text.startswith("tool_code", after):
        scan.held = True
        return False
    if scan.run:
        if run[0] == scan.run[0] and len(run) >= len(scan.run):
            scan.run = ""
        _decide(scan, after)
        return True
    if len(run) < 3:
        return _inline(scan, run, after)
    info = INFO.match(text, after)
    if info is None or info.end() == len(text):
        return False
    if info[1].casefold() in DATA_FENCES:
        scan.run = run
    else:
        scan.code = run
    _decide(scan, info.end())
    return True


def _inline(scan: Scan, run: str, after: int) -> bool:
    text = scan.text
    limit = min(len(text), after + MAX_INLINE_CHARS)
    paragraph = PARAGRAPH_END.search(text, after, limit)
    close = INLINE_END[len(run)].search(text, after, paragraph.start() if paragraph else limit)
    if close is None:
        if paragraph is None and limit < after + MAX_INLINE_CHARS:
            return False
        _decide(scan, after)
        return True
    if close.end() == len(text) or not (scan.solid or text[close.end() :].strip()):
        return False
    _decide(scan, close.end())
    return True
