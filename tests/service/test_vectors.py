"""Recall over an index outside of the store: what it finds, what waits for it, and how both are held in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from offprompt.config import Settings
from offprompt.errors import BackendError
from offprompt.protocols import Embedder, MemoryStore, VectorIndex, apply
from offprompt.records import QueueVectors, Recalled, Scope, Sought, VectorEntry, WaitingVectors
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.offprompt import Offprompt
from offprompt.service.reindexing import reindex
from offprompt.service.slot_writer import Kit
from offprompt.service.vector_check import check_vectors, compare
from offprompt.service.vector_link import REST_S, VectorLink
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from offprompt.testing.exact_vectors import ExactVectors
from offprompt.testing.exact_words import ExactWords
from tests.service.parts import parts_of
from tests.service.test_memories_recall import Letters, hits

SAID = (
    "My sister Ann lives in Porto.",
    "我喜欢绿茶，不喜欢咖啡。",
    "The boat was painted red last week.",
    "I work at a bakery in Lisbon.",
    "我的狗叫旺财，今年三岁。",
    "We met at the harbour in May 2023.",
    "The red bicycle stands in the cellar.",
)
ASKED = (
    "where does my sister live",
    "红色的自行车",
    "what do I drink",
    "boat",
    "我的狗叫什么",
    "May 2023",
    "where do I work",
)


class Faulty(ExactVectors):
    """An index that can be switched off; it counts what it is asked."""

    def __init__(self, embedder: str, dimension: int) -> None:
        super().__init__(embedder, dimension)
        self.is_off, self.calls, self.entries = False, 0, list[VectorEntry]()

    def nearest(self, vector: NDArray[np.floating], sought: Sought, *, limit: int) -> list[tuple[str, float]]:
        self._answer()
        return super().nearest(vector, sought, limit=limit)

    def upsert(self, entries: Sequence[VectorEntry]) -> None:
        self._answer()
        self.entries = list(entries)
        super().upsert(entries)

    def delete(self, places: Sequence[tuple[str, str]]) -> None:
        self._answer()
        super().delete(places)

    def _answer(self) -> None:
        self.calls += 1
        if self.is_off:
            raise BackendError("the index is away; start it")


class Memory:
    """An opened memory over an index outside, and one that holds its vectors itself, told the same."""

    def __init__(self, clock: MovedClock, *, words: bool = False, exact_scope: int = 20_000) -> None:
        self.clock, self.embedder = clock, Letters()
        self.index = Faulty("letters", self.embedder.dimension)
        self.engine = InProcessStore(clock, vector_queue=True)
        store: MemoryStore = ExactWords(self.engine) if words else self.engine
        self.access = self._access(store, Settings(exact_scope=exact_scope), self.index)
        plain = parts_of(InProcessStore(clock), clock)
        self.memories = Offprompt(replace(plain, memories=self.access)).scope(user="a").memories
        own = self._access(plain.memories.store, Settings(), None)
        self.exact = Offprompt(replace(plain, memories=own)).scope(user="a").memories

    def _access(self, store: MemoryStore, settings: Settings, index: VectorIndex | None) -> MemoryAccess:
        parts = parts_of(InProcessStore(self.clock), self.clock)
        kit = Kit(parts.slots, self.clock, parts.tokenizer, settings)

        def vectors_for(_: Embedder) -> VectorIndex:
            assert index is not None
            return index

        return MemoryAccess(
            store,
            kit,
            embedder_for=lambda: self.embedder,
            redactors=lambda: (),
            vectors_for=None if index is None else vectors_for,
        )

    def say(self, *texts: str) -> None:
        for text in texts:
            for each in (self.memories, self.exact):
                each.remember({"role": "user", "content": text}, derive="rules")
            self.clock.move(60)

    @property
    def link(self) -> VectorLink:
        link = self.access.kit.vectors
        assert link is not None
        return link

    def waiting(self) -> int:
        return len(apply(self.engine, WaitingVectors()))


def check(found: Recalled, right: Recalled) -> None:
    """The same hits with the same scores, up to the rounding of stored vectors, which may turn two that are close."""
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in right], abs=2e-3)
    least = right[len(right) - 1].score + 4e-3 if len(right) else 1.0
    assert {hit.text for hit in found} >= {hit.text for hit in right if hit.score > least}
    assert (found.searched, found.below) == (right.searched, right.below)


@pytest.fixture
def both(clock: MovedClock) -> Memory:
    memory = Memory(clock)
    memory.say(*SAID)
    return memory


@pytest.mark.parametrize("question", ASKED)
def test_an_index_outside_gives_the_same_hits_with_the_same_scores(both: Memory, question: str) -> None:
    every: tuple[dict[str, Any], ...] = (
        {},
        {"floor": 0.0, "top_k": 50},
        {"kinds": ("episode",)},
        {"since": both.clock.now() - 200},
    )
    for options in every:
        found, right = (each.recall(question, **options) for each in (both.memories, both.exact))
        check(found, right)
        assert found.degraded == ""
    found = both.memories.recall(question, filters={"text": {"contains": "a"}}, floor=0.0)
    right = both.exact.recall(question, filters={"text": {"contains": "a"}}, floor=0.0)
    check(found, right)


def test_each_write_tells_the_index(both: Memory) -> None:
    assert (both.waiting(), both.index.count()) == (0, len(both.memories.list(limit=100)))
    one = both.memories.list(kinds=("episode",)).memories[0]
    both.memories.update(one.memory_id, text="Entirely other words")
    assert [entry.memory_id for entry in both.index.entries] == [one.memory_id]
    count = both.index.count()
    both.memories.forget(one.memory_id)
    assert both.index.count() < count
    both.memories.undo(one.memory_id)
    assert both.index.count() == count
    both.memories.erase()
    assert (both.index.count(), both.waiting()) == (0, 0)


def test_recalls_and_their_counting_tell_it_nothing(both: Memory) -> None:
    calls = both.index.calls
    both.memories.recall("boat")
    both.access.flush()
    assert (both.index.calls, both.waiting()) == (calls + 1, 0)


def test_while_the_index_is_away_writes_go_on_and_words_find(both: Memory) -> None:
    both.index.is_off = True
    both.say("The kite flew over the lighthouse.")
    assert both.waiting() > 0
    found = both.memories.recall("kite at the lighthouse")
    calls = both.index.calls
    assert hits(both.memories, "kite at the lighthouse")[0] == "The kite flew over the lighthouse."
    assert found.degraded == "searched by words alone: the index is away; start it"
    assert both.index.calls == calls, "an index that failed is left alone for a while"
    both.index.is_off = False
    both.clock.move(REST_S)
    found = both.memories.recall("kite at the lighthouse")
    assert found[0].text == "The kite flew over the lighthouse."
    assert "memories changed, and the vector index does not have it yet" in found.degraded
    both.say("Nothing more.")
    assert both.waiting() == 0
    assert both.memories.recall("kite at the lighthouse").degraded == ""


def test_the_vector_of_a_text_that_changed_meanwhile_does_not_count(both: Memory) -> None:
    one = next(memory for memory in both.memories.list(kinds=("episode",)) if "bicycle" in memory.text)
    both.index.is_off = True
    both.memories.update(one.memory_id, text="zzz")
    both.index.is_off = False
    both.clock.move(REST_S)
    found = both.memories.recall("The red bicycle stands in the cellar.", floor=0.0, top_k=100, explain=True)
    assert all("vector" not in hit.parts for hit in found if hit.memory_id == one.memory_id)


def test_an_index_that_lacks_memories_is_said(both: Memory) -> None:
    count = both.index.count()
    both.index.drop()
    found = both.memories.recall("boat")
    assert (
        found.degraded
        == f"{count} memories that are not in the vector index are found by words alone; offprompt reindex"
    )
    assert both.memories.recall("boat", kinds=("episode",)).degraded == ""
    reindex(both.access.kit)
    assert both.memories.recall("boat").degraded == ""


def test_a_write_tells_the_index_of_its_own_app_only(both: Memory) -> None:
    apply(both.engine, QueueVectors("other", ("m_x",)))
    both.say("Once more.")
    assert apply(both.engine, WaitingVectors()) == ("m_x",)


def test_what_was_known_at_a_time_needs_no_index(both: Memory) -> None:
    at = both.clock.now() - 100
    both.index.is_off = True
    found, right = (each.recall("boat", as_of=at, floor=0.0) for each in (both.memories, both.exact))
    check(found, right)


def test_both_are_compared_and_mended(both: Memory) -> None:
    kit = both.access.kit
    assert [finding.state for finding in check_vectors(both.link, kit.memories)] == ["ok"]
    entries = [*both.index._entries.values()]  # pyright: ignore[reportPrivateUsage]
    both.index.delete([entries[0].place])
    both.index.upsert(
        [
            replace(entries[1], stamp="of another text"),
            replace(entries[2], memory_id="m_gone", stamp="x"),
            replace(entries[3], scope=Scope("elsewhere", user="a")),
        ]
    )
    found = compare(both.link, kit.memories)
    assert (found.entries, found.missing, found.other, found.extra, found.mended) == (len(entries), 1, 1, 2, 0)
    (finding,) = check_vectors(both.link, kit.memories)
    assert (finding.state, finding.way_out) == ("fail", "offprompt doctor --fix")
    assert compare(both.link, kit.memories, fix=True).mended == 4
    found = compare(both.link, kit.memories)
    assert (found.missing, found.other, found.extra, both.waiting()) == (0, 0, 0, 0)
    assert both.index.count() == len(entries)


def test_what_waits_is_no_difference(both: Memory) -> None:
    both.index.is_off = True
    both.say("Something new.")
    both.index.is_off = False
    both.clock.move(REST_S)
    (finding,) = check_vectors(both.link, both.engine)
    assert (finding.state, "wait for the vector index" in finding.what) == ("warn", True)
    (finding,) = check_vectors(both.link, both.engine, fix=True)
    assert (finding.state, both.waiting()) == ("ok", 0)


def test_an_index_that_is_away_is_said(both: Memory) -> None:
    both.index.is_off = True
    apply(both.engine, QueueVectors("default", ("m_x",)))
    (finding,) = check_vectors(both.link, both.engine, fix=True)
    assert (finding.state, finding.what) == ("fail", "the index is away; start it")
    with pytest.raises(BackendError, match="the index is away"):
        reindex(both.access.kit)


def test_a_reindex_fills_an_index_that_is_new(both: Memory) -> None:
    count = both.index.count()
    both.index.drop()
    assert reindex(both.access.kit, Scope(user="nobody")).mended == 0
    done = reindex(both.access.kit)
    assert (done.done, done.mended, both.index.count()) == (0, count, count)


def test_another_embedder_takes_over_its_own_index(both: Memory) -> None:
    both.embedder.name = "newer"
    done = reindex(both.access.kit)
    assert (done.done, done.embedder) == (both.index.count(), "newer")
    assert both.memories.recall("boat").degraded == ""
