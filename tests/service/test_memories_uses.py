"""Uses of memories wait for a write; they are stored once, and until then change no answer. Both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import BackendError
from offprompt.protocols import apply
from offprompt.records import Memory, MemoryOp, Scope, ScopeRevisions, UseMemories
from offprompt.service import memory_uses
from offprompt.service.memories import Memories
from offprompt.service.memory_uses import Uses
from offprompt.service.offprompt import Offprompt
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from tests.service.parts import parts_of

TEXTS = ("the red bicycle", "红色的自行车 bicycle", "a bicycle for two")


@pytest.fixture
def memories(mem: Offprompt) -> Memories:
    memories = mem.scope(user="alice").memories
    for text in TEXTS:
        memories.remember(text, derive="none")
    return memories


def revision(mem: Offprompt) -> int:
    return apply(mem.parts.memories.store, ScopeRevisions((Scope(user="alice"),)))[0]


def uses(memories: Memories) -> list[int]:
    return [memory.uses for memory in memories.list()]


def test_recalls_store_nothing_and_answer_the_same(mem: Offprompt, memories: Memories) -> None:
    before, first = revision(mem), memories.recall("bicycle", explain=True)
    for _ in range(400):
        assert memories.recall("bicycle", explain=True) == first
    assert (revision(mem), uses(memories)) == (before, [0, 0, 0])
    mem.parts.memories.flush()
    assert (revision(mem), uses(memories)) == (before + 1, [401, 401, 401])
    assert [hit.parts.get("uses", 0) > 0 for hit in memories.recall("bicycle", explain=True)] == [True, True, True]


def test_the_next_write_stores_what_waits(mem: Offprompt, memories: Memories) -> None:
    memories.recall("bicycle", top_k=2)
    memories.remember("the blue boat", derive="none")
    assert sorted(uses(memories)) == [0, 0, 1, 1]
    before = revision(mem)
    mem.parts.memories.flush()
    assert revision(mem) == before


def test_closing_stores_what_waits(tmp_path: Path, clock: MovedClock) -> None:
    for expected in (0, 1):
        with offprompt.open(str(tmp_path / "uses.db"), clock=clock, embedder="none") as opened:
            own = opened.scope(user="alice").memories
            if not expected:
                own.remember(TEXTS[0], derive="none")
            assert uses(own) == [expected]
            own.recall("bicycle")


def test_what_waits_is_bounded(memories: Memories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_uses, "MAX_WAITING", 3)
    memories.recall("bicycle", top_k=2)
    memories.recall("bicycle", top_k=2)
    assert uses(memories) == [0, 0, 0]
    memories.recall("bicycle", top_k=3)
    assert sorted(uses(memories)) == [1, 3, 3]


def test_a_use_waits_an_hour_at_the_most(memories: Memories, clock: MovedClock) -> None:
    memories.recall("bicycle", top_k=1)
    clock.move(memory_uses.MAX_WAIT_S - 1)
    memories.recall("bicycle", top_k=1)
    assert sum(uses(memories)) == 0
    clock.move(1)
    memories.recall("bicycle", top_k=1)
    assert sum(uses(memories)) == 3


def test_an_index_that_took_in_uses_answers_as_a_new_one(mem: Offprompt, memories: Memories) -> None:
    memories.recall("bicycle", top_k=1)
    mem.parts.memories.flush()
    kept = memories.recall("bicycle", explain=True)
    mem.parts.memories.kit.index.drop(memories.scope)
    assert memories.recall("bicycle", explain=True) == kept
    assert sorted(hit.memory.uses for hit in kept) == [0, 0, 1]


def test_a_row_that_was_only_used_is_not_made_anew(mem: Offprompt, memories: Memories) -> None:
    kit = mem.parts.memories.kit
    memories.recall("bicycle")

    def rows() -> int:
        with kit.index.open(kit.memories, memories.scope, "inherit", kit.clock.now()) as kept:
            return len(kept.index._data.ids)  # pyright: ignore[reportPrivateUsage]

    before = rows()
    mem.parts.memories.flush()
    assert rows() == before
    memories.update(memories.list()[0].memory_id, tags=["x"])
    assert rows() == before + 1
    assert [hit.memory.tags for hit in memories.recall("bicycle") if hit.memory.tags] == [("x",)]


class Refusing(InProcessStore):
    """A store that takes no uses while it is told to."""

    fails = False

    def apply(self, ops: Any) -> list[Any]:
        if self.fails and any(isinstance(op, UseMemories) for op in ops):
            raise BackendError("the disk is full")
        return super().apply(ops)


def test_what_a_failing_store_did_not_take_waits_on(clock: MovedClock) -> None:
    store, scope = Refusing(clock), Scope(user="alice")
    own = Uses(store, clock)
    one = Memory("m_1", scope, "fact", "x")
    seen: list[MemoryOp[Any]] = []
    own.add(one, one)
    store.fails = True
    for _ in range(2):
        with pytest.raises(BackendError, match="disk is full"):
            own.flush()
    own.add(one)
    store.fails = False
    store.apply = lambda ops: seen.extend(ops) or [None for _ in ops]
    assert own.apply([]) == []
    own.flush()
    assert [getattr(op, "counts", None) for op in seen] == [{"m_1": 3}]


def test_a_store_that_takes_no_uses_fails_no_recall(clock: MovedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Refusing(clock)
    own = Offprompt(parts_of(store, clock)).scope(user="alice").memories
    own.remember(TEXTS[0], derive="none")
    own.recall("bicycle")
    store.fails = True
    clock.move(memory_uses.MAX_WAIT_S)
    assert len(own.recall("bicycle")) == 1
    with pytest.raises(BackendError, match="disk is full"):
        own.remember(TEXTS[1], derive="none")
    monkeypatch.setattr(memory_uses, "MAX_WAITING", 1)
    assert len(own.recall("bicycle")) == 1
    own.remember(TEXTS[1], derive="none")
    assert uses(own) == [0, 0]
