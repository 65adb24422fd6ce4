from __future__ import annotations

import pytest

from offprompt.errors import UsageError
from offprompt.wire.prices import (
    PriceSheet,
    builtin_sheets,
    cached_tokens,
    named_sheet,
    parse_sheets,
    price,
    request_price,
    sheet_for,
)

TURNS = 20


def _opus() -> PriceSheet:
    return named_sheet("anthropic-opus-5", builtin_sheets())


def _session(*, rewritten: int = 0, kept: int = 0, tail: int = 0) -> float:
    """20 turns: 10,000 of tools and system, 20,000 of history, 500 more a turn; memory in one of three places."""
    sheet = _opus()
    total = request_price(sheet, prefix=0, total=30_000 + rewritten + kept) + price(
        sheet, cached=0, new=0, unmarked=tail
    )
    for turn in range(1, TURNS):
        before = 30_000 + (500 + kept) * (turn - 1) + kept
        prefix = 10_000 if rewritten else before
        cached = cached_tokens(sheet, prefix)
        new = before + 500 + kept + rewritten - cached
        total += price(sheet, cached=cached, new=new, unmarked=tail)
    return total


@pytest.mark.parametrize(
    ("placed", "times"),
    [({"rewritten": 1000}, 5.8), ({"kept": 1000}, 1.35), ({"tail": 1000}, 1.15)],
)
def test_where_memory_stands_changes_the_price_as_published(placed: dict[str, int], times: float) -> None:
    assert _session(**placed) / _session() == pytest.approx(times, rel=0.03)


def test_presence_of_250_tokens_costs_little() -> None:
    sheet = _opus()
    plain = sum(request_price(sheet, prefix=30_000 + 500 * (n - 1), total=30_000 + 500 * n) for n in range(1, 21))
    with_head = sum(request_price(sheet, prefix=30_250 + 500 * (n - 1), total=30_250 + 500 * n) for n in range(1, 21))
    assert 1.0 < with_head / plain < 1.02


def test_a_million_tokens_of_each_kind_cost_what_the_sheet_says() -> None:
    sheet = _opus()
    assert price(sheet, cached=1_000_000, new=0) == pytest.approx(0.5)
    assert price(sheet, cached=0, new=1_000_000) == pytest.approx(6.25)
    assert price(sheet, cached=0, new=0, unmarked=1_000_000) == pytest.approx(5.0)
    assert price(sheet, cached=0, new=0, output=1_000_000) == pytest.approx(25.0)


def test_below_the_minimum_nothing_is_cached_or_written() -> None:
    sheet = _opus()
    assert (cached_tokens(sheet, 511), cached_tokens(sheet, 512)) == (0, 512)
    assert request_price(sheet, prefix=300, total=500) == pytest.approx(500 * 5.0 / 1e6)


def test_cached_prefixes_end_at_whole_steps() -> None:
    sheet = named_sheet("gpt-5-mini", builtin_sheets())
    assert [cached_tokens(sheet, prefix) for prefix in (1023, 1024, 1151, 1152)] == [0, 1024, 1024, 1152]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-opus-5", "anthropic-opus-5"),
        ("claude-opus-5-20260601", "anthropic-opus-5"),
        ("claude-opus-5-5", "anthropic-opus-5-5"),
        ("anthropic/claude-opus-5.5", "anthropic-opus-5-5"),
        ("claude-sonnet-5-5", "anthropic-sonnet-5-5"),
        ("Claude-Haiku-5-5", "anthropic-haiku-5-5"),
        ("claude-3-5-sonnet-20241022", "anthropic-earlier"),
        ("gpt-5", "openai-gpt-5"),
        ("gpt-5.6", "openai-gpt-5-6"),
        ("gpt-4o-mini", "openai-gpt-4"),
        ("o3", "openai-gpt-4"),
        ("deepseek-v4-flash", "deepseek-v4-flash"),
        ("deepseek-v4-pro", "deepseek-v4-pro"),
        ("qwen3-max", "qwen-implicit"),
        ("qwen-explicit", "qwen-explicit"),
        ("llama-3.1-8b", "local"),
    ],
)
def test_each_model_finds_its_sheet(model: str, name: str) -> None:
    assert named_sheet(model, builtin_sheets()).name == name


def test_a_model_that_no_sheet_knows_has_none() -> None:
    assert sheet_for("someones-model", builtin_sheets()) is None
    with pytest.raises(UsageError, match=r"'someones-model'.*deepseek-v4-flash"):
        named_sheet("someones-model", builtin_sheets())


def test_every_built_in_sheet_says_when_and_whence() -> None:
    for sheet in builtin_sheets():
        assert sheet.dated[:2] == "20"
        assert len(sheet.source) > 20
        assert 0 <= sheet.cache_read <= sheet.input <= sheet.cache_write


def test_the_users_own_sheet_goes_before() -> None:
    own = parse_sheets('[mine]\nmodels = ["GPT-5*"]\ninput = 9\ncache_read = 1\noutput = 20\n')
    found = named_sheet("gpt-5-mini", (*own, *builtin_sheets()))
    assert (found.name, found.cache_write, found.currency) == ("mine", 9.0, "USD")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("input = 1", "'input' is not a table"),
        ("[a]\ninput = 1\noutput = 2", "no cache_read"),
        ("[a]\ninput = 'x'\ncache_read = 1\noutput = 2", "number of 0 or more"),
        ("[a]\ninput = -1\ncache_read = 1\noutput = 2", "number of 0 or more"),
        ("[a]\ninput = nan\ncache_read = 1\noutput = 2", "number of 0 or more"),
        ("[a]\ninput = 1\ncache_read = 1\noutput = 2\ncache_step = 0", "1 or more"),
        ("[a]\ninput = 1\ncache_read = 1\noutput = 2\nmodels = 'gpt'", "list of texts"),
        ("[a]\ninput = 1\ncache_read = 1\noutput = 2\ncahce_min = 3", "unknown key 'cahce_min'"),
        ("[a", "not TOML"),
    ],
)
def test_a_bad_sheet_says_what_and_where(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_sheets(text, where="prices.toml")
    assert "prices.toml" in str(caught.value)
