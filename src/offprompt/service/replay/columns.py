"""The columns of a replay: each says what one request sends and how much of it repeats the request before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from offprompt.service.replay.log import Form, Log
from offprompt.wire.auto import Account, plan_request
from offprompt.wire.history import Fixed, next_start
from offprompt.wire.used import plan_used

CHARS_PER_MEMORY_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Sent:
    """One request.

    start   index of the oldest message sent; opener: the user message before it that goes with it. stubs: by index
            what stands for a result. total, prefix: tokens, and those that repeat the request before; chars.
    bare    without our head, which a live session has in each request.
    """

    start: int
    stubs: Mapping[int, str]
    total: int
    prefix: int
    chars: int
    opener: int | None = None
    bare: bool = False


class Column(Protocol):
    """A way to build the requests of one conversation; keeps what it needs from one request to the next."""

    def request(self, log: Log) -> Sent:
        """The next request, after all messages in the log."""
        ...


class Logged:
    """Everything, as it was."""

    def __init__(self) -> None:
        self._before = 0

    def request(self, log: Log) -> Sent:
        """All messages; the prefix is the request before."""
        total = log.base_tokens + log.history.tokens()
        sent = Sent(0, stubs={}, total=total, prefix=self._before, chars=log.base_chars + log.form.chars())
        self._before = total
        return sent


class Rewritten:
    """Everything, and memory values at the end of the system prompt, written anew each turn."""

    def __init__(self) -> None:
        self._before = 0
        self._turn = -1

    def request(self, log: Log) -> Sent:
        """A new turn breaks the prefix behind the system prompt; within a turn it holds."""
        memory = log.rules.memory_tokens
        total = log.base_tokens + memory + log.history.tokens()
        prefix = self._before if log.turn == self._turn else min(log.base_tokens, self._before)
        self._before, self._turn = total, log.turn
        chars = log.base_chars + memory * CHARS_PER_MEMORY_TOKEN + log.form.chars()
        return Sent(0, stubs={}, total=total, prefix=prefix, chars=chars)


class Policy:
    """Our head from the first request on; results over the size as stubs, the window, or both."""

    def __init__(self, *, stubs: bool, window: bool) -> None:
        self._stubs = stubs
        self._window = window
        self._start = 0
        self._before = 0

    def request(self, log: Log) -> Sent:
        """A cut breaks the prefix behind system prompt, head and note."""
        front = log.base_tokens + log.head.tokens
        start, prefix = self._start, self._before
        if self._window:
            start = next_start(log.history, start, log.bounds, stubs=self._stubs)
        if start != self._start:
            prefix = min(front + (log.note_tokens if self._start else 0), self._before)
        note = log.note_tokens if start else 0
        total = front + note + log.history.tokens(start, stubs=self._stubs)
        chars = log.base_chars + log.head.chars + (len(log.note) if start else 0)
        self._start, self._before = start, total
        return Sent(
            start,
            stubs=log.form.stubs if self._stubs else {},
            total=total,
            prefix=prefix,
            chars=chars + log.form.chars(start, stubs=self._stubs),
            opener=log.history.opener(start),
        )


class AfterUse:
    """Our head from the first request on; results are seen whole once, then stubs, in batches that pay."""

    def __init__(self, *, window: bool) -> None:
        self._window = window
        self._form: Form | None = None
        self._start = self._before = self._requests = 0

    def request(self, log: Log) -> Sent:
        """What `plan_used` says; a result that the context could not hold is a stub at once."""
        form = self._form = self._form or Form(log.bounds.limit, after_use=True)
        form.follow(log.pieces)
        plan = plan_used(
            form.history,
            self._start,
            sent=self._before,
            requests=self._requests,
            sheet=log.rules.sheet,
            fixed=Fixed(log.base_tokens, head=log.head.tokens, note=log.note_tokens),
            bounds=log.bounds if self._window else None,
        )
        form.stub(plan.stubbed)
        self._start, self._before = plan.start, plan.total
        self._requests += 1
        return Sent(
            plan.start,
            stubs=form.stubs,
            total=plan.total,
            prefix=plan.prefix,
            chars=log.base_chars
            + log.head.chars
            + (len(log.note) if plan.start else 0)
            + form.chars(plan.start, stubs=True),
            opener=form.history.opener(plan.start),
        )


class Auto:
    """The policy that asks the price sheet: as logged until a cut or stubs pay, our head only from then on.

    The model sees whole, once, what the window can hold; that becomes stubs where it pays.
    """

    def __init__(self) -> None:
        self._start = 0
        self._account = Account()
        self._form: Form | None = None

    def request(self, log: Log) -> Sent:
        """What `plan_request` says."""
        rules = log.rules
        form = self._form = self._form or Form(max(rules.stub_tokens, rules.high_tokens), after_use=True)
        form.follow(log.pieces)
        fixed = Fixed(log.base_tokens, head=log.head.tokens, note=log.note_tokens)
        plan = plan_request(
            form.history, self._account, start=self._start, sheet=rules.sheet, bounds=log.bounds, fixed=fixed
        )
        form.stub(plan.stubbed)
        self._start, self._account = plan.start, plan.account
        front = (log.head.chars if plan.active else 0) + (len(log.note) if plan.start else 0)
        return Sent(
            plan.start,
            stubs=form.stubs if plan.active else {},
            total=plan.total,
            prefix=plan.prefix,
            chars=log.base_chars + front + form.chars(plan.start, stubs=plan.active),
            opener=log.history.opener(plan.start),
            bare=not plan.active,
        )


class Truncation:
    """The baseline: the newest messages that fit the window's mean size, nothing else, no head, no way back."""

    def __init__(self) -> None:
        self._start = 0
        self._before = 0

    def request(self, log: Log) -> Sent:
        """The budget is the middle of `high` and `low`; calls and results stay together, the newest group stays."""
        history, bounds = log.history, log.bounds
        budget = (bounds.high + bounds.low) // 2
        groups = history.group_starts
        at = bisect_left(groups, self._start)
        while at < len(groups) - 1 and history.span(groups[at]) > budget:
            at += 1
        start = groups[at] if groups else 0
        total = log.base_tokens + history.span(start)
        prefix = self._before if start == self._start else min(log.base_tokens, self._before)
        self._start, self._before = start, total
        return Sent(
            start, stubs={}, total=total, prefix=prefix, chars=log.base_chars + log.form.chars(start, opener=False)
        )


COLUMNS: Final[Mapping[str, Callable[[], Column]]] = {
    "logged": Logged,
    "rewritten": Rewritten,
    "stub_at_once": lambda: Policy(stubs=True, window=False),
    "window": lambda: Policy(stubs=False, window=True),
    "stubs+window": lambda: Policy(stubs=True, window=True),
    "stub_after_use": lambda: AfterUse(window=False),
    "after_use+window": lambda: AfterUse(window=True),
    "auto": Auto,
    "truncation": Truncation,
}
"""The columns by name, in the table's order."""

OURS: Final = ("stub_at_once", "window", "stubs+window", "stub_after_use", "after_use+window", "auto")
"""The columns that a user can choose as a session's policy."""
