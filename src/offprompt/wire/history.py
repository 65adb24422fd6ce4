"""What leaves the prompt: stubs for long results, the window that cuts the oldest turns. Pure, sizes only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

STUB_HEAD_TOKENS: Final = 100
STUB_TAIL_TOKENS: Final = 40
HIGH_SHARE: Final = 0.6
LOW_SHARE: Final = 0.4

MAX_CHARS_PER_TOKEN: Final = 4

_HAN_TOKENS: Final = 0.63
_OTHER_TOKENS: Final = 0.25
_HAN_FROM: Final = "\u2e80"

_STUB: Final = {
    "en": "{handle} {kind}, {chars:,} characters, {lines:,} lines, kept outside; mem_read shows it.\n",
    "zh": "{handle} {kind}，{chars:,} 字符，{lines:,} 行，存于上下文之外；mem_read 可查看。\n",
}
_LEFT_OUT: Final = {"en": "\n… {chars:,} characters left out …\n", "zh": "\n……省略 {chars:,} 字符……\n"}
_KINDS: Final = {
    "en": {"tool": "tool result", "observation": "tool result", "document": "document"},
    "zh": {"tool": "工具结果", "observation": "工具结果", "document": "文档"},
}
_GONE: Final = {
    "en": "(Earlier turns of this conversation are not shown; mem_search finds them.)",
    "zh": "（本对话较早的内容未显示；可用 mem_search 查找。）",
}


def stub_text(
    body_text: str,
    *,
    handle: str,
    kind: str,
    language: str = "en",
    head_tokens: int = STUB_HEAD_TOKENS,
    tail_tokens: int = STUB_TAIL_TOKENS,
) -> str:
    """What stands for a long body: its handle, type and size, its head and tail, and how to see it.

    kind      `tool`, `observation`, `document`; any other word stands as it is.
    Units     head and tail by estimate, 0.63 tokens a Han character and 0.25 any other; chars and lines of the body.
    Stable    the same arguments give the same bytes.
    """
    words = "zh" if language == "zh" else "en"
    head = _fitting(body_text, head_tokens)
    tail = _fitting(body_text[max(head, len(body_text) - MAX_CHARS_PER_TOKEN * tail_tokens) :][::-1], tail_tokens)
    first = _STUB[words].format(
        handle=handle,
        kind=_KINDS[words].get(kind, kind),
        chars=len(body_text),
        lines=body_text.count("\n") + 1,
    )
    missing = len(body_text) - head - tail
    middle = _LEFT_OUT[words].format(chars=missing) if missing else ""
    return first + body_text[:head] + middle + body_text[len(body_text) - tail :]


def gone_line(language: str = "en") -> str:
    """The line that stands at the head of a history whose oldest turns left."""
    return _GONE["zh" if language == "zh" else "en"]


@dataclass(frozen=True, slots=True)
class Item:
    """One message's size.

    whole    tokens as it came. sent: tokens as a policy sends it (its stub, its frozen form); at most `whole`.
    turn     the user turn it belongs to. group: messages of one group stay together (a reply's calls and results).
    kind     `user`, `assistant`, `tool`, `observation`. Turns and groups never go down from one item to the next.
    """

    whole: int
    sent: int
    turn: int
    group: int
    kind: str


def place(kinds: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Turn and group of each message, by its kind; lazily, so that a log that grows can be placed as it grows.

    A `user` message after anything but a user message begins a turn. `user` and `assistant` messages begin a group;
    every other kind belongs to the group before it.
    """
    turn, group, before = 0, -1, ""
    for kind in kinds:
        turn += kind == "user" and before != "user"
        group += kind in ("user", "assistant") or group < 0
        yield turn, group
        before = kind


class History:
    """The messages of a conversation behind its fixed head, with running sums: every question is O(log n) or less.

    A start inside a turn keeps that turn's newest user message before it: `opener`.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.items: list[Item] = []
        self._whole = [0]
        self._sent = [0]
        self._turn_starts: list[int] = []
        self._group_starts: list[int] = []
        self._openers: list[int | None] = []
        for item in items:
            self.append(item)

    def __len__(self) -> int:
        return len(self.items)

    def append(self, item: Item) -> None:
        """Add the newest message."""
        last = self.items[-1] if self.items else None
        if last is None or item.turn != last.turn:
            self._turn_starts.append(len(self.items))
            self._openers.append(None)
        if item.kind == "user":
            self._openers[-1] = len(self.items)
        if last is None or item.group != last.group:
            self._group_starts.append(len(self.items))
        self.items.append(item)
        self._whole.append(self._whole[-1] + item.whole)
        self._sent.append(self._sent[-1] + item.sent)

    @property
    def turn_starts(self) -> Sequence[int]:
        """Indexes of the first messages of turns."""
        return self._turn_starts

    @property
    def group_starts(self) -> Sequence[int]:
        """Indexes of the first messages of groups."""
        return self._group_starts

    def tokens(self, start: int = 0, *, stubs: bool = False) -> int:
        """Tokens of what is sent from a start on, its opener among them; with `stubs` in the policy's form."""
        opener = self.opener(start)
        return self.span(start, stubs=stubs) + (0 if opener is None else self.one(opener, stubs=stubs))

    def span(self, start: int, *, stubs: bool = False) -> int:
        """Tokens from a start on, without an opener."""
        sums = self._sent if stubs else self._whole
        return sums[-1] - sums[start]

    def one(self, index: int, *, stubs: bool = False) -> int:
        """Tokens of one message."""
        return self.items[index].sent if stubs else self.items[index].whole

    def opener(self, start: int) -> int | None:
        """Index of the user message before `start` that goes with it, if start is inside a turn."""
        if not 0 < start < len(self.items):
            return None
        opener = self._openers[_after(self._turn_starts, start) - 1]
        return opener if opener is not None and opener < start and self.items[start].kind != "user" else None

    def newest_opener(self) -> int | None:
        """Index of the newest user message, if the newest turn has one."""
        return self._openers[-1] if self._openers else None

    def indices(self, start: int) -> list[int]:
        """Indexes of the messages that are sent."""
        opener = self.opener(start)
        return [*([] if opener is None else [opener]), *range(start, len(self.items))]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Tokens of history: over `high` it is cut to `low`; over `limit` it does not fit the model at all."""

    high: int
    low: int
    limit: int


def window_bounds(
    context_tokens: int, *, reserve_tokens: int, head_tokens: int, high_cap: int = 8000, low_cap: int = 4000
) -> Bounds:
    """The window of a model: 0.6 and 0.4 of (context − output reserve − head), at most the caps.

    head_tokens   system text, tools and all that stands before the history.
    """
    room = max(context_tokens - reserve_tokens - head_tokens, 0)
    high = min(int(room * HIGH_SHARE), high_cap)
    return Bounds(high=high, low=min(int(room * LOW_SHARE), low_cap, high), limit=room)


def next_start(history: History, start: int, bounds: Bounds, *, stubs: bool = False) -> int:
    """The index of the oldest message to send: `start`, unless the history from there is over `high`.

    Cuts       at the first turn from which on at most `low` is left; if there is none, at the newest turn; if that
               turn alone is over `high`, inside it at a group's beginning, keeping its newest user message. Where that
               message alone is over `low`, a quarter of `low` is kept beside it, and the next cut comes at
               message + `low` or `high`, the larger.
    Never      parts a group, nor leaves the newest group out.
    """
    if not history.items:
        return start
    newest = history.turn_starts[-1]
    opener = history.newest_opener()
    inside = 0 if opener is None else history.one(opener, stubs=stubs)
    high = max(bounds.high, inside + bounds.low) if start >= newest else bounds.high
    if history.tokens(start, stubs=stubs) <= high:
        return start
    for turn_start in history.turn_starts[_after(history.turn_starts, start) :]:
        if history.tokens(turn_start, stubs=stubs) <= bounds.low:
            return turn_start
    if newest > start and history.tokens(newest, stubs=stubs) <= max(bounds.high, inside + bounds.low):
        return newest
    room = inside + max(bounds.low - inside, bounds.low // 4)
    return _start_within(history, max(start, newest), room, stubs=stubs)


def _start_within(history: History, start: int, room: int, *, stubs: bool) -> int:
    """The first group after `start` from which on at most `room` is left, else the newest group."""
    groups = history.group_starts
    low, high = _after(groups, start), len(groups) - 1
    if low > high:
        return start
    while low < high:
        middle = (low + high) // 2
        if history.tokens(groups[middle], stubs=stubs) <= room:
            high = middle
        else:
            low = middle + 1
    return groups[low]


def _after(starts: Sequence[int], start: int) -> int:
    return bisect_left(starts, start + 1)


def _fitting(text: str, tokens: int) -> int:
    """How many leading characters fit into that many estimated tokens."""
    left = float(tokens)
    for at, char in enumerate(text):
        left -= _HAN_TOKENS if char >= _HAN_FROM else _OTHER_TOKENS
        if left < 0:
            return at
    return len(text)
