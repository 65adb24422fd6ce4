from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offprompt.models.tokenizers import tokenizer_for
from offprompt.wire.auto import CEILING, Account, plan_request
from offprompt.wire.history import Bounds, Fixed, History, Item, next_start, place, window_bounds
from offprompt.wire.prices import PriceSheet, builtin_sheets, named_sheet
from offprompt.wire.stubs import gone_line, stub_text

WIDE = 10**9
RESULT = "\n".join(f"line {n}: the quick brown fox" for n in range(400))
RESULT_ZH = "".join(f"第{n}行：敏捷的狐狸跳过了懒狗。\n" for n in range(400))


def _history(*messages: tuple[str, int], stub: int = 10**9) -> History:
    places = place(kind for kind, _ in messages)
    return History(
        Item(tokens, min(tokens, stub) if kind in ("tool", "observation") else tokens, turn, group, kind)
        for (kind, tokens), (turn, group) in zip(messages, places, strict=True)
    )


def test_a_stub_says_what_it_stands_for() -> None:
    stub = stub_text(RESULT, handle="[[mem:@b1]]", kind="tool")
    first, *_ = stub.splitlines()
    assert first.startswith("[[mem:@b1]] tool result, ")
    assert f"{len(RESULT):,} characters, 400 lines" in first
    assert "mem_read" in first
    assert "line 0:" in stub
    assert stub.endswith("line 399: the quick brown fox")
    assert tokenizer_for().count(stub) < 220


def test_a_stub_in_chinese_costs_no_more() -> None:
    stub = stub_text(RESULT_ZH, handle="[[mem:@b1]]", kind="document", language="zh")
    assert "文档" in stub
    assert "第0行" in stub
    assert "mem_read" in stub
    assert tokenizer_for().count(stub) < 280


def test_a_stub_is_stable_and_leaves_out_what_it_says() -> None:
    stub = stub_text(RESULT, handle="[[mem:@b1]]", kind="tool", head_tokens=10, tail_tokens=5)
    assert stub == stub_text(RESULT, handle="[[mem:@b1]]", kind="tool", head_tokens=10, tail_tokens=5)
    assert f"… {len(RESULT) - 40 - 20:,} characters left out …" in stub


@given(st.text(max_size=200), st.integers(0, 30), st.integers(0, 30))
def test_head_and_tail_never_overlap(text: str, head: int, tail: int) -> None:
    stub = stub_text(text, handle="H", kind="tool", head_tokens=head, tail_tokens=tail)
    kept = stub.split("it.\n", 1)[1]
    assert kept == text or "characters left out" in kept


def test_the_line_for_what_left_names_the_search() -> None:
    assert "mem_search" in gone_line("en")
    assert "mem_search" in gone_line("zh")
    assert gone_line("zh") != gone_line("en")


