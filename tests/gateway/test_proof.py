"""What the gateway's bench measures is what its upstream received, and `auto` keeps its promise behind the gateway."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from bench.gateway_run import Run, Way, steps, through
from offprompt.service.history_choice import JOINTS_TOKENS
from offprompt.service.replay.formats import conversation_of
from offprompt.testing.agent_log import agent_log
from offprompt.wire.auto import CEILING
from offprompt.wire.prices import builtin_sheets, sheet_for

MODELS = ("claude-opus-5", "gpt-5", "gpt-4o", "deepseek-chat", "qwen3-max", "local-llama")


def ran(model: str, *, tasks: int, high: int = 8000, recall: bool = False) -> tuple[Run, str]:
    sheet = sheet_for(model, builtin_sheets())
    assert sheet is not None
    system, log = steps(iter([conversation_of(agent_log(tasks=tasks), "agent")]), None)
    way = Way(model, sheet, high=high, low=high // 2, recall=recall)
    return asyncio.run(through(system, log, way, [sheet])), sheet.name


def test_the_sums_are_of_what_the_upstream_received_and_the_gateway_sends_no_more_than_it_says() -> None:
    run, sheet = ran("gpt-4o", tasks=8, high=2000, recall=True)
    everything, ours, truncated = (each.series[sheet] for each in (run.without, run.through, run.cut))
    assert len(run.answered) == len(everything.tokens) == len(truncated.tokens)
    assert run.answered[-1] == len(ours.tokens) > len(run.answered), "the model has asked its memory"
    rounds = [after - before for before, after in pairwise([0, *run.answered])]
    assert all(0 <= came - said <= JOINTS_TOKENS * many for (said, came), many in zip(run.said, rounds, strict=True))
    assert sum(came for _, came in run.said) == sum(ours.tokens)
    assert all(cached <= before for cached, before in zip(ours.cached[1:], ours.tokens, strict=False))
    assert sum(ours.tokens) < 0.5 * sum(everything.tokens), "turns have left"
    assert run.values > run.kept_cut
    assert run.kept >= run.kept_cut


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("high", [8000, 2000])
def test_auto_with_its_head_never_costs_more_than_1_02_of_sending_everything(model: str, high: int) -> None:
    """Seen red at 1.72 and 1.36: the head that came with a change was in no account, and broke the whole prefix."""
    run, sheet = ran(model, tasks=9, high=high)
    assert max(run.ratios(sheet)) <= CEILING
    assert run.ratios(sheet)[0] == 1.0
