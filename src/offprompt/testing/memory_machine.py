"""Model-based conformance: any run of ops on memories does what it does in the engine that ends with the process."""

# ruff: noqa: D102 - tests: their names are their docstrings

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import rule

from offprompt.protocols import MemoryStore, SlotStore, apply
from offprompt.records import (
    DEFAULT,
    MEMORY_KINDS,
    MEMORY_STATES,
    WITHIN,
    AddMemory,
    AliasesOf,
    DoneVectors,
    EraseMemories,
    Event,
    ForgetMemories,
    GetMemories,
    Indexed,
    IndexMemories,
    JoinUsers,
    ListMemories,
    LoadIndex,
    LoadMemories,
    LogMemoryEvents,
    MarkExtracted,
    Memory,
    MemoryHistory,
    MemoryOp,
    MemoryQuery,
    MemoryScopes,
    MemoryState,
    PendingVectors,
    QueueVectors,
    RestoreMemories,
    ScopeRevisions,
    SweepMemories,
    Unindexed,
    UpdateMemory,
    UseMemories,
    UserOf,
    WaitingVector,
    WaitingVectors,
)
from offprompt.stores.in_process import InProcessStore
from offprompt.testing.clock import MovedClock
from offprompt.testing.machine import SCOPES, WHOLE, Machine, check_same, mostly, one_of, places, scopes, words

START: Final = Machine.START
IDS: Final = ("m_1", "m_2", "m_3", "m_4", "m_a", "m_A", "m_名", "m_𝔘")
TEXTS: Final = ("lives in Porto", "住在上海", "likes tea", "nul \x00 a'b\"", "half \ud83d")
USERS: Final = ("u", "用户 一", "U%", "u_")
UNDO_S: Final = 25.0
NEW: Final = "m_new"
"""Stands for an id that is greater than all before it."""

ids: Final = mostly(IDS[:4], IDS)
_some_ids: Final = st.lists(ids, max_size=3).map(tuple)
_trusts: Final = mostly(["user"], ["tool"])
_times: Final = mostly([None], [START - 100, START, START + 5.5])
_indexed: Final = st.builds(
    Indexed, ids, st.sampled_from([1, 1, 1, 2, 3]), st.sampled_from([b"", b"terms\x00\xff"]), st.sampled_from(["", "e"])
)
_metadata: Final[st.SearchStrategy[dict[str, Any]]] = mostly(
    [dict[str, Any]()], [{"z": 1, "a": [None, "名"]}, {"a": 1.0}, {"nul": "\x00"}]
)
_memory: Final[dict[str, st.SearchStrategy[Any]]] = {
    "memory_id": mostly([NEW], IDS),
    "scope": scopes,
    "kind": mostly(["fact", "fact", "passage"], MEMORY_KINDS),
    "text": mostly(TEXTS[:3], TEXTS),
    "role": words,
    "session": mostly(["", "s"], ["会话", "nul \x00"]),
    "order": st.sampled_from([-1, 0, 1]),
    "ends": mostly([""], ["Porto", "上海"]),
    "gist": mostly([""], ["she lives in Lisbon"]),
    "trust": _trusts,
    "actor": words,
    "created_at": st.sampled_from([START, START, START + 1]),
    "updated_at": st.just(START),
    "event_at": _times,
    "precision": st.sampled_from(["", "day"]),
    "expires_at": mostly([None], [START + 8, START + 60]),
    "pinned": mostly([False], [True]),
    "importance": st.sampled_from([0.5, 0.0, 1.0]),
    "tags": mostly([()], [("t",), ("标签", "t"), ("nul \x00",)]),
    "metadata": _metadata,
}


def _about(memory: Memory, about: tuple[str, str]) -> Memory:
    return replace(memory, subject=about[0], attribute=about[1], digest=memory.text.casefold()[:8])


