"""What supersedes what, and what the profile says then, in any order of arrival. Both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.service.bound import BoundScope
from offprompt.service.memories import Memories
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock


@pytest.fixture(params=["memory", "sqlite"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    """An opened memory that finds by words: fast, and the same on every machine."""
    url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with offprompt.open(url, clock=clock, embedder="none") as opened:
        yield opened


@pytest.fixture
def alice(mem: Offprompt) -> BoundScope:
    return mem.scope(user="alice")


@pytest.fixture
def memories(alice: BoundScope) -> Memories:
    return alice.memories


def texts(memories: Memories, **options: Any) -> list[str]:
    return [one.text for one in memories.list(**options)]


def test_an_older_statement_goes_and_the_newer_one_stays(alice: BoundScope) -> None:
    old = alice.remember("I live in Porto", event_at="2025-01-01")[0].name
    alice.remember("I live in Faro", event_at="2026-01-01")
    alice.memories.erase(old)
    assert alice.read("home") == "Faro"
    assert [one.value for one in alice.slots.history("home")] == ["Faro"]


def test_of_two_statements_in_one_call_the_later_one_holds(alice: BoundScope) -> None:
    for first, second in (("Rome", "Paris"), ("Oslo", "Lima"), ("Lima", "Oslo"), ("Paris", "Rome")):
        scope = alice.narrow(agent=f"{first}-{second}")
        scope.remember([f"I live in {first}", f"I live in {second}"])
        assert (texts(scope.memories), scope.read("home")) == ([f"I live in {second}"], second)


@pytest.mark.parametrize(
    ("before", "said", "now", "slot", "value"),
    [
        (
            "I live in Porto",
            "I live in Faro now. I no longer live in Porto.",
            "The user lives in Faro.",
            "home",
            "Faro",
        ),
        ("I live in Porto", "I no longer live in Porto.", "The user no longer lives in Porto.", "home", None),
        ("I live in Porto", "I no longer live in Rome.", "I live in Porto", "home", "Porto"),
        ("I live in Porto", "I live in Rome. I moved to Faro.", "The user moved to Faro.", "home", "Faro"),
        (
            "I work at Acme",
            "I no longer work at Acme. I work at Globex now.",
            "The user works at Globex.",
            "employer",
            "Globex",
        ),
        ("我住在上海", "我不再住在上海了，我搬到了成都。", "用户搬到了成都。", "home", "成都"),
        ("我住在上海", "我不再住在北京了。", "我住在上海", "home", "上海"),
    ],
)
def test_what_ends_touches_only_what_it_names(
    alice: BoundScope, clock: MovedClock, before: str, said: str, now: str, slot: str, value: str | None
) -> None:
    for number in range(6):
        # Statements of one turn have one time: which of them holds must not be chance.
        scope = alice.narrow(agent=f"a{number}")
        scope.remember(before)
        clock.move(number + 1)
        scope.remember({"role": "user", "content": said})
        assert texts(scope.memories, kinds=["fact"], within="exact") == [now]
        assert scope.slots.snapshot().get(slot) == value


PROFILE = [
    ("I live in Porto", 1),
    ("I live in Faro", 2),
    ("I no longer live in Porto", 3),
    ("我对花生过敏", 1),
    ("I am allergic to shrimp", 2),
    ("I am no longer allergic to shrimp", 3),
    ("My name is Linnea", 1),
    ("Call me Lin from now on", 2),
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(PROFILE))
def test_the_profile_does_not_depend_on_the_order_of_arrival(
    mem: Offprompt, clock: MovedClock, said: list[tuple[str, int]]
) -> None:
    scope = mem.scope(user=f"u{clock.now()}")
    for text, year in said:
        clock.move(1)
        scope.remember(text, event_at=f"{2020 + year}-01-01")
    assert scope.slots.snapshot() == {"home": "Faro", "allergies": "花生", "user_name": "Lin"}
    assert sorted(texts(scope.memories, kinds=["fact"], within="exact", filters={"attribute": "home"})) == [
        "I live in Faro"
    ]


def test_each_outcome_is_told_with_its_reason(memories: Memories) -> None:
    rome = memories.remember("I live in Rome", event_at="2024-01-01")[0]
    again = memories.remember("i live in Rome!", event_at="2024-01-01")[0]
    oslo = memories.remember("I live in Oslo", event_at="2026-01-01")[0]
    late = memories.remember("I live in Lima", event_at="2025-01-01")[0]
    system = memories.remember({"role": "system", "content": "x"})[0]
    assert [one.outcome for one in (rome, again, oslo, late, system)] == [
        "added",
        "merged",
        "added",
        "superseded",
        "refused",
    ]
    assert (again.name, again.why) == (rome.name, f"{rome.name} says the same")
    assert (oslo.replaced, late.why) == ((rome.name,), f"{oslo.name} is newer")
    assert "role 'system'" in system.why
