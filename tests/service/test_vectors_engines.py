"""An opened memory over Qdrant and Chroma; and in whatever order an index is told, it ends up as the store is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.protocols import apply
from offprompt.records import AddMemory, DoneVectors, GetMemories, PendingVectors, Scope, WaitingVector
from offprompt.service.checkup import checkup
from offprompt.service.indexing import index_texts
from offprompt.service.offprompt import Offprompt
from offprompt.service.vector_check import compare, tell_all
from offprompt.service.vector_link import VectorLink, entry_of
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from offprompt.testing.exact_vectors import ExactVectors
from offprompt.testing.memory_kit import erase, forget, memory_of, restore, update
from tests.indexes.edge_server import edge_server
from tests.servers import Server
from tests.service.test_memories_recall import Letters

SAID = (
    "My sister Ann lives in Porto.",
    "我喜欢喝绿茶。",
    "The boat was painted red last week.",
    "我的狗叫旺财，今年三岁。",
    "I work at a bakery in Lisbon.",
)
ASKED = ("Where is my sister's home?", "我爱喝什么？", "what colour is the ship", "宠物叫什么名字？", "who employs me?")
OpenMemory = Callable[[], Offprompt]


@pytest.fixture(params=["qdrant folder", "qdrant", "chroma"])
def open_memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenMemory]:
    with ExitStack() as stack:
        vectors = f"qdrant:///{tmp_path}/q"
        if request.param == "qdrant":
            vectors = f"qdrant://127.0.0.1:{stack.enter_context(edge_server(tmp_path / 'shards')).port}"
        elif request.param == "chroma":
            server: Server = request.getfixturevalue("chroma_server")
            vectors = f"chroma://127.0.0.1:{server.port}?collection=t{uuid.uuid4().hex}"
        yield lambda: offprompt.open(f"memories={tmp_path}/agent.db vectors={vectors}")


def index_of(memory: Offprompt) -> VectorLink:
    link = memory.parts.memories.kit.vectors
    assert link is not None
    return link


def test_a_memory_over_an_index_answers_as_one_that_has_its_vectors_itself(open_memory: OpenMemory) -> None:
    with offprompt.open(":memory:") as plain, open_memory() as first:
        right = plain.scope(user="a@example.com")
        for memory in (first.scope(user="a@example.com"), right):
            memory.remember([{"role": "user", "content": text} for text in SAID])
        first.scope(user="bob").remember("My sister lives in Oslo.")
    with open_memory() as again, offprompt.open(":memory:") as plain:
        right = plain.scope(user="a@example.com")
        right.remember([{"role": "user", "content": text} for text in SAID])
        for question in ASKED:
            found = again.scope(user="a@example.com").recall(question)
            assert [hit.text for hit in found] == [hit.text for hit in right.recall(question)], question
            assert found.degraded == ""
        assert [one.state for one in checkup(again.parts).findings if one.name == "vectors"] == ["ok"]


def test_what_is_erased_is_nowhere_in_the_index(open_memory: OpenMemory) -> None:
    with open_memory() as memory:
        for user in ("a@example.com", "bob"):
            memory.scope(user=user).remember([{"role": "user", "content": text} for text in SAID])
        outside = index_of(memory).outside
        assert outside is not None
        whole = outside.count()
        memory.scope(user="a@example.com").clear()
        assert outside.count() == whole // 2
        assert {stamp.scope for stamp in outside.scan()[0]} == {Scope(user="bob")}
        assert compare(index_of(memory), memory.parts.memories.store).extra == 0


def test_doctor_mends_an_index_that_was_lost(open_memory: OpenMemory) -> None:
    with open_memory() as memory:
        memory.scope(user="a").remember([{"role": "user", "content": text} for text in SAID])
        outside = index_of(memory).outside
        assert outside is not None
        whole = outside.count()
        outside.drop()
        (before,) = (one for one in checkup(memory.parts).findings if one.name == "vectors")
        assert (before.state, before.way_out) == ("warn", "offprompt doctor --fix")
        checkup(memory.parts, fix=True)
        assert outside.count() == whole
        assert [one.state for one in checkup(memory.parts).findings if one.name == "vectors"] == ["ok"]


class Teller:
    """Somebody who tells the index what waits, one step at a time, and may be killed before any of them."""

    def __init__(self, link: VectorLink, store: InProcessStore, index: ExactVectors) -> None:
        self.link, self.store, self.index = link, store, index
        self.steps: Iterator[None] = iter(())

    def step(self) -> None:
        try:
            next(self.steps)
        except StopIteration:
            self.steps = self._work()
            next(self.steps)

    def _work(self) -> Iterator[None]:
        rows = tuple(apply(self.store, PendingVectors(limit=3)))
        yield
        for row in rows:
            self._tell(row)
            yield
        apply(self.store, DoneVectors(rows))
        yield

    def _tell(self, row: WaitingVector) -> None:
        entry = entry_of(row.memory, row.indexed, self.link.embedder)
        if entry is None:
            self.index.delete([(row.app, row.memory_id)])
        else:
            self.index.upsert([entry])


@example(["first", "update", "second", "second", "second", "first", "first"])  # a slow one ends after a fast one
@example(["first", "erase", "second", "second", "second", "first", "first"])
@settings(max_examples=150)
@given(st.lists(st.sampled_from(["first", "second", "first", "second", "update", "forget", "restore", "erase"])))
def test_in_whatever_order_two_tell_it_nothing_is_missed(steps: list[str]) -> None:
    clock, embedder, index = MovedClock(), Letters(), ExactVectors("letters", Letters.dimension)
    store = InProcessStore(clock, vector_queue=True)
    link = VectorLink(index, store, embedder, clock)
    tellers = {name: Teller(link, store, index) for name in ("first", "second")}
    memory = memory_of("My sister Ann lives in Porto.")
    apply(store, AddMemory(memory, index_texts(embedder, [memory])[0][0]))
    changes: dict[str, Callable[[], object]] = {
        "update": lambda: _update(store, embedder, memory.memory_id),
        "forget": lambda: forget(store, memory.memory_id),
        "restore": lambda: restore(store, memory.memory_id),
        "erase": lambda: erase(store, memory.memory_id),
    }
    for step in steps:
        tellers[step].step() if step in tellers else changes[step]()
        clock.move(1)
    for teller in tellers.values():
        list(teller.steps)  # each ends what it began
    tell_all(link)
    found = compare(link, store)
    assert (found.missing, found.other, found.extra) == (0, 0, 0)


def _update(store: InProcessStore, embedder: Letters, memory_id: str) -> None:
    for row in apply(store, GetMemories("default", (memory_id,))):
        if row.state == "live":
            text = f"{row.text}!"
            indexed = index_texts(embedder, [replace(row, text=text)])[0][0]
            update(store, memory_id, text=text, digest=text, indexed=indexed)
