"""The history policy `auto`: stub and cut only where the price sheet says that it pays, never above 1.02 ×."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from offprompt.wire.history import Bounds, Fixed, History, next_start
from offprompt.wire.prices import PriceSheet, request_price
from offprompt.wire.used import best_batch

CEILING: Final = 1.02
Why: TypeAlias = Literal["", "stubs", "used", "window", "limit"]


@dataclass(frozen=True, slots=True)
class Account:
    """The policy's running sums, as floats so that a session's record can keep them.

    everything   input price so far of sending everything; spent: of what was sent; both in the sheet's currency.
    requests     requests so far. full, sent: tokens of the newest request if everything had been sent, and as sent;
                 the next request repeats them, unless the account is `broken`.
    active       1.0 once results over the size are stubs (and our head stands, where it was not there before).
    head         tokens of our head where it came later than the first request; sending everything is without it.
    """

    everything: float = 0.0
    spent: float = 0.0
    requests: float = 0.0
    full: float = 0.0
    sent: float = 0.0
    active: float = 0.0
    head: float = 0.0

    @classmethod
    def of(cls, sums: Mapping[str, float]) -> Account:
        """The account in a record's sums; missing ones are 0."""
        return cls(**{name: float(sums.get(name, 0.0)) for name in cls.__slots__})

    def sums(self) -> dict[str, float]:
        """The sums by name."""
        return {name: float(getattr(self, name)) for name in self.__slots__}

    def broken(self, history: History, start: int, changed: int, fixed: Fixed) -> Account:
        """The account for a next request that repeats the newest one only in front of a message.

        start    of the newest request. changed: the message's index; it was edited, or what it showed was taken out,
                 which breaks the prefix of sending everything as well.
        """
        active = self.active > 0
        behind = history.span(changed, stubs=active) if changed >= start else history.tokens(start, stubs=active)
        sent = _total(history, start, active=active, fixed=fixed) - behind
        full = fixed.base + history.tokens() - history.span(changed)
        return replace(self, full=min(self.full, float(full)), sent=min(self.sent, float(sent)))


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request is sent.

    start    index of the oldest message sent. active: messages go in the policy's form (`Item.sent`).
    prefix   leading tokens that repeat the request before; total: tokens of the request.
    why      `` as before, `stubs` activated without a cut, `used` answered messages become stubs, `window` a cut that
             pays, `limit` a cut that the model's context forces.
    account  the sums with this request. stubbed: answered messages that become stubs; `History.stub` takes them over.
    """

    start: int
    active: bool
    prefix: int
    total: int
    why: Why
    account: Account
    stubbed: tuple[int, ...] = ()


def plan_request(
    history: History,
    account: Account,
    *,
    start: int,
    sheet: PriceSheet,
    bounds: Bounds,
    fixed: Fixed,
    expected: float | None = None,
) -> Plan:
    """What the next request sends.

    history   all messages so far. In a live session `Item.sent` of a message that went out is its frozen size.
    start     as the plan before said, 0 at first. bounds.limit: tokens that may stand behind base and head; no change
              but a forced one leaves a message before bounds.floor at the front.
    expected  requests still to come; None: as many as there were so far.
    Rule      all is sent as before until a change (stubs from now on, a batch of answered messages as stubs, or a cut,
              which takes all that was answered with it) pays by expectation and keeps the sum
              spent within 1.02 × the price of sending everything, even if no request follows. After a change each
              request costs at most what sending everything costs, so the sum stays within 1.02 × at every request
              (as long as `Item.sent` ≤ `Item.whole`), on any sheet and any log.
              Only where the context forces a cut that this account cannot bear is the sum allowed above.
    Cost      O(log n), O(n) at a cut.
    """
    full = fixed.base + history.tokens()
    account = replace(
        account,
        everything=account.everything + request_price(sheet, prefix=min(int(account.full), full), total=full),
        full=float(full),
        requests=account.requests + 1,
    )
    stay = _stay(history, account, start, sheet, fixed)
    room = fixed.base + fixed.head + bounds.limit
    remaining = account.requests - 1 if expected is None else expected
    best, best_gain = stay, 0.0
    for plan in _changes(history, account, start, sheet, bounds, fixed, remaining):
        if plan.total > room or not _bearable(plan, sheet):
            continue
        gain = remaining * _saving(sheet, stay.total, plan.total) - (plan.account.spent - stay.account.spent)
        if plan.total < stay.total and gain > best_gain:
            best, best_gain = plan, gain
    if best.total > room:
        return _forced(history, account, start, sheet, bounds, fixed)
    return best


def _bearable(plan: Plan, sheet: PriceSheet) -> bool:
    """Whether the sum is within the ceiling with this request, and no later request can cost more than everything.

    The second holds if the request stays cached as a whole (it only grows), and its distance to everything makes up
    for what whole cache steps may lose.
    """
    if plan.account.spent > CEILING * plan.account.everything or plan.total < sheet.cache_min_tokens:
        return False
    distance = plan.account.full - plan.total
    lost = (sheet.cache_write - sheet.cache_read) * (sheet.cache_step - 1)
    return sheet.cache_read * distance >= lost and distance >= 0


def _saving(sheet: PriceSheet, stay: int, changed: int) -> float:
    """What each later request saves: its history read again, long or short."""
    return request_price(sheet, prefix=stay, total=stay) - request_price(sheet, prefix=changed, total=changed)


def _stay(history: History, account: Account, start: int, sheet: PriceSheet, fixed: Fixed) -> Plan:
    active = account.active > 0
    total = _total(history, start, active=active, fixed=fixed)
    return _plan(account, start, total, int(account.sent), sheet, active=active, why="")


def _changes(
    history: History,
    account: Account,
    start: int,
    sheet: PriceSheet,
    bounds: Bounds,
    fixed: Fixed,
    remaining: float,
) -> Iterator[Plan]:
    """Stubs without a cut, if they are not on yet; answered messages as stubs; a cut, if the history is over `high`."""
    if not account.active:
        # A head that comes with them breaks the whole prefix: what was answered goes with it at no further price.
        prefix, seen = (0, history.used()) if fixed.head else (int(account.sent), history)
        total = _total(seen, start, active=True, fixed=fixed)
        plan = _plan(account, start, total, prefix, sheet, active=True, why="stubs")
        yield replace(plan, stubbed=tuple(history.answered(start))) if fixed.head else plan
    if account.active or not fixed.head:
        front = _total(history, start, active=True, fixed=fixed) - history.tokens(start, stubs=True)
        batch = best_batch(history, start, front=front, prefix=int(account.sent), sheet=sheet, remaining=remaining)
        if batch is not None:
            plan = _plan(account, start, batch.total, batch.prefix, sheet, active=True, why="used")
            yield replace(plan, stubbed=batch.indices)
    if next_start(history, start, bounds, stubs=True) != start:
        # As stubs more turns fit under `low`; where the account does not bear them yet, those that fit whole stay.
        for view in (history.used(), history):
            cut = next_start(view, start, bounds, stubs=True)
            plan = _cut(history, account, cut, start, sheet, fixed, "window")
            if cut != start and _bearable(plan, sheet):
                yield plan
                break


def _cut(
    history: History,
    account: Account,
    cut: int,
    start: int,
    sheet: PriceSheet,
    fixed: Fixed,
    why: Literal["window", "limit"],
) -> Plan:
    kept = fixed.base + (fixed.note if start else 0) + (fixed.head if account.active else 0)
    prefix = 0 if fixed.head and not account.active else min(kept, int(account.sent))
    total = _total(history.used(), cut, active=True, fixed=fixed)
    plan = _plan(account, cut, total, prefix, sheet, active=True, why=why)
    return replace(plan, stubbed=tuple(history.answered(cut)))


def _forced(history: History, account: Account, start: int, sheet: PriceSheet, bounds: Bounds, fixed: Fixed) -> Plan:
    """The longest history within `low` that the account bears, else the shortest one there is.

    Stubs for all that was answered go before any cut. A place behind the floor is taken if any of them fits the
    context.
    """
    used = history.used()
    answered = history.answered(start)
    if answered:
        plan = _cut(history, account, start, start, sheet, fixed, "limit")
        if plan.total <= fixed.base + fixed.head + bounds.limit and _bearable(plan, sheet):
            return plan
    groups = [group for group in history.group_starts if group > start]
    bound = [group for group in groups if group >= bounds.floor]
    if bound and used.tokens(bound[-1], stubs=True) <= bounds.limit:
        groups = bound
    room = min(bounds.low, bounds.limit)
    turns = set(history.turn_starts)
    fitting = [group for group in groups if used.tokens(group, stubs=True) <= room]
    whole_turns = [group for group in fitting if group in turns]
    for group in whole_turns or fitting:
        plan = _cut(history, account, group, start, sheet, fixed, "limit")
        if _bearable(plan, sheet):
            return plan
    if groups:
        return _cut(history, account, (whole_turns or fitting or groups)[-1], start, sheet, fixed, "limit")
    return _cut(history, account, start, start, sheet, fixed, "limit")


def _total(history: History, start: int, *, active: bool, fixed: Fixed) -> int:
    note = fixed.note if start else 0
    return fixed.base + note + (fixed.head if active else 0) + history.tokens(start, stubs=active)


def _plan(
    account: Account,
    start: int,
    total: int,
    prefix: int,
    sheet: PriceSheet,
    *,
    active: bool,
    why: Why,
) -> Plan:
    prefix = min(prefix, total)
    spent = account.spent + request_price(sheet, prefix=prefix, total=total)
    after = replace(account, spent=spent, sent=float(total), active=float(active))
    return Plan(start=start, active=active, prefix=prefix, total=total, why=why, account=after)
