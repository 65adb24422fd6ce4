"""Recall of scopes that are too large to be loaded: by their best candidates, as if they were searched whole."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.protocols import apply
from offprompt.records import JoinUsers, Scope
from offprompt.service.vector_link import REST_S
from offprompt.testing import MovedClock
from tests.service.test_vectors import ASKED, SAID, Memory, check


@pytest.mark.parametrize("question", ASKED)
def test_a_very_large_scope_is_searched_by_its_best_candidates(clock: MovedClock, question: str) -> None:
    memory = Memory(clock, words=True, exact_scope=5)
    memory.say(*SAID)
    found, right = (each.recall(question) for each in (memory.memories, memory.exact))
    check(found, right)
    assert found.degraded == ""
    assert not memory.access.kit.index.holds(Scope(user="a"), "inherit"), "nothing was loaded whole"


def test_a_scope_that_grew_very_large_is_kept_no_longer(clock: MovedClock) -> None:
    memory = Memory(clock, words=True, exact_scope=9)
    memory.say(*SAID[:2])
    memory.memories.recall("boat")
    assert memory.access.kit.index.holds(Scope(user="a"), "inherit")
    memory.say(*SAID[2:])
    for _ in range(2):
        check(memory.memories.recall("boat"), memory.exact.recall("boat"))
    assert not memory.access.kit.index.holds(Scope(user="a"), "inherit")


def test_facts_about_something_are_asked_for_as_they_are_now(clock: MovedClock) -> None:
    memory = Memory(clock, words=True, exact_scope=5)
    memory.say(*SAID)
    for place in ("Porto", "Oslo", "Bergen"):
        memory.say(f"I live in {place}.")
        for _ in range(2):
            found, right = (each.recall("where do I live?", explain=True) for each in (memory.memories, memory.exact))
            assert [hit.parts.get("asked") for hit in found][:1] == [1.0]
            assert place in found[0].text
            check(found, right)
    memory.memories.erase()
    assert memory.memories.recall("where do I live?").hits == ()


def test_an_index_that_is_behind_shows_a_very_large_scope_nothing_of_others(clock: MovedClock) -> None:
    memory = Memory(clock, words=True, exact_scope=5)
    memory.say(*SAID)
    memory.index.is_off = True
    apply(memory.engine, JoinUsers("default", "a", "bob"))
    memory.say(*SAID)
    memory.index.is_off = False
    clock.move(REST_S)
    mine = {one.memory_id for one in memory.memories.list(limit=100)}
    for question in ASKED:
        found = memory.memories.recall(question, floor=0.0, top_k=100)
        assert {hit.memory_id for hit in found} <= mine


def test_what_the_index_was_not_told_is_found_by_meaning_in_a_very_large_scope(clock: MovedClock) -> None:
    memory = Memory(clock, words=True, exact_scope=5)
    memory.say(*SAID)
    memory.index.is_off = True
    memory.say("elbow thing")
    memory.index.is_off = False
    clock.move(REST_S)
    found = memory.memories.recall("below night", explain=True)  # the same letters, no word of it
    assert found[0].text == "elbow thing"
    assert found[0].parts.get("keyword", 0) == 0


def test_filters_are_exact_in_a_very_large_scope(clock: MovedClock) -> None:
    memory = Memory(clock, words=True, exact_scope=5)
    memory.say(*SAID)
    options: dict[str, Any] = {"filters": {"text": {"contains": "the"}}, "floor": 0.0}
    found, right = (each.recall("boat", **options) for each in (memory.memories, memory.exact))
    check(found, right)


def test_a_very_large_scope_is_searched_by_words_while_the_index_is_away(clock: MovedClock) -> None:
    memory = Memory(clock, words=True, exact_scope=5)
    memory.say(*SAID)
    memory.index.is_off = True
    found = memory.memories.recall("the red boat")
    assert found[0].text == "The boat was painted red last week."
    assert found.degraded == "searched by words alone: the index is away; start it"