def _adding(**fields: Any) -> st.SearchStrategy[AddMemory]:
    about = st.sampled_from([("", ""), ("user", "home"), ("user", "job"), ("用户", "home")])
    made = st.builds(_about, st.builds(Memory, **(_memory | fields)), about)
    keys = mostly([None], ["k1", "k2", "键", "nul \x00"])
    near = mostly([()], [("m_1", "m_2"), ("m_3",)])
    return st.builds(AddMemory, made, st.none() | _indexed, keys, near, near)


adds: Final = _adding()
odd_adds: Final = st.one_of(
    _adding(memory_id=st.sampled_from(["x", "", *IDS])),
    _adding(text=st.sampled_from(["", " \n", "长" * 20_001])),
    _adding(event_at=st.sampled_from([float("nan"), float("inf")])),
    _adding(importance=st.sampled_from([-0.5, float("nan")])),
    _adding(metadata=st.sampled_from([{"a": float("nan")}, {"a": {1}}, {"a": "\ud83d"}])),
    _adding(repeats=st.sampled_from([-1, 2**31])),
    st.builds(AddMemory, st.just(Memory("m_5", SCOPES[0], "fact", "t", subject="user"))),
)
_queries: Final = st.builds(
    MemoryQuery,
    scopes,
    st.sampled_from(WITHIN),
    states=mostly([("live",), MEMORY_STATES], [("superseded", "archived"), ()]),
    kinds=mostly([MEMORY_KINDS], [("passage",), ()]),
    ids=mostly([None], [(), ("m_1", "m_a", "m_none")]),
    session=mostly([None], ["", "s", "会话"]),
    since=mostly([None], [START, START + 1]),
    until=mostly([None], [START + 1, START + 5.5]),
    expired=mostly([False], [True]),
    after=mostly([""], ["m_1", "m_Z"]),
    limit=mostly([None], [0, 2]),
)
_apps: Final = mostly(["a"], ["b"])
_users: Final = st.sampled_from(USERS)
reads: Final[st.SearchStrategy[MemoryOp[Any]]] = st.one_of(
    st.builds(GetMemories, _apps, _some_ids),
    st.builds(LoadMemories, _apps, _some_ids),
    st.builds(WaitingVectors, st.none() | _apps, st.integers(0, 9)),
    st.builds(PendingVectors, st.none() | _apps, st.integers(0, 9)),
    st.builds(ListMemories, _queries),
    st.builds(MemoryHistory, scopes, ids),
    st.builds(LoadIndex, scopes, st.sampled_from([0, 1, 2, 3, 5, 10**6])),
    st.builds(ScopeRevisions, st.lists(scopes, max_size=3).map(tuple)),
    st.builds(
        Unindexed, st.sampled_from(["", "e"]), st.none() | scopes, st.sampled_from(["", "m_1"]), st.integers(0, 3)
    ),
    st.builds(MemoryScopes, st.none() | scopes),
    st.builds(UserOf, _apps, _users),
    st.builds(AliasesOf, _apps, _users),
)
_changed: Final[dict[str, st.SearchStrategy[Any]]] = {
    "scope": scopes,
    "memory_id": ids,
    "text": mostly([None, "likes tea", "住在杭州"], ["", "长" * 20_001]),
    "digest": st.sampled_from(["likes te", "d"]),
    "indexed": st.none() | _indexed,
    "metadata": mostly([None], [{"z": None}, {"b": "名"}, {"b": float("nan")}]),
    "tags": mostly([None], [(), ("t2",)]),
    "importance": mostly([None], [0.75]),
    "event_at": mostly([DEFAULT], [None, START + 7]),
    "expires_at": mostly([DEFAULT], [None, START + 9]),
    "pinned": mostly([None], [True, False]),
    "archived": mostly([None], [True, False]),
    "if_version": mostly([None], [1, 2]),
    "actor": words,
    "trust": _trusts,
}
updates: Final = st.builds(UpdateMemory, **_changed)
forgets: Final = st.builds(ForgetMemories, scopes, _some_ids, words, _trusts)
restores: Final = st.builds(RestoreMemories, scopes, _some_ids, words, mostly([UNDO_S], [1e6]))
_events: Final = st.builds(Event, st.just(5.0), scopes, st.sampled_from(["memory.add", "其他"]), why=words)
sweeps: Final = st.builds(
    SweepMemories, mostly([None, "a"], ["b"]), mostly([UNDO_S], [1e6]), mostly([None], [START + 20])
)
changes: Final[st.SearchStrategy[MemoryOp[Any]]] = st.one_of(
    st.builds(UseMemories, scopes, st.dictionaries(ids, st.integers(1, 3), max_size=3)),
    st.builds(IndexMemories, scopes, st.lists(_indexed, max_size=3).map(tuple)),
    st.builds(EraseMemories, scopes, mostly([("m_1",), ("m_2", "m_a")], [None, ()]), mostly(["exact"], ["subtree"])),
    st.builds(MarkExtracted, scopes, st.lists(st.tuples(ids, st.integers(1, 2)), max_size=2).map(tuple), words),
    st.builds(QueueVectors, _apps, _some_ids),
    st.builds(JoinUsers, _apps, _users, _users, mostly([False], [True])),
    st.builds(LogMemoryEvents, st.lists(_events, max_size=2).map(tuple)),
)
_none: Final[st.SearchStrategy[MemoryOp[Any]]] = st.just(MemoryOp[Any]())
ops: Final[st.SearchStrategy[MemoryOp[Any]]] = st.one_of(
    adds, adds, reads, updates, forgets, restores, sweeps, changes, _none
)


