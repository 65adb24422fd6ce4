"""Recall as `Memories.recall` promises it, reindex, and the sweep of what is over. Both engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import offprompt
from offprompt import BackendError, UsageError
from offprompt.config import Settings
from offprompt.protocols import EmbedKind
from offprompt.service.maintenance import Swept, sweep
from offprompt.service.memories import Memories
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.offprompt import Offprompt
from offprompt.service.slot_writer import Kit
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from tests.service.parts import parts_of

DAY = 86400.0


class Letters:
    """An embedder of letters: texts of the same letters lie close. It fails while `fails`, or after `good` texts."""

    dimension, piece_chars, unrelated = 64, 1000, 0.2

    def __init__(self, name: str = "letters") -> None:
        self.name, self.good = name, 10_000

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        assert kind in ("query", "passage")
        self.good -= len(texts)
        if self.good < 0:
            raise BackendError("the model is gone")
        rows = np.full((len(texts), self.dimension), 0.01, np.float32)
        for at, text in enumerate(texts):
            for char in text.casefold():
                rows[at, ord(char) % self.dimension] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def opened(store: InProcessStore, clock: MovedClock, embedder: Letters | None) -> Offprompt:
    """A memory over a store and an embedder of a test's own."""
    parts = parts_of(store, clock)
    kit = Kit(store, clock, parts.tokenizer, Settings())
    access = MemoryAccess(store, kit, embedder_for=lambda: embedder, redactors=lambda: ())
    return Offprompt(replace(parts, memories=access))


@pytest.fixture(params=["memory", "sqlite"])
def mem(request: pytest.FixtureRequest, tmp_path: Path, clock: MovedClock) -> Iterator[Offprompt]:
    url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with offprompt.open(url, clock=clock, embedder="none") as opened:
        yield opened


@pytest.fixture
def memories(mem: Offprompt) -> Memories:
    return mem.scope(user="alice").memories


def hits(memories: Memories, query: Any, **options: Any) -> list[str]:
    return [hit.text for hit in memories.recall(query, **options)]


def fill(memories: Memories, *texts: str, **options: Any) -> list[str]:
    return [memories.remember(text, derive="none", **options)[0].name for text in texts]


def test_a_conversation_asks_by_its_newest_user_text(memories: Memories) -> None:
    fill(memories, "the red bicycle is in the cellar", "the blue boat is in the harbour")
    talk = [
        {"role": "user", "content": "where did I leave the blue boat of my uncle"},
        {"role": "assistant", "content": "?"},
    ]
    assert hits(memories, [*talk, {"role": "user", "content": "the red bicycle in the cellar, is it locked?"}])[0] == (
        "the red bicycle is in the cellar"
    )
    assert hits(memories, [*talk, {"role": "user", "content": "well?"}])[0] == "the blue boat is in the harbour"


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": ""},
        {"query": None},
        {"query": []},
        {"query": [{"role": "assistant", "content": "hi"}]},
        {"query": "x", "top_k": 0},
        {"query": "x", "top_k": 1001},
        {"query": "x", "top_k": True},
        {"query": "x", "floor": -0.1},
        {"query": "x", "within": "all"},
        {"query": "x", "kinds": "fact"},
        {"query": "x", "kinds": 5},
        {"query": "x", "since": "soon"},
        {"query": "x", "filters": {"a": {"near": 1}}},
    ],
)
def test_what_cannot_be_asked_is_an_error(memories: Memories, wrong: Any) -> None:
    with pytest.raises(UsageError):
        memories.recall(**wrong)


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("我对花生过敏", "有什么不能吃的"),
        ("我对花生过敏", "他不能吃什么？"),
        ("I'm allergic to peanuts", "what can't she eat?"),
        ("I'm allergic to peanuts", "any food restrictions?"),
    ],
)
def test_what_may_not_be_eaten_is_found_without_a_common_word(memories: Memories, said: str, question: str) -> None:
    memories.remember([said, "the lamp is green", "台灯是绿色的"])
    assert hits(memories, question)[:1] == [said]


def test_settings_say_how_many_and_from_which_evidence(clock: MovedClock) -> None:
    with offprompt.open(":memory:", clock=clock, embedder="none", recall_top=2, recall_floor=0.0) as mem:
        memories = mem.scope(user="a").memories
        fill(memories, *(f"note {number} of the boat" for number in range(4)))
        assert len(memories.recall("boat")) == 2
        assert len(memories.recall("boat", top_k=3)) == 3
        assert memories.recall("boat", floor=1.0).below > 0


def test_as_of_is_what_was_known_then(memories: Memories, clock: MovedClock) -> None:
    start = clock.now()
    (name,) = fill(memories, "the door is red")
    clock.move(DAY)
    fill(memories, "the door is blue")
    memories.forget(name)
    assert hits(memories, "door", as_of=start + 1) == []
    memories.undo(name)
    assert hits(memories, "door", as_of=start + 1) == ["the door is red"]
    assert hits(memories, "door", as_of=start - 1) == []
    assert sorted(hits(memories, "door", as_of=start + 10 * DAY)) == ["the door is blue", "the door is red"]