def test_calls_and_results_are_one_group() -> None:
    kinds = ["user", "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "observation"]
    assert list(place(kinds)) == [(1, 0), (1, 1), (1, 2), (1, 2), (1, 2), (1, 3), (2, 4), (2, 5), (2, 5)]


def test_the_window_of_a_model() -> None:
    assert window_bounds(128_000, reserve_tokens=4096, head_tokens=2000) == Bounds(8000, 4000, 121_904)
    assert window_bounds(8000, reserve_tokens=1000, head_tokens=1000) == Bounds(3600, 2400, 6000)
    assert window_bounds(100_000, reserve_tokens=0, head_tokens=0, high_cap=WIDE, low_cap=WIDE) == Bounds(
        60_000, 40_000, 100_000
    )
    assert window_bounds(1000, reserve_tokens=4096, head_tokens=0) == Bounds(0, 0, 0)


def test_nothing_leaves_below_high() -> None:
    history = _history(("user", 50), ("assistant", 50), ("user", 50))
    assert next_start(history, 0, Bounds(150, 60, WIDE)) == 0


def test_whole_turns_leave_until_low() -> None:
    turns = [("user", 10), ("assistant", 30)] * 4 + [("user", 10)]
    history = _history(*turns)
    assert next_start(history, 0, Bounds(169, 100, WIDE)) == 4
    assert history.tokens(4) == 90


def test_a_long_turn_is_cut_between_rounds_and_keeps_its_question() -> None:
    history = _history(("user", 5), ("assistant", 5), ("user", 20), *[("assistant", 5), ("tool", 15), ("tool", 10)] * 5)
    start = next_start(history, 0, Bounds(100, 60, WIDE))
    assert (start, history.items[start].kind, history.opener(start)) == (15, "assistant", 2)
    assert history.tokens(start) == 20 + 30
    assert history.indices(start) == [2, 15, 16, 17]


def test_a_question_over_low_does_not_make_every_round_a_cut() -> None:
    rounds = [("assistant", 5), ("tool", 10)]
    start, cuts = 0, 0
    for n in range(1, 60):
        history = _history(("user", 90), *rounds * n)
        after = next_start(history, start, Bounds(100, 60, WIDE))
        cuts += after != start
        start = after
        assert history.tokens(start) <= 90 + 60
    assert cuts <= 60 * 15 / 45 + 1


def test_the_newest_round_stays_however_large() -> None:
    history = _history(("user", 5), ("assistant", 5), ("tool", 5), ("assistant", 5), ("tool", 5000))
    start = next_start(history, 0, Bounds(100, 60, WIDE))
    assert (start, history.indices(start)) == (3, [0, 3, 4])
    assert next_start(history, start, Bounds(100, 60, WIDE)) == start


def test_a_new_turn_drops_the_old_turns_question_only_with_a_cut() -> None:
    messages = [("user", 20), *[("assistant", 20), ("tool", 20)] * 5]
    start = next_start(_history(*messages), 0, Bounds(200, 100, WIDE))
    history = _history(*messages, ("user", 10))
    assert next_start(history, start, Bounds(200, 100, WIDE)) == start
    assert history.indices(start)[0] == 0


def test_stubs_count_as_what_is_sent() -> None:
    history = _history(("user", 10), ("assistant", 10), ("tool", 1000), stub=20)
    assert (history.tokens(), history.tokens(stubs=True)) == (1020, 40)
    assert next_start(history, 0, Bounds(100, 50, WIDE), stubs=True) == 0


KINDS = st.sampled_from(["user", "assistant", "tool", "observation"])
LOGS = st.lists(st.tuples(KINDS, st.integers(1, 3000)), min_size=1, max_size=60).map(
    lambda log: [("user", 10), *log] if log[0][0] in ("tool", "observation") else log
)


@settings(max_examples=150, deadline=None)
@given(LOGS, st.integers(50, 6000), st.floats(0.1, 0.9))
def test_no_cut_parts_a_group_or_loses_the_question(log: list[tuple[str, int]], high: int, share: float) -> None:
    bounds = Bounds(high, int(high * share), WIDE)
    start = 0
    for n in range(1, len(log) + 1):
        history = _history(*log[:n], stub=60)
        after = next_start(history, start, bounds, stubs=True)
        assert after >= start
        if after != start:
            assert after in history.group_starts
        indices = history.indices(after)
        assert indices == sorted(set(indices))
        assert history.tokens(after, stubs=True) == sum(history.items[at].sent for at in indices)
        assert n - 1 in indices
        users = [at for at in range(n) if history.items[at].kind == "user"]
        assert not users or users[-1] in indices
        start = after


@settings(max_examples=120, deadline=None)
@given(LOGS, st.sampled_from(builtin_sheets()), st.integers(0, 5000), st.sampled_from([0, 300]), st.integers(1, 40))
def test_auto_never_costs_more_than_1_02_times_everything(
    log: list[tuple[str, int]], sheet: PriceSheet, base: int, head: int, repeats: int
) -> None:
    """At every prefix of every log, on every sheet, as long as the context forces nothing."""
    history, account, start = History(), Account(), 0
    messages = log * repeats
    messages = messages[:400]
    bounds = Bounds(800, 400, WIDE)
    for (kind, tokens), (turn, group) in zip(messages, place(kind for kind, _ in messages), strict=True):
        history.append(Item(tokens, min(tokens, 60) if kind in ("tool", "observation") else tokens, turn, group, kind))
        if kind == "assistant":
            continue
        plan = plan_request(history, account, start=start, sheet=sheet, bounds=bounds, fixed=Fixed(base, head, 20))
        start, account = plan.start, plan.account
        assert account.spent <= CEILING * account.everything + 1e-12


def _run(sheet: PriceSheet, bounds: Bounds, turns: int, *, head: int = 300) -> tuple[Account, list[str]]:
    history, account, start, why = History(), Account(), 0, list[str]()
    kinds = ["user", "assistant"] * turns
    for (kind, tokens), (turn, group) in zip([("user", 200), ("assistant", 300)] * turns, place(kinds), strict=True):
        if kind == "assistant":
            plan = plan_request(
                history, account, start=start, sheet=sheet, bounds=bounds, fixed=Fixed(1000, head=head, note=20)
            )
            start, account = plan.start, plan.account
            why.append(plan.why)
        history.append(Item(tokens, tokens, turn, group, kind))
    return account, why


def test_auto_passes_a_short_conversation_through() -> None:
    account, why = _run(named_sheet("default", builtin_sheets()), Bounds(8000, 4000, WIDE), 15)
    assert account.spent == account.everything
    assert set(why) == {""}


def test_auto_cuts_a_long_conversation_where_it_pays() -> None:
    account, why = _run(named_sheet("default", builtin_sheets()), Bounds(8000, 4000, WIDE), 300)
    assert why.count("window") >= 10
    assert account.spent < 0.35 * account.everything


def test_auto_leaves_nearly_free_reads_alone_for_longer() -> None:
    _, dear = _run(named_sheet("default", builtin_sheets()), Bounds(8000, 4000, WIDE), 300)
    _, cheap = _run(named_sheet("deepseek-v4-pro", builtin_sheets()), Bounds(8000, 4000, WIDE), 300)
    assert cheap.count("window") < dear.count("window")


def test_auto_never_cuts_where_reads_are_free() -> None:
    account, why = _run(named_sheet("local", builtin_sheets()), Bounds(8000, 4000, WIDE), 300)
    assert set(why) == {""}
    assert account.spent == account.everything


def test_the_context_forces_a_cut_that_fits() -> None:
    history, account, start = History(), Account(), 0
    limits = Bounds(6000, 4000, 10_000)
    reasons: list[str] = []
    for (kind, tokens), (turn, group) in zip(
        [("user", 200), ("assistant", 300)] * 60, place(["user", "assistant"] * 60), strict=True
    ):
        if kind == "assistant":
            plan = plan_request(
                history,
                account,
                start=start,
                sheet=named_sheet("local", builtin_sheets()),
                bounds=limits,
                fixed=Fixed(500, note=20),
            )
            start, account = plan.start, plan.account
            reasons.append(plan.why)
            assert plan.total <= 500 + 10_000
        history.append(Item(tokens, tokens, turn, group, kind))
    assert reasons.count("limit") >= 2


def test_a_result_is_stubbed_at_first_sight_in_a_live_session() -> None:
    """Where our head stands anyway, nothing is broken by a stub: it pays at once."""
    sheet = named_sheet("default", builtin_sheets())
    history = _history(("user", 100), ("assistant", 50), ("tool", 5000), stub=150)
    before = Account(requests=1, full=2100, sent=2100)
    plan = plan_request(
        history, before, start=0, sheet=sheet, bounds=Bounds(8000, 4000, WIDE), fixed=Fixed(2000, note=20)
    )
    assert (plan.why, plan.active, plan.prefix, plan.total) == ("stubs", True, 2100, 2300)


def test_the_account_survives_a_record() -> None:
    account, _ = _run(named_sheet("default", builtin_sheets()), Bounds(8000, 4000, WIDE), 40)
    assert Account.of(account.sums()) == account
    assert Account.of({}) == Account()


def test_known_remaining_requests_decide() -> None:
    sheet = named_sheet("default", builtin_sheets())
    history = _history(*[("user", 200), ("assistant", 300)] * 40, ("user", 200))
    account = Account(everything=10.0, spent=10.0, requests=40, full=21_000, sent=21_000)
    plans = [
        plan_request(
            history,
            account,
            start=0,
            sheet=sheet,
            bounds=Bounds(8000, 4000, WIDE),
            fixed=Fixed(1000, note=20),
            expected=expected,
        )
        for expected in (0.0, 1.0, 10.0, 100.0)
    ]
    assert [plan.why for plan in plans] == ["", "", "window", "window"]
    assert all(a.account.everything == b.account.everything for a, b in pairwise(plans))


@pytest.mark.parametrize("head", [0, 300])
def test_activation_costs_the_head_only_where_it_is_new(head: int) -> None:
    account, why = _run(named_sheet("default", builtin_sheets()), Bounds(2000, 1000, WIDE), 100, head=head)
    first = why.index("window")
    assert account.spent < account.everything
    assert first > 2


def _late(sheet: PriceSheet, history: History, bounds: Bounds) -> str:
    """What the policy does after 100 requests that left it room, with 1,000 to come."""
    account = Account(everything=1e6, spent=1e6, requests=100, full=history.tokens() - 10, sent=history.tokens() - 10)
    plan = plan_request(history, account, start=0, sheet=sheet, bounds=bounds, fixed=Fixed(0, note=20), expected=1000.0)
    return plan.why


def test_no_cut_goes_below_what_a_cache_takes() -> None:
    """700 tokens uncached cost less than 8,000 cached now, but the 1,000 that they grow to would not."""
    history = _history(*[("user", 100), ("assistant", 100)] * 40, ("user", 50))
    sheet = PriceSheet("x", input=1.0, cache_write=1.0, cache_read=0.1, output=1.0, cache_min_tokens=1024)
    assert _late(sheet, history, Bounds(8000, 700, WIDE)) == ""
    assert _late(sheet, history, Bounds(8000, 1500, WIDE)) == "window"


def test_no_cut_saves_less_than_whole_cache_steps_may_lose() -> None:
    history = _history(*[("user", 100), ("assistant", 100)] * 40, ("user", 50))
    sheet = PriceSheet("x", input=1.0, cache_write=1.0, cache_read=0.1, output=1.0, cache_step=1024)
    assert _late(sheet, history, Bounds(8000, 3000, WIDE)) == ""
    assert _late(replace(sheet, cache_step=128), history, Bounds(8000, 3000, WIDE)) == "window"


def test_a_head_that_comes_with_activation_breaks_the_whole_prefix() -> None:
    sheet = named_sheet("default", builtin_sheets())
    history = _history(("user", 100), ("assistant", 50), ("tool", 5000), ("assistant", 50), ("user", 10), stub=150)
    account = Account(everything=1.0, spent=1.0, requests=50, full=7200, sent=7200)
    plan = plan_request(
        history, account, start=0, sheet=sheet, bounds=Bounds(8000, 4000, WIDE), fixed=Fixed(2000, head=300, note=20)
    )
    assert (plan.why, plan.prefix, plan.total) == ("stubs", 0, 2000 + 300 + 360)
