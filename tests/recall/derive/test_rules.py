"""Each rule on sentences that it was made for, and on those that only look like them, in both languages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offprompt.recall.derive import SLOTS, Derived, Turn, derive, rule_names
from offprompt.wire.asking import idea_of

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "derived" / "cases.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
SAID_AT = datetime(2023, 5, 10, 12, tzinfo=UTC).timestamp()  # a Wednesday


def derived(case: dict[str, Any]) -> list[Derived]:
    question = [Turn("t0", case["asked"], role="assistant", at=SAID_AT)] if "asked" in case else []
    return derive([*question, Turn("t1", case["said"], at=SAID_AT)], SAID_AT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['rule']}: {case['said']}")
def test_a_rule_does_what_its_case_says(case: dict[str, Any]) -> None:
    found = [one for one in derived(case) if one.rule == case["rule"]]
    if case["value"] is None:
        assert found == []
    else:
        assert [(one.value, one.text) for one in found] == [(case["value"], case["text"])]


def test_every_rule_has_cases_for_and_against_it() -> None:
    made_for = {case["rule"] for case in CASES if case["value"] is not None}
    against = {case["rule"] for case in CASES if case["value"] is None}
    assert sorted(made_for) == sorted(against) == sorted(rule_names())


def test_names_of_rules_are_unique() -> None:
    assert len(rule_names()) == len(set(rule_names()))


def test_slots_come_from_one_list_that_questions_know() -> None:
    slots = {one.slot for case in CASES for one in derived(case)} - {""}
    assert slots == set(SLOTS)
    standing = {"reply_style", "wishes"}
    assert [name for name in SLOTS if not idea_of(name) and name not in standing] == []


def test_what_is_derived_points_to_where_it_was_said() -> None:
    for case in CASES:
        texts = {"t0": case.get("asked", ""), "t1": case["said"]}
        for one in derived(case):
            for quote in one.quotes:
                assert 0 <= quote.start < quote.end <= len(texts[quote.turn_id]), case