class Store(MemoryStore, SlotStore, Protocol):
    """A MemoryStore with the log of a SlotStore."""


class MemoryMachine(Machine[Store]):
    """Ops on memories, alone and in batches.

    queue    whether the store keeps what waits for a vector index.
    """

    def __init__(
        self, store: Store, clock: MovedClock, reopen: Callable[[], Store] | None = None, *, queue: bool = False
    ) -> None:
        super().__init__(store, clock, reopen)
        self.model = InProcessStore(clock, vector_queue=queue)
        self.made = 0
        self.read_before: tuple[list[WaitingVector], list[WaitingVector]] = ([], [])

    @rule(op=adds)
    def add(self, op: AddMemory) -> None:
        self._run(op)

    @rule(some=st.lists(adds, min_size=3, max_size=5))
    def add_some(self, some: list[AddMemory]) -> None:
        for op in some:
            self._run(op)

    @rule(op=odd_adds)
    def add_odd(self, op: AddMemory) -> None:
        self._run(op)

    @rule(op=reads)
    def read(self, op: MemoryOp[Any]) -> None:
        self._run(op)

    @rule(op=updates, at=places)
    def update(self, op: UpdateMemory, at: int) -> None:
        row = self._there(at)
        self._run(op if row is None else replace(op, scope=row.scope, memory_id=row.memory_id))

    @rule(op=forgets, at=places)
    def forget(self, op: ForgetMemories, at: int) -> None:
        row = self._there(at)
        self._run(op if row is None else replace(op, scope=row.scope, ids=(row.memory_id, *op.ids)))

    @rule(op=restores, at=places)
    def restore(self, op: RestoreMemories, at: int) -> None:
        row = self._there(at, ("forgotten",))
        self._run(op if row is None else replace(op, scope=row.scope, ids=(row.memory_id, *op.ids)))

    @rule(indexed=_indexed, at=places)
    def index(self, indexed: Indexed, at: int) -> None:
        if (row := self._there(at)) is not None:
            self._run(IndexMemories(row.scope, (replace(indexed, memory_id=row.memory_id),)))

    @rule(op=sweeps)
    def sweep(self, op: SweepMemories) -> None:
        self._run(op)

    @rule(op=changes)
    def change(self, op: MemoryOp[Any]) -> None:
        self._run(op)

    @rule(turns=st.lists(places, min_size=1, max_size=2), by=st.sampled_from(["pending", "模型"]))
    def mark(self, turns: list[int], by: str) -> None:
        rows = [row for row in map(self._there, turns) if row is not None]
        for row in rows[:1]:
            self._run(MarkExtracted(row.scope, tuple((one.memory_id, one.version) for one in rows), by))

    @rule(app=_apps, limit=st.integers(1, 9), keep=st.booleans())
    def tell(self, app: str, limit: int, keep: bool) -> None:  # noqa: FBT001 - hypothesis gives it
        """What waits is told at once, or only read for now."""
        op = PendingVectors(self.number + app, limit)
        rows = (apply(self.store, op), apply(self.model, op))
        check_same(*rows)
        self.read_before = rows if keep else self.read_before
        if not keep:
            self._told(rows)

    @rule()
    def tell_late(self) -> None:
        """What was read before is told now, whatever came meanwhile; more than once."""
        self._told(self.read_before)

    @rule(batch=st.lists(ops, max_size=4))
    def run_batch(self, batch: list[MemoryOp[Any]]) -> None:
        self._run(*batch)

    def ends(self) -> list[float]:
        rows = self._rows(MEMORY_STATES)
        hidden = [row.state_at + UNDO_S for row in rows if row.state == "forgotten" and row.state_at]
        return hidden + [row.expires_at for row in rows if row.expires_at]

    def dump(self) -> None:
        for scope in self.own(WHOLE):
            for expired in (False, True):
                query = ListMemories(MemoryQuery(scope, "subtree", states=MEMORY_STATES, expired=expired))
                self.same(lambda store, query=query: apply(store, query))
            self.same(lambda store, scope=scope: apply(store, MemoryScopes(scope)))
            self.same(lambda store, scope=scope: apply(store, Unindexed("e", scope)))
            self.same(lambda store, scope=scope: apply(store, WaitingVectors(scope.app)))
        own = self.own(SCOPES)
        pages = [LoadIndex(scope, after) for scope in own for after in (0, 1, 3)]
        lists = [ListMemories(MemoryQuery(scope, within, states=MEMORY_STATES)) for scope in own for within in WITHIN]
        kept = [MemoryHistory(scope, memory_id) for scope in own for memory_id in IDS]
        self.same(lambda store: store.apply([*pages, *lists, *kept, ScopeRevisions(own)]))
        super().dump()

    def wipe(self) -> None:
        for scope in self.own(WHOLE):
            apply(self.store, EraseMemories(scope, within="subtree"))
            while rows := apply(self.store, PendingVectors(scope.app)):
                apply(self.store, DoneVectors(tuple(rows)))

    def _run(self, *ops: MemoryOp[Any]) -> None:
        own = [self._named(self.own(op)) for op in ops]
        self.same(lambda store: store.apply(own))

    def _told(self, rows: tuple[list[WaitingVector], list[WaitingVector]]) -> None:
        mine, theirs = (DoneVectors(tuple(one)) for one in rows)
        check_same(apply(self.store, mine), apply(self.model, theirs))

    def _there(self, at: int, states: tuple[MemoryState, ...] = MEMORY_STATES) -> Memory | None:
        """One of the memories that are there, at most places."""
        return one_of(self._rows(states), at)

    def _rows(self, states: tuple[MemoryState, ...]) -> list[Memory]:
        queries = [ListMemories(MemoryQuery(scope, "subtree", states=states)) for scope in self.own(WHOLE)]
        return [row for rows in self.model.apply(queries) for row in rows]

    def _named(self, op: MemoryOp[Any]) -> MemoryOp[Any]:
        """The op with a new id in place of NEW: the small ones first, which other ops name."""
        if not isinstance(op, AddMemory) or op.memory.memory_id != NEW:
            return op
        self.made += 1
        memory_id = IDS[self.made - 1] if self.made <= len(IDS) else f"m_new{self.made:04d}"
        indexed = op.indexed and replace(op.indexed, memory_id=memory_id)
        return replace(op, memory=replace(op.memory, memory_id=memory_id), indexed=indexed)