def test_a_superseded_statement_is_found_as_of_its_time(memories: Memories, clock: MovedClock) -> None:
    start = clock.now()
    memories.remember("I live in Porto")
    clock.move(DAY)
    memories.remember("I live in Lisbon")
    assert hits(memories, "where do I live?", top_k=1) == ["I live in Lisbon"]
    assert hits(memories, "where do I live?", top_k=1, as_of=start + 1) == ["I live in Porto"]


@pytest.mark.parametrize("order", ["Rome Porto Lisbon", "Rome Lisbon Porto", "Lisbon Rome Porto"])
def test_as_of_is_told_by_when_it_was_stored_not_by_when_it_happened(
    memories: Memories, clock: MovedClock, order: str
) -> None:
    happened = {"Rome": "2001-01-01", "Porto": "2002-01-01", "Lisbon": "2003-01-01"}
    known: list[str] = []
    for city in order.split():
        memories.remember(f"I live in {city}", event_at=happened[city])
        known.append(max([*known, city], key=lambda each: happened[each]))
        clock.move(DAY)
    for at, city in enumerate(known):
        then = clock.now() - (len(known) - at) * DAY + 1
        assert hits(memories, "where do I live?", as_of=then) == [f"I live in {city}"]


def test_filters_decide_before_anything_is_ranked(memories: Memories, clock: MovedClock) -> None:
    fill(memories, *(f"the red door {n}" for n in range(100)), expires_at=clock.now() + 5)
    fill(memories, *(f"the red door of house {n} in the long street" for n in range(10)), metadata={"topic": "kept"})
    fill(memories, *(f"the red door, {n}" for n in range(200, 300)), metadata={"topic": "other"})
    clock.move(10)
    found = hits(memories, "the red door", top_k=50, filters={"topic": "kept"})
    assert sorted(found) == sorted(f"the red door of house {n} in the long street" for n in range(10))


def test_age_reorders_and_never_hides_an_exact_match(memories: Memories, clock: MovedClock) -> None:
    fill(memories, "the spare key lies under the blue pot", importance=0.0)
    clock.move(3000 * DAY)
    fill(memories, *(f"the key of house {n} lies here" for n in range(50)), importance=1.0, pinned=True)
    assert "the spare key lies under the blue pot" in hits(memories, "the spare key lies under the blue pot", top_k=1)


def test_an_empty_answer_says_why(memories: Memories) -> None:
    assert memories.recall("boat").why == "there is nothing to be found"
    fill(memories, "the red bicycle")
    found = memories.recall("boat")
    assert (found.why, found.searched, len(found), bool(found)) == ("nothing lies above the floor", 1, 0, False)
    assert memories.recall("bicycle").why == ""


def test_without_an_embedder_the_answer_says_so_and_asks_for_no_reindex(memories: Memories) -> None:
    fill(memories, "the red bicycle")
    assert memories.recall("bicycle").degraded == "searched by words alone: the setting embedder is none"


def test_uses_are_counted_once_for_each_recall(mem: Offprompt, memories: Memories, clock: MovedClock) -> None:
    (name,) = fill(memories, "the red bicycle")
    memories.recall("bicycle")
    clock.move(5)
    memories.recall("bicycle")
    mem.parts.memories.flush()
    memory = memories.get(name)
    assert memory is not None
    assert (memory.uses, memory.used_at) == (2, clock.now())


def test_another_scope_changes_no_score(mem: Offprompt, memories: Memories) -> None:
    fill(memories, "the red bicycle", "the boat")
    before = memories.recall("bicycle", explain=True)[0].parts["keyword"]
    fill(mem.scope(user="bob").memories, *(f"bicycle number {number}" for number in range(20)))
    assert memories.recall("bicycle", explain=True)[0].parts["keyword"] == before


def test_a_failing_embedder_leaves_the_text_pending_and_found_by_its_words(clock: MovedClock) -> None:
    embedder = Letters()
    memories = opened(InProcessStore(clock), clock, embedder).scope(user="a").memories
    embedder.good = 0
    (done,) = memories.remember("the red bicycle", derive="none")
    assert done.outcome == "pending"
    found = memories.recall("bicycle")
    assert ([hit.text for hit in found], "the model is gone" in found.degraded) == (["the red bicycle"], True)
    embedder.good = 100
    assert "1 memories have no vector" in memories.recall("bicycle").degraded
    assert (memories.reindex().done, memories.recall("bicycle").degraded) == (1, "")


