"""One walk through a reply's text: past thoughts, code and quotations, to every call that it makes."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from offprompt.wire import _marks as marks
from offprompt.wire._calls import BadCall
from offprompt.wire._envelope import Dialect, Envelope
from offprompt.wire._fences import Fence, runs
from offprompt.wire.dialects.elements import FUNCTION, GLM, INVOKE
from offprompt.wire.dialects.gemma import GEMMA
from offprompt.wire.dialects.harmony import HARMONY, STRIPPED
from offprompt.wire.dialects.plain import OPENING, read_plain
from offprompt.wire.dialects.pythonic import BLOCK, PYTHONIC
from offprompt.wire.dialects.react import INVENTED, REACT
from offprompt.wire.dialects.tokens import FUNCTIONARY, MISTRAL, TOKENS

DIALECTS: Final[dict[str, Dialect]] = {
    "react": REACT,
    "block": BLOCK,
    "mistral": MISTRAL,
    "glm": GLM,
    "function": FUNCTION,
    "invoke": INVOKE,
    "tokens": TOKENS,
    "harmony": HARMONY,
    "stripped": STRIPPED,
    "gemma": GEMMA,
    "functionary": FUNCTIONARY,
    "pythonic": PYTHONIC,
}
DATA_FENCES: Final = frozenset(
    {"", "json", "json5", "jsonc", "jsonl", "tool", "tool_call", "tool_calls", "action", "actions", "text", "xml"}
)
"""What a fence may call its content and still hold calls; anything else is code that is being shown."""

MAX_INLINE_CHARS: Final = 2000
"""Longer than that, two single backticks are not taken for the ends of one inline example."""

UNENDED_REASONING: Final = "it stands in reasoning that is not closed; close it and call again"
SECOND_END: Final = "it stands before a second end of reasoning; call again outside of it"

TOKEN: Final = re.compile(
    "|".join(
        (
            *(f"(?P<thought{at}>{opening})" for at, (opening, _) in enumerate(marks.THOUGHTS)),
            r"(?P<stripped_thought>\Aanalysis(?=[^a-z]))",
            f"(?P<thought_end>{marks.THOUGHT_ENDS})",
            *(f"(?P<{name}>{dialect.opening})" for name, dialect in DIALECTS.items()),
            f"(?P<open>{marks.OPEN_FRAME})",
            f"(?P<close>{marks.CLOSE_FRAME})",
            r"(?P<code>`+|~{3,})",
            f"(?P<plain>{OPENING})",
        )
    ),
    re.MULTILINE,
)
INFO: Final = re.compile(r"[^\S\n]*([\w+#.-]*)")
PARAGRAPH_END: Final = re.compile(r"\n[^\S\n]*\n")
INLINE_END: Final = {size: re.compile(rf"(?<!`)`{{{size}}}(?!`)") for size in (1, 2)}
THOUGHT_END: Final = {
    **{f"thought{at}": re.compile(end, re.IGNORECASE) for at, (_, end) in enumerate(marks.THOUGHTS)},
    "stripped_thought": re.compile(r"(?=assistant\s?(?:final|commentary))|(?=commentary\s{1,4}to=)"),
}
_QUOTED_LINE = re.compile(
    r"[^\S\n]*(?:>(?!>>)|(?:[*_]{0,2})(?:User|Human|Customer|Thought|用户|客户|思考|想法)[*_]{0,2}\s?[:：])",
    re.IGNORECASE,
)
_QUOTES: Final = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "«": "»", "„": "“"}


@dataclass(slots=True)
class _Walk:
    text: str
    names: Collection[str]
    pos: int = 0
    found: list[tuple[Envelope, int]] = field(default_factory=list[tuple[Envelope, int]])
    fences: list[Fence] = field(default_factory=list[Fence])
    thoughts: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    run: str = ""
    tagged: bool = False
    reasoning: bool = False
    ended: bool = False
    line: int = 0
    line_known: int = 0
    limit: int = 0
    floor: int = 0
    stopped: bool = False


def find_envelopes(text: str, names: Collection[str]) -> list[Envelope]:
    """The envelopes of a reply's text that make calls, in order; raises nothing.

    Reasoning   nothing in a thought, nor before the end of one whose opening is not in the reply; what stands behind
                an opening that has no end is refused.
    Quoted      nothing in `inline code`, in a fence that names a programming language, in a data fence that no call
                is announced for (`_fences.runs`), on a line that begins with `>` or names the user, nor in quotes.
    Cut off     a call that never ends takes the rest of the text: nothing behind it is looked at, since it may be
                part of its value.
    Invented    nothing behind an `Observation:` that follows a ReAct action.
    """
    walk = _Walk(text, names, limit=len(text))
    while (token := TOKEN.search(text, walk.pos)) is not None and token.start() < walk.limit:
        _take(walk, token)
    if walk.run:
        walk.fences[-1] = replace(walk.fences[-1], end=len(text))
    good = runs(text, walk.fences, walk.thoughts, [(item.start, item.end) for item, _ in walk.found])
    return [item for item, fence in walk.found if fence < 0 or good[fence]]


def _take(walk: _Walk, token: re.Match[str]) -> None:
    kind = token.lastgroup or ""
    start, walk.pos = token.span()
    if kind in THOUGHT_END:
        _thought(walk, kind, start)
    elif kind == "thought_end":
        _stray_end(walk)
    elif kind == "code":
        _code(walk, token[0], start)
    elif kind in ("open", "close"):
        walk.tagged = kind == "open"
    elif kind == "plain":
        _keep(walk, read_plain(walk.text, start, walk.names, tagged=walk.tagged))
    else:
        found = DIALECTS[kind].read(walk.text, start, walk.names)
        if found is not None:
            _keep(walk, found)
        else:
            walk.pos = max(walk.pos, start + 1)
            walk.tagged = walk.tagged or kind in ("mistral", "glm", "block")


def _thought(walk: _Walk, kind: str, start: int) -> None:
    end = None if walk.reasoning else THOUGHT_END[kind].search(walk.text, walk.pos)
    if end is not None:
        walk.pos = walk.floor = end.end()
        walk.thoughts.append((start, end.end()))
        walk.ended = True
    elif kind != "stripped_thought":
        walk.reasoning = True


def _stray_end(walk: _Walk) -> None:
    if walk.ended:
        walk.found = [(_refused(item, SECOND_END), fence) for item, fence in walk.found]
        return
    walk.found.clear()
    walk.ended = True
    walk.thoughts.append((0, walk.pos))


def _refused(found: Envelope, why: str) -> Envelope:
    calls = tuple(call if isinstance(call, BadCall) else BadCall(call.name, why) for call in found.calls)
    return replace(found, calls=calls)


def _keep(walk: _Walk, found: Envelope) -> None:
    walk.pos = max(found.end, found.start + 1)
    if _is_quoted(walk, found) and not any(isinstance(call, BadCall) for call in found.calls):
        return
    if found.stops and not walk.stopped:
        # Once: the first invention behind the first action is the first behind any.
        invented = INVENTED.search(walk.text, walk.pos)
        walk.limit = invented.start() if invented else walk.limit
        walk.stopped = True
    if walk.reasoning:
        found = _refused(found, UNENDED_REASONING)
    if found.calls:
        walk.found.append((replace(found, floor=walk.floor), len(walk.fences) - 1 if walk.run else -1))


def _is_quoted(walk: _Walk, found: Envelope) -> bool:
    text, start = walk.text, found.start
    newline = text.rfind("\n", walk.line_known, start)
    walk.line = newline + 1 if newline >= 0 else walk.line
    walk.line_known = start
    if _QUOTED_LINE.match(text, walk.line, start):
        return True
    closer = _QUOTES.get(text[start - 1 : start])
    return closer is not None and text[found.end : found.end + 1] == closer


def _code(walk: _Walk, run: str, start: int) -> None:
    text = walk.text
    if walk.run:
        if run[0] == walk.run[0] and len(run) >= len(walk.run):
            walk.run = ""
            walk.floor = walk.pos
            walk.fences[-1] = replace(walk.fences[-1], end=walk.pos)
        return
    if len(run) >= 3:
        info = INFO.match(text, walk.pos)
        if info is not None and info[1].casefold() not in DATA_FENCES:
            end = text.find(run, info.end())
            walk.pos = walk.floor = len(text) if end < 0 else end + len(run)
        else:
            walk.run, walk.pos = run, info.end() if info else walk.pos
            walk.fences.append(Fence(start, len(text)))
        return
    limit = min(len(text), walk.pos + MAX_INLINE_CHARS)
    paragraph = PARAGRAPH_END.search(text, walk.pos, limit)
    close = INLINE_END[len(run)].search(text, walk.pos, paragraph.start() if paragraph else limit)
    if close is None:
        return
    before = walk.thoughts[-1][1] if walk.thoughts else 0
    if text[before:start].strip() or text[close.end() :].strip():
        walk.pos = walk.floor = close.end()
