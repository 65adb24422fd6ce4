"""`stub_after_use`: whole once, then stubs in batches that pay; the same for `auto`, within its ceiling."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offprompt.wire.auto import CEILING, Account, plan_request
from offprompt.wire.history import Bounds, Fixed, History, Item, next_start, place
from offprompt.wire.prices import PriceSheet, builtin_sheets, named_sheet, request_price
from offprompt.wire.used import best_batch, plan_used

WIDE = 10**9
STUB = 60
DEFAULT = named_sheet("default", builtin_sheets())
FREE = named_sheet("local", builtin_sheets())
LONG = ("tool", "document")


def _history(*messages: tuple[str, int]) -> History:
    """Tools' results and documents over the stub's size may become stubs once they were answered."""
    places = place("user" if kind == "document" else kind for kind, _ in messages)
    return History(
        Item(
            tokens,
            tokens,
            turn,
            group,
            "user" if kind == "document" else kind,
            STUB if kind in LONG else None,
        )
        for (kind, tokens), (turn, group) in zip(messages, places, strict=True)
    )


def test_what_was_not_answered_stays_whole() -> None:
    history = _history(("user", 10), ("assistant", 10), ("tool", 5000))
    assert history.answered() == []
    assert history.used().tokens(stubs=True) == history.tokens(stubs=True) == 5020
    history.append(Item(10, 10, 1, 2, "assistant"))
    assert history.answered() == [2]
    assert history.used().tokens(stubs=True) == 10 + 10 + STUB + 10
    assert history.tokens(stubs=True) == 5030


def test_what_a_stub_would_not_shorten_stays_whole() -> None:
    history = _history(("user", 10), ("tool", STUB), ("assistant", 10))
    assert history.answered() == []


def test_stubs_stay_stubs() -> None:
    history = _history(("user", 10), ("tool", 900), ("assistant", 10), ("tool", 800), ("assistant", 10), ("user", 5))
    history.stub([3])
    assert (history.answered(), history.tokens(stubs=True)) == ([1], 10 + 900 + 10 + STUB + 10 + 5)
    assert history.tokens() == 1735
    history.stub([1])
    assert (history.answered(), history.tokens(stubs=True)) == ([], 10 + STUB + 10 + STUB + 10 + 5)
    assert history.span(3, stubs=True) == STUB + 15
    assert history.one(1, stubs=True) == STUB


def test_a_document_that_opens_the_turn_goes_with_a_start_inside_it() -> None:
    history = _history(("document", 900), ("assistant", 10), ("tool", 700), ("assistant", 10), ("tool", 5))
    assert history.opener(3) == 0
    assert history.answered(3) == [0]
    assert history.used().tokens(3, stubs=True) == STUB + 10 + 5


def test_a_batch_waits_until_it_pays() -> None:
    history = _history(("user", 10), ("tool", 1000), ("assistant", 10), ("tool", 100), ("assistant", 500))
    front, prefix = 2000, 2000 + history.tokens() - 500
    few = best_batch(history, 0, front=front, prefix=prefix, sheet=DEFAULT, remaining=0)
    many = best_batch(history, 0, front=front, prefix=prefix, sheet=DEFAULT, remaining=50)
    assert few is None
    assert many is not None
    assert many.indices == (1, 3)
    assert (many.prefix, many.total) == (2010, 2000 + 10 + STUB + 10 + STUB + 500)


def test_an_old_result_far_in_front_waits_while_a_new_one_goes() -> None:
    history = _history(("user", 10), ("tool", 100), ("assistant", 20_000), ("tool", 5000), ("assistant", 10))
    batch = best_batch(history, 0, front=0, prefix=history.tokens() - 10, sheet=DEFAULT, remaining=10)
    assert batch is not None
    assert batch.indices == (3,)


def test_nothing_cached_is_nothing_broken() -> None:
    history = _history(("user", 10), ("tool", 1000), ("assistant", 10), ("user", 10))
    batch = best_batch(history, 0, front=2000, prefix=0, sheet=FREE, remaining=0)
    assert batch is not None
    assert (batch.indices, batch.prefix) == ((1,), 0)


def test_free_reads_are_never_broken() -> None:
    history = _history(("user", 10), ("tool", 1000), ("assistant", 10), ("user", 10))
    assert best_batch(history, 0, front=2000, prefix=3020, sheet=FREE, remaining=1000) is None


def test_a_full_window_makes_stubs_before_it_cuts() -> None:
    turns = [("user", 10), ("assistant", 10), ("tool", 900), ("assistant", 10)]
    history = _history(*turns * 2, ("user", 10))
    plan = plan_used(
        history, 0, sent=1860, requests=5, sheet=FREE, fixed=Fixed(0, note=5), bounds=Bounds(1000, 500, WIDE)
    )
    assert (plan.start, plan.stubbed, plan.prefix, plan.total) == (0, (2, 6), 20, 2 * (30 + STUB) + 10)
    more = _history(*turns * 12, ("user", 10))
    plan = plan_used(
        more, 0, sent=11_000, requests=5, sheet=FREE, fixed=Fixed(0, note=5), bounds=Bounds(1000, 500, WIDE)
    )
    assert plan.start == 28
    assert plan.stubbed == (30, 34, 38, 42, 46)
    assert plan.total == 5 * (30 + STUB) + 10 + 5


def test_no_cut_is_made_before_the_floor() -> None:
    history = _history(*[("user", 100), ("assistant", 100)] * 10, ("user", 100))
    free = next_start(history, 0, Bounds(1000, 500, WIDE))
    assert free == 16
    assert next_start(history, 0, Bounds(1000, 500, WIDE, floor=17)) == 18
    assert next_start(history, 0, Bounds(1000, 500, WIDE, floor=20)) == 20
    assert next_start(history, 0, Bounds(1000, 500, WIDE, floor=21)) == 0


def test_auto_leaves_what_is_bound_alone_until_the_context_is_full() -> None:
    history = _history(*[("user", 200), ("assistant", 300)] * 40, ("user", 200))
    account = Account(everything=10.0, spent=10.0, requests=40, full=21_000, sent=21_000)

    def why(floor: int, limit: int = WIDE) -> str:
        bounds = Bounds(8000, 4000, limit, floor)
        return plan_request(
            history, account, start=0, sheet=DEFAULT, bounds=bounds, fixed=Fixed(1000, note=20), expected=1000.0
        ).why

    assert (why(0), why(81), why(81, 10_000)) == ("window", "", "limit")


KINDS = st.sampled_from(["user", "assistant", "tool", "document"])
LOGS = st.lists(st.tuples(KINDS, st.integers(1, 3000)), min_size=1, max_size=40)
SHEETS = st.sampled_from(builtin_sheets())


@settings(max_examples=150)
@given(LOGS, SHEETS, st.integers(0, 3000), st.floats(0, 1), st.integers(0, 300))
def test_a_batch_saves_what_it_says_and_is_the_best_suffix(
    log: list[tuple[str, int]], sheet: PriceSheet, front: int, share: float, remaining: int
) -> None:
    sheet = replace(sheet, cache_min_tokens=0, cache_step=1)
    history = _history(*log)
    total = front + history.tokens()
    prefix = int(total * share)
    batch = best_batch(history, 0, front=front, prefix=prefix, sheet=sheet, remaining=remaining)

    def price(first: int | None) -> float:
        changed = _history(*log)
        answered = [at for at in changed.answered() if first is not None and at >= first]
        cached = min(prefix, total if first is None else front + sum(tokens for _, tokens in log[:first]))
        changed.stub(answered)
        after = front + changed.tokens(stubs=True)
        return request_price(sheet, prefix=cached, total=after) + remaining * request_price(
            sheet, prefix=after, total=after
        )

    prices = {first: price(first) for first in (None, *history.answered())}
    best = min(prices.values())
    chosen = prices[batch.indices[0] if batch is not None else None]
    assert chosen == pytest.approx(best, abs=1e-9)
    if batch is not None:
        assert batch.gain == pytest.approx(prices[None] - chosen, abs=1e-9)


@settings(max_examples=120)
@given(LOGS, SHEETS, st.integers(0, 5000), st.sampled_from([0, 300]), st.integers(1, 30))
def test_auto_with_used_results_never_costs_more_than_1_02_times_everything(
    log: list[tuple[str, int]], sheet: PriceSheet, base: int, head: int, repeats: int
) -> None:
    history, account, start = History(), Account(), 0
    messages = (log * repeats)[:300]
    bounds = Bounds(800, 400, WIDE)
    sent = 0
    for item in _history(*messages).items:
        history.append(item)
        if item.kind == "assistant":
            continue
        plan = plan_request(history, account, start=start, sheet=sheet, bounds=bounds, fixed=Fixed(base, head, 20))
        history.stub(plan.stubbed)
        start, account = plan.start, plan.account
        note = 20 if start else 0
        assert plan.total == base + note + (head if plan.active else 0) + history.tokens(start, stubs=plan.active)
        assert plan.prefix <= sent or not sent
        assert account.spent <= CEILING * account.everything + 1e-12
        sent = plan.total


@settings(max_examples=100)
@given(LOGS, SHEETS, st.booleans())
def test_each_result_is_sent_whole_until_it_was_answered(
    log: list[tuple[str, int]], sheet: PriceSheet, window: bool
) -> None:
    history, start, sent, requests = History(), 0, 0, 0
    bounds = Bounds(800, 400, WIDE) if window else None
    stubs: set[int] = set()
    for at, item in enumerate(_history(*log).items):
        history.append(item)
        if item.kind == "assistant":
            continue
        fixed = Fixed(500, note=20)
        plan = plan_used(history, start, sent=sent, requests=requests, sheet=sheet, fixed=fixed, bounds=bounds)
        last = max((n for n in range(at) if history.items[n].kind == "assistant"), default=-1)
        assert all(n < last for n in plan.stubbed)
        assert not stubs & set(plan.stubbed)
        history.stub(plan.stubbed)
        stubs |= set(plan.stubbed)
        assert plan.total == 500 + (20 if plan.start else 0) + history.tokens(plan.start, stubs=True)
        start, sent, requests = plan.start, plan.total, requests + 1
