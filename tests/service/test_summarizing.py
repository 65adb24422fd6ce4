"""Long values get summaries beside them, which go and come back with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.records import Completion
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.summarizing import Summarized, summarize
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.clock import MovedClock
from tests.service.talk import MODELS, Talk, call

REPORT = (
    "Harbour report of 12 May. The crane at pier 7 was out of order for three days, so that the ferries to Bergen left "
    "late. The crew asked for a second mechanic. Two bolts of the boom had rust; they were replaced. "
    "Costs: 4,300 for parts and 1,200 for work. The next inspection is on 30 June. "
) * 2
SUMMARY = "Harbour report: crane at pier 7 out of order, ferries to Bergen late, next inspection 30 June."
CHINESE = "港口报告：七号码头的起重机停用三天，渡轮晚点。吊臂两颗螺栓生锈，已更换。下次检查在六月三十日。" * 3


class Cutting(StandInModel):
    """Every answer ends at its limit."""

    def complete(self, *given: Any, **options: Any) -> Completion:
        return replace(super().complete(*given, **options), finish="length")


class Says:
    """Answers with a text, or what a test sets."""

    def __init__(self) -> None:
        self.text = SUMMARY
        self.given: list[str] = []
        self.meanwhile: Any = None

    def __call__(self, **payload: Any) -> dict[str, Any]:
        self.given.append(payload["messages"][-1]["content"])
        if self.meanwhile is not None:
            self.meanwhile()
        message = {"role": "assistant", "content": self.text}
        usage = {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


@pytest.fixture
def says() -> Says:
    return Says()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(params=["memory", "sqlite"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, says: Says, clock: MovedClock) -> Iterator[Offprompt]:
    url = ":memory:" if request.param == "memory" else tmp_path / "agent.db"
    models = {"summarize": StandInModel(says, context_tokens=8192)}
    with offprompt.open(url, clock=clock, models=models, embedder="none", summary_tokens=80) as opened:
        yield opened


@pytest.fixture
def ann(mem: Offprompt) -> BoundScope:
    return mem.scope(user="ann")


def run(mem: Offprompt, **options: Any) -> list[Summarized]:
    scope = options.pop("scope", mem.scope(user="ann").scope)
    return list(summarize(mem.parts.memories.kit, scope, **options))


def names(scope: BoundScope) -> list[str]:
    return [slot.name for slot in scope.slots.list()]


def test_a_long_value_gets_one_and_a_short_one_none(mem: Offprompt, ann: BoundScope, says: Says) -> None:
    ann.write("report", REPORT)
    ann.write("city", "Bergen")
    assert [(one.name, one.outcome) for one in run(mem)] == [("report", "made")]
    slot = ann.slots.get("report.summary")
    assert slot is not None
    assert (slot.value, slot.policy, slot.source, slot.actor) == (SUMMARY, "by_handle", "model", "summarize")
    assert slot.tags == ("summary", "summarize-1.en", "of v1")
    assert run(mem) == []
    assert len(says.given) == 1
    (place,) = [one.scope for one in mem.parts.sessions.sessions()]
    assert list(mem.parts.sessions.ledger(place)[0].parts) == ["summarize"]


def test_what_is_rarely_used_gets_one_sooner(mem: Offprompt, ann: BoundScope, clock: MovedClock) -> None:
    ann.write("report", REPORT[: len(REPORT) // 4])
    assert run(mem) == []
    clock.move(30 * 86400 - 1)
    assert run(mem) == []
    clock.move(1)
    ann.read("report")
    assert run(mem) == []
    clock.move(30 * 86400)
    assert [one.name for one in run(mem)] == ["report"]


def test_in_chinese(mem: Offprompt, ann: BoundScope, says: Says) -> None:
    ann.write("报告", CHINESE)
    says.text = "港口报告：起重机停用三天，渡轮晚点，下次检查六月三十日。"
    assert [one.outcome for one in run(mem)] == ["made"]
    assert ann.read("报告.summary") == says.text


def test_the_model_reads_it_by_part(mem: Offprompt, ann: BoundScope) -> None:
    ann.write("report", REPORT)
    run(mem)
    talk = Talk(ann.session("s1", model=MODELS["openai"], wire="openai"), "openai")
    talk.turn("What about the report?", call("mem_read", slot="report", part="summary"), "It is about a crane.")
    assert SUMMARY in str(talk.session.journal())
    assert REPORT.strip() not in str(talk.session.journal())


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Harbour report: the crane at pier 9 fell into the water.", "invented"),
        ("Report by Captain Haddock about the harbour crane.", "invented"),
        ("港口报告：起重机停用。", "language"),
        (REPORT + "And so on.", "empty"),
        ("", "empty"),
    ],
)
def test_what_is_no_summary_of_it_is_not_kept(
    mem: Offprompt, ann: BoundScope, says: Says, text: str, outcome: str
) -> None:
    ann.write("report", REPORT)
    says.text = text
    assert [one.outcome for one in run(mem)] == [outcome]
    assert names(ann) == ["report"]


def test_one_that_was_cut_is_not_kept(says: Says) -> None:
    models = {"summarize": Cutting(says)}
    with offprompt.open(":memory:", models=models, embedder="none", summary_tokens=80) as mem:
        ann = mem.scope(user="ann")
        ann.write("report", REPORT)
        assert [one.outcome for one in run(mem)] == ["cut"]
        assert names(ann) == ["report"]


def test_it_goes_and_comes_back_with_its_value(mem: Offprompt, ann: BoundScope) -> None:
    ann.write("report", REPORT)
    run(mem)
    ann.forget("report")
    assert names(ann) == []
    ann.slots.undo("report")
    assert names(ann) == ["report", "report.summary"]
    ann.slots.erase("report")
    assert names(ann) == []
    assert ann.slots.list(forgotten=True) == []
    ann.write("report", REPORT)
    run(mem)
    ann.forget("report")
    ann.slots.erase("report")
    assert ann.slots.list(forgotten=True) == []


def test_a_new_value_has_no_old_summary(mem: Offprompt, ann: BoundScope) -> None:
    ann.write("report", REPORT)
    run(mem)
    ann.write("report", REPORT, policy="never")
    assert names(ann) == ["report"]
    assert run(mem) == []


def test_a_value_that_changes_meanwhile_has_none(mem: Offprompt, ann: BoundScope, says: Says) -> None:
    ann.write("report", REPORT)
    says.meanwhile = lambda: ann.write("report", REPORT + "Changed.")
    assert [one.outcome for one in run(mem)] == ["changed"]
    assert names(ann) == ["report"]


def test_secrets_stay_out_and_what_passes_away_gets_none(mem: Offprompt, ann: BoundScope, says: Says) -> None:
    ann.write("code", "blue-fjord-7731-xyz-99", policy="never")
    ann.write("report", REPORT + " The code is blue-fjord-7731-xyz-99.")
    ann.write("passing", REPORT, ttl_s=60)
    ann.write("vault", REPORT, policy="never")
    assert [one.name for one in run(mem)] == ["report"]
    assert "fjord" not in says.given[0]


def test_without_the_setting_nothing_is_looked_at(ann: BoundScope) -> None:
    ann.write("report", REPORT)
    with offprompt.open(":memory:", embedder="none") as plain:
        plain.scope(user="ann").write("report", REPORT)
        assert run(plain) == []


def test_a_slot_of_the_applications_own_is_never_taken(mem: Offprompt, ann: BoundScope) -> None:
    ann.write("report", REPORT)
    ann.write("report.summary", "mine")
    assert run(mem) == []
    ann.forget("report")
    assert names(ann) == ["report.summary"]
