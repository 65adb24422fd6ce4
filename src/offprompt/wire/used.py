"""The history policy `stub_after_use`: what the model has seen whole once becomes stubs, in batches that pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from offprompt.wire.history import Bounds, Fixed, History, next_start
from offprompt.wire.prices import PriceSheet, request_price

_EDGE: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Batch:
    """Answered messages that become stubs in the next request.

    indices  of the messages. prefix: leading tokens that repeat the request before; total: tokens of the request.
    gain     what it saves by expectation, in the sheet's currency.
    """

    indices: tuple[int, ...]
    prefix: int
    total: int
    gain: float = 0.0


@dataclass(frozen=True, slots=True)
class UsedPlan:
    """How one request is sent.

    start   index of the oldest message sent. stubbed: messages that become stubs at this request; the caller has
            `History.stub` take them over. prefix, total: as in `Batch`.
    """

    start: int
    stubbed: tuple[int, ...]
    prefix: int
    total: int


def best_batch(
    history: History, start: int, *, front: int, prefix: int, sheet: PriceSheet, remaining: float
) -> Batch | None:
    """The batch that saves the most, or None where none saves.

    A batch is all answered messages from one of them on: the first breaks the prefix, so that those behind it are
    written anew in any case, and cheaper as stubs.

    front      tokens before the history. prefix: tokens of the request before, which repeat if nothing changes.
    remaining  requests still to come after this one; each reads what is sent now once more.
    Choice     with reads at `r` and writes at `w`, a batch that leaves P tokens in front of it and takes S out is
               worth S·(remaining·r + w) + P·(w - r), and the rest is the same for all; the best one is then priced
               exactly, whole cache steps and minimum among it.
    Cost       O(answered messages that are still whole).
    """
    answered = history.answered(start)
    if not answered:
        return None
    total = front + history.tokens(start, stubs=True)
    read, write = sheet.cache_read, sheet.cache_write
    per_saved, per_kept = remaining * read + write, write - read
    best, best_worth, saved = len(answered) - 1, float("-inf"), 0
    before = [min(prefix, _before(history, start, at, front)) for at in answered]
    savings: list[int] = [0] * len(answered)
    for place in range(len(answered) - 1, -1, -1):
        item = history.items[answered[place]]
        saved += item.sent - (item.sent if item.used is None else item.used)
        savings[place] = saved
        worth = saved * per_saved + before[place] * per_kept
        if worth > best_worth:
            best, best_worth = place, worth
    stay = request_price(sheet, prefix=min(prefix, total), total=total)
    after = total - savings[best]
    now = request_price(sheet, prefix=before[best], total=after)
    later = request_price(sheet, prefix=total, total=total) - request_price(sheet, prefix=after, total=after)
    gain = remaining * later - (now - stay)
    return Batch(tuple(answered[best:]), before[best], after, gain) if gain > _EDGE else None


def _before(history: History, start: int, at: int, front: int) -> int:
    """Tokens of the request that stand in front of a message."""
    if at < start:
        return front
    return front + history.tokens(start, stubs=True) - history.span(at, stubs=True)


def plan_used(
    history: History,
    start: int,
    *,
    sent: int,
    requests: float,
    sheet: PriceSheet,
    fixed: Fixed,
    bounds: Bounds | None = None,
) -> UsedPlan:
    """What the next request sends under `stub_after_use`, and with `bounds` under `after_use+window`.

    history   all messages so far; `Item.sent` as they were sent last, `Item.used` of those that may become stubs.
    sent      tokens of the request before that repeat if nothing changes. requests: how many there were, and so how
              many are expected.
    Window    history over `high`: first all that was answered becomes stubs; what is still over it is cut to `low`.
    """
    note = fixed.note if start else 0
    front = fixed.base + fixed.head + note
    if bounds is not None and next_start(history, start, bounds, stubs=True) != start:
        used = history.used()
        cut = next_start(used, start, bounds, stubs=True)
        stubbed = tuple(history.answered(cut))
        if cut != start:
            total = fixed.base + fixed.head + fixed.note + used.tokens(cut, stubs=True)
            return UsedPlan(cut, stubbed, min(front, sent), total)
        if stubbed:
            kept = min(sent, _before(history, start, stubbed[0], front))
            return UsedPlan(start, stubbed, kept, front + used.tokens(start, stubs=True))
    batch = best_batch(history, start, front=front, prefix=sent, sheet=sheet, remaining=requests)
    if batch is not None:
        return UsedPlan(start, batch.indices, batch.prefix, batch.total)
    total = front + history.tokens(start, stubs=True)
    return UsedPlan(start, (), min(sent, total), total)
