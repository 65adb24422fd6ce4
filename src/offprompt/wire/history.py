"""What leaves the prompt: the window that cuts the oldest turns, and what was answered as stubs. Sizes only."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

HIGH_SHARE: Final = 0.6
LOW_SHARE: Final = 0.4


@dataclass(frozen=True, slots=True)
class Item:
    """One message's size.

    whole    tokens as it came. sent: tokens as a policy sends it (its stub, its frozen form); at most `whole`.
    turn     the user turn it belongs to. group: messages of one group stay together (a reply's calls and results).
    kind     `user`, `assistant`, `tool`, `observation`. Turns and groups never go down from one item to the next.
    used     tokens of the stub that it may become once it was answered, None: it stays as it is.
    """

    whole: int
    sent: int
    turn: int
    group: int
    kind: str
    used: int | None = None


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

    A start inside a turn keeps that turn's newest user message before it: `opener`. A message is answered once an
    assistant's stands behind it.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.items: list[Item] = []
        self._whole, self._sent, self._used = (array("q", [0]) for _ in range(3))
        self._waiting: list[int] = []
        self._answered: list[int] = []
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
        self._used.append(self._used[-1] + item.sent)
        if item.used is not None and item.used < item.sent:
            self._waiting.append(len(self.items) - 1)
        elif item.kind == "assistant" and self._waiting:
            self._answered += self._waiting
            self._sum_up(self._waiting[0])
            self._waiting = []

    def _sum_up(self, first: int) -> None:
        """The sums from a message on, which is sent or used otherwise than before."""
        answered = set(self._answered[bisect_left(self._answered, first) :])
        for at in range(first, len(self.items)):
            item = self.items[at]
            used = item.used if at in answered and item.used is not None else item.sent
            self._sent[at + 1] = self._sent[at] + item.sent
            self._used[at + 1] = self._used[at] + used

    def answered(self, start: int = 0) -> list[int]:
        """Indexes of the messages sent from a start on that were answered and may become stubs."""
        opener = self.opener(start)
        later = self._answered[bisect_left(self._answered, start) :]
        return [opener, *later] if opener in self._answered else later

    def used(self) -> History:
        """The same messages with all that was answered sent as stubs; valid until this history grows."""
        view = copy(self)
        view._sent = self._used  # noqa: SLF001 - of the same class
        return view

    def stub(self, indices: Sequence[int]) -> None:
        """Send these answered messages as their stubs from now on. Cost O(n) behind the first of them."""
        for at in indices:
            item = self.items[at]
            self.items[at] = replace(item, sent=item.sent if item.used is None else item.used, used=None)
        if indices:
            gone = set(indices)
            self._answered = [at for at in self._answered if at not in gone]
            self._sum_up(min(gone))

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
        sums = self._sent if stubs else self._whole
        return sums[index + 1] - sums[index]

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
    """Tokens of history: over `high` it is cut to `low`; over `limit` it does not fit the model at all.

    floor   index of the first message that a cut may leave at the front: what stands before thinking that is bound to
            its prefix must not change.
    """

    high: int
    low: int
    limit: int
    floor: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """Tokens that stand before the history.

    base   in every request: system text, tools, and our head where it is there from the first request.
    head   our head, where it comes only with activation: in the replay of a log, and in a session that waits with it.
    note   the line that says that earlier turns left.
    """

    base: int
    head: int = 0
    note: int = 0


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
    Never      parts a group, nor leaves the newest group out; where `floor` leaves no other place, there is no cut.
    """
    if not history.items:
        return start
    newest = history.turn_starts[-1]
    opener = history.newest_opener()
    inside = 0 if opener is None else history.one(opener, stubs=stubs)
    high = max(bounds.high, inside + bounds.low) if start >= newest else bounds.high
    if history.tokens(start, stubs=stubs) <= high:
        return start
    for turn_start in history.turn_starts[_after(history.turn_starts, max(start, bounds.floor - 1)) :]:
        if history.tokens(turn_start, stubs=stubs) <= bounds.low:
            return turn_start
    if (
        newest > start
        and newest >= bounds.floor
        and history.tokens(newest, stubs=stubs) <= max(bounds.high, inside + bounds.low)
    ):
        return newest
    room = inside + max(bounds.low - inside, bounds.low // 4)
    within = _start_within(history, max(start, newest, bounds.floor - 1), room, stubs=stubs)
    return within if within >= bounds.floor else start


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