def test_a_reindex_that_is_broken_off_goes_on_where_it_was(clock: MovedClock) -> None:
    store = InProcessStore(clock)
    fill(opened(store, clock, Letters("old")).scope(user="a").memories, *(f"note {number}" for number in range(600)))
    embedder = Letters("new")
    memories = opened(store, clock, embedder).scope(user="a").memories
    embedder.good = 256
    with pytest.raises(BackendError, match="after 256 memories"):
        memories.reindex()
    embedder.good = 10_000
    told: list[int] = []
    assert (memories.reindex(progress=told.append).done, told) == (344, [256, 344])
    assert embedder.good == 10_000 - 344
    assert memories.reindex().done == 0


def test_a_sweep_takes_what_is_over_and_idle_users_only_when_asked(mem: Offprompt, clock: MovedClock) -> None:
    alice, bob = mem.scope(user="alice"), mem.scope(user="bob")
    fill(alice.memories, "the red bicycle")
    fill(alice.memories, "a pinned note", pinned=True)
    fill(alice.memories, "brief", expires_at=clock.now() + 1)
    alice.memories.forget(*fill(alice.memories, "hidden"))
    alice.write("city", "上海")
    clock.move(8 * DAY)
    fill(bob.memories, "the blue boat")
    parts = mem.parts
    stores = (parts.slots, parts.memories.store, parts.sessions, parts.clock)
    assert sweep(*stores, app="other") == Swept(0, 0, 0)
    assert sweep(*stores) == Swept(0, 2, 0)
    assert sweep(*stores, user_idle_days=8) == Swept(0, 0, 0)
    clock.move(1)
    assert sweep(*stores, user_idle_days=8) == Swept(0, 1, 0)
    assert [one.text for one in alice.memories.list()] == ["a pinned note"]
    assert (len(bob.memories.list()), alice.read("city")) == (1, "上海")


def test_metadata_that_change_leave_the_vector(clock: MovedClock) -> None:
    memories = opened(InProcessStore(clock), clock, Letters()).scope(user="a").memories
    (name,) = fill(memories, "the red bicycle")
    before = memories.recall("bicycle", explain=True)
    memories.update(name, metadata={"note": "新"})
    after = memories.recall("bicycle", explain=True)
    assert ([hit.parts for hit in after], after.degraded) == ([hit.parts for hit in before], "")
    assert memories.reindex().done == 0


def test_a_vector_that_came_with_a_use_is_taken_in(clock: MovedClock) -> None:
    embedder = Letters()
    mem = opened(InProcessStore(clock), clock, embedder)
    memories = mem.scope(user="a").memories
    embedder.good = 0
    fill(memories, "the red bicycle")
    embedder.good = 100
    assert memories.recall("bicycle").degraded != ""
    mem.parts.memories.flush()
    memories.reindex()
    found = memories.recall("bicycle")
    assert (found.degraded, found[0].memory.uses) == ("", 1)


@pytest.mark.parametrize("question", ["What's my name?", "who am I?", "我叫什么？", "我的名字是什么？"])
def test_who_one_is_is_not_what_another_is_called(mem: Offprompt, question: str) -> None:
    alice = mem.scope(user="alice")
    alice.remember([{"role": "user", "content": "My daughter is named Ann."}])
    alice.remember([{"role": "user", "content": "We have a dog named Bello."}])
    alice.remember([{"role": "user", "content": "我女儿叫安安。"}])
    assert alice.recall(question, floor=0.0).hits == ()
    alice.remember("My name is Lin")
    assert alice.recall(question)[0].text == "My name is Lin"


def test_what_only_names_somebody_does_not_stand_before_the_answer(mem: Offprompt) -> None:
    alice = mem.scope(user="alice")
    alice.remember([{"role": "user", "content": "My daughter is named Ann."}])
    alice.remember("My daughter Ann is five years old.", derive="none")
    assert alice.recall("How old is my daughter Ann?")[0].text == "My daughter Ann is five years old."


def test_weights_can_be_set_and_wrong_ones_are_errors(mem: Offprompt) -> None:
    alice = mem.scope(user="alice")
    alice.remember("The kettle stands in the kitchen.", derive="none")
    alice.remember("The kettle is red.", derive="none", pinned=True)
    plain = alice.recall("the kettle in the kitchen", explain=True)
    assert plain[0].text == "The kettle stands in the kitchen."
    moved = alice.recall("the kettle in the kitchen", weights={"pinned": 5.0}, explain=True)
    assert (moved[0].text, moved[0].parts["pinned"]) == ("The kettle is red.", 5.0)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"luck": 1.0}, "'luck' is no part of a score; the parts are keyword, vector"),
        ({"pinned": "much"}, "pinned='much'; give a number"),
        ({"pinned": float("nan")}, "give a number"),
        ({"half_life_s": 0}, "above 0"),
    ]
    for weights, says in wrong:
        with pytest.raises(UsageError, match=says):
            alice.recall("the kettle", weights=weights)
