"""What the policies do on real logs: counts, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from offprompt.models.tokenizers import tokenizer_for
from offprompt.records.imported import Problem
from offprompt.service.replay.log import Rules
from offprompt.service.replay.logged import Conversation
from offprompt.service.replay.readers import read_conversations
from offprompt.service.replay.report import totals
from offprompt.service.replay.simulate import Replayed, simulate
from offprompt.wire.prices import PriceSheet, builtin_sheets, named_sheet

pytestmark = pytest.mark.data

LOGS = {
    "swe-agent": ("swe-agent/*.traj", 126),
    "tau-bench": ("tau-bench/gpt-4o-airline.json", 200),
    "longmemeval": ("longmemeval/haystacks.json", 200),
}
TOKENIZER = tokenizer_for()
UNLIMITED = 10**9
DEFAULT = named_sheet("default", builtin_sheets())


def _conversations(data: Path, pattern: str) -> Iterator[Conversation]:
    problems: list[Problem] = []
    for path in sorted(data.glob(pattern)):
        yield from read_conversations(path, problems.append)
    assert problems == []


def _chained(data: Path, log: str, sheet: PriceSheet, limit: int | None) -> Replayed:
    rules = Rules(sheet=sheet, context_tokens=sheet.context_tokens or 128_000)
    return simulate(_conversations(data, LOGS[log][0]), TOKENIZER, rules, chain=True, limit=limit)


@pytest.mark.parametrize(
    ("log", "input_ratio", "price_ratio"),
    [
        ("swe-agent", 0.15, 0.22),
        ("tau-bench", 0.38, 0.45),
        # Estimated .10 and .22 with 4 characters a token; English chat has 4.8 in o200k_base, so that the same log has
        # 58,000 tokens a request instead of 69,000 while the window keeps its 8,000 and 4,000.
        ("longmemeval", 0.102, 0.237),
    ],
)
def test_stubs_and_window_leave_what_was_estimated(
    data: Path, log: str, input_ratio: float, price_ratio: float
) -> None:
    replayed = _chained(data, log, DEFAULT, LOGS[log][1])
    assert replayed.requests == LOGS[log][1]
    found = totals(replayed)["stubs+window"]
    assert found.input_ratio <= input_ratio
    assert found.price_ratio <= price_ratio


def test_the_estimate_for_chat_holds_with_the_estimates_own_tokens(data: Path) -> None:
    rules = Rules(sheet=DEFAULT)
    log, limit = LOGS["longmemeval"]
    tokenizer = tokenizer_for(encoding="estimate")
    found = totals(simulate(_conversations(data, log), tokenizer, rules, chain=True, limit=limit))["stubs+window"]
    assert found.input_ratio <= 0.10
    assert found.price_ratio <= 0.22


def _ratios(replayed: Replayed) -> list[float]:
    """Spent by `auto` ÷ spent by sending everything, after each request."""
    ours = accumulate(replayed.columns["auto"].price)
    everything = accumulate(replayed.columns["logged"].price)
    return [mine / other for mine, other in zip(ours, everything, strict=True)]


@pytest.mark.parametrize("log", list(LOGS))
@pytest.mark.parametrize("sheet", builtin_sheets(), ids=lambda sheet: sheet.name)
def test_auto_is_never_above_1_02_at_any_request_of_any_log_on_any_sheet(
    data: Path, log: str, sheet: PriceSheet
) -> None:
    rules = Rules(sheet=sheet, context_tokens=UNLIMITED)
    replayed = simulate(_conversations(data, LOGS[log][0]), TOKENIZER, rules, chain=True)
    assert max(_ratios(replayed)) <= 1.02


@pytest.mark.parametrize("log", list(LOGS))
@pytest.mark.parametrize("sheet", ["default", "openai-gpt-5", "deepseek-v4-pro", "local"])
def test_auto_keeps_1_02_until_everything_no_longer_fits_the_context(data: Path, log: str, sheet: str) -> None:
    """From there on a cut is forced; where cached reads are free it is not paid back, and stays small."""
    replayed = _chained(data, log, named_sheet(sheet, builtin_sheets()), None)
    room = replayed.rules.context_tokens - replayed.rules.reserve_tokens
    fitting = sum(tokens <= room for tokens in replayed.columns["logged"].tokens)
    ratios = _ratios(replayed)
    assert max(ratios[:fitting]) <= 1.02
    assert max(ratios) <= (1.06 if sheet == "local" else 1.02)
    assert max(replayed.columns["auto"].tokens[fitting:], default=0) <= room


@pytest.mark.parametrize("sheet", ["default", "deepseek-v4-pro", "local", "openai-gpt-5"])
def test_auto_is_never_above_1_02_on_any_conversation_by_itself(data: Path, sheet: str) -> None:
    rules = Rules(sheet=named_sheet(sheet, builtin_sheets()))
    for pattern, _ in LOGS.values():
        for conversation in _conversations(data, pattern):
            replayed = simulate([conversation], TOKENIZER, rules)
            if replayed.requests:
                assert totals(replayed)["auto"].price_ratio <= 1.02


def test_evidence_beside_the_saving(data: Path) -> None:
    """Over all 200 trajectories: stubs and window keep what truncation keeps, at a fifth of its price."""
    replayed = _chained(data, "tau-bench", DEFAULT, None)
    found = totals(replayed)
    ours, baseline = found["stubs+window"], found["truncation"]
    assert (replayed.requests, replayed.values) == (2454, 1436)
    assert ours.evidence is not None
    assert baseline.evidence is not None
    assert ours.evidence >= 0.985
    assert found["stub_at_once"].evidence == 1.0
    assert ours.evidence >= baseline.evidence - 0.005
    assert ours.price < 0.25 * baseline.price


def test_the_window_is_dearer_where_cached_reads_are_free(data: Path) -> None:
    found = totals(_chained(data, "longmemeval", named_sheet("local", builtin_sheets()), 200))
    assert found["window"].price_ratio > 1.3
    assert found["rewritten"].price_ratio > 20


def test_few_shot_files_are_read_whole(data: Path) -> None:
    problems: list[Problem] = []
    read = list(read_conversations(data / "tau-bench/MockRetailDomainEnv-few_shot.jsonl", problems.append))
    assert (len(read), problems) == (69, [])
