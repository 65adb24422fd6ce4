"""Model-based conformance: any run of ops on slots does what it does in the engine that ends with the process."""

# ruff: noqa: D102 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from offprompt.protocols import SlotStore, run
from offprompt.records import (
    DEFAULT,
    POLICIES,
    RULES,
    WITHIN,
    EraseSlots,
    Event,
    ForgetSlot,
    GetSlot,
    GuardSlot,
    ListSecrets,
    ListSlots,
    LogEvents,
    MoveSlots,
    Place,
    PutSlot,
    RestoreSlot,
    Slot,
    SlotHistory,
    SlotLimits,
    SlotOp,
    SlotQuery,
    SweepSlots,
)
from offprompt.testing.machine import SCOPES, WHOLE, Machine, mostly, one_of, places, scopes, words

NAMES: Final = ("a", "A", "ａ", "b", "b.1", "foo", "foobar", "fo_", "Straße", "STRASSE", "名字", "名")
BAD_NAMES: Final = ("", ".a", "a b", "m_1", "名" * 65, "\ud800", "a\x00", "x\u3164")
LIMITS: Final = SlotLimits(max_slots=4, max_bytes=60, keep_versions=2, undo_s=25.0, model_writes=2)

_scalars: Final = st.sampled_from([None, True, 1, 1.0, -0.0, 10**25, 1e300, "", "名字", "nul \x00", "a'b\"c\\", "𝔘"])
_values: Final = st.recursive(
    _scalars | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["z", "a", "名"]), inner, max_size=2),
    max_leaves=3,
)
_unfit: Final = st.sampled_from(["half \ud83d", float("nan"), b"bytes", {1, 2}, "长" * 40, [float("inf")]])
names: Final = mostly(["a", "名字", "a"], NAMES)
any_names: Final = mostly(["a", "名字", "a"], [*NAMES, *BAD_NAMES])
_versions: Final = mostly([None], [0, 1, 2])
_sources: Final = mostly(["app", "user", "model"], ["tool"])
_trusts: Final = mostly(["user"], ["tool"])
_places: Final = st.lists(
    st.sampled_from([Place("http", "/url"), Place("http", "/头", "example.com"), Place("sh", "")]), max_size=2
).map(tuple)
_put: Final[dict[str, st.SearchStrategy[Any]]] = {
    "scope": scopes,
    "name": names,
    "value": _values,
    "policy": st.sampled_from(POLICIES),
    "source": _sources,
    "trust": _trusts,
    "actor": mostly(["app"], [RULES, "模型", "nul \x00"]),
    "ttl_s": mostly([DEFAULT, None, 30.0], [10.0, 1e6]),
    "sliding": st.booleans(),
    "tags": st.none() | st.lists(st.sampled_from(["t", "标签", "nul \x00"]), max_size=2).map(tuple),
    "importance": mostly([None], [0.0, 0.25, 1.0]),
    "schema": mostly([None], [{"type": "string", "a": 1}, {"type": "对象"}]),
    "op_key": mostly([None], ["k1", "键", "nul \x00"]),
    "parts": mostly([0], [1]),
    "why": words,
    "limits": st.just(LIMITS),
}
puts: Final = st.builds(PutSlot, **_put)
odd_puts: Final = st.one_of(
    st.builds(PutSlot, **(_put | {"name": st.sampled_from(BAD_NAMES)})),
    st.builds(PutSlot, **(_put | {"value": _unfit})),
    st.builds(PutSlot, **(_put | {"ttl_s": st.sampled_from([0.0, -1.0, float("nan"), float("inf")])})),
    st.builds(PutSlot, **(_put | {"importance": st.sampled_from([-0.1, 1.5, float("nan")])})),
    st.builds(PutSlot, **(_put | {"schema": st.just({"type": float("nan")})})),
    st.builds(PutSlot, **(_put | {"if_version": st.sampled_from([-1, 0, 1, 2, 3])})),
)
_queries: Final = st.builds(
    SlotQuery,
    scopes,
    st.sampled_from(WITHIN),
    names=mostly([None], ["*", "fo*", "FO?*", "[a]", "名*", "\ud800"]),
    tags=mostly([()], [("t",), ("标签", "t"), ("half \ud83d",)]),
    since=mostly([None], [Machine.START + 10]),
    until=mostly([None], [Machine.START + 100]),
    forgotten=st.booleans(),
    limit=mostly([None], [0, 2]),
)
reads: Final = st.one_of(
    st.builds(GetSlot, scopes, any_names, st.booleans(), words),
    st.builds(GetSlot, scopes, names, st.just(True)),  # noqa: FBT003 - builds passes the record's fields in order
    st.builds(ListSlots, _queries),
    st.builds(SlotHistory, scopes, any_names),
    st.builds(ListSecrets, st.lists(scopes, max_size=3, unique=True).map(tuple), st.booleans()),
)
forgets: Final = st.builds(ForgetSlot, scopes, any_names, words, _versions, _trusts, _sources)
restores: Final = st.builds(RestoreSlot, scopes, any_names, words, st.just(LIMITS))
guards: Final = st.builds(GuardSlot, scopes, any_names, _places, _places, st.sampled_from([None, True, False]), words)
_erased: Final = mostly([("a",), ("名字", "b")], [None, ("b.1", "A"), (".",), ()])
_users: Final = st.sampled_from(["u", "用户 一", "U%"])
_events: Final = st.builds(
    Event, st.just(5.0), scopes, st.sampled_from(["slot.write", "handle.bad", "其他"]), why=words
)
sweeps: Final = st.builds(SweepSlots, mostly([None, "a"], ["b"]), mostly([LIMITS.undo_s], [1e6]))
changes: Final = st.one_of(
    st.builds(EraseSlots, scopes, _erased, mostly(["exact"], ["subtree"])),
    st.builds(MoveSlots, st.sampled_from(["a", "a", "b"]), _users, _users, st.booleans()),
    st.builds(LogEvents, st.lists(_events, max_size=2).map(tuple)),
)
_none: Final[st.SearchStrategy[SlotOp[Any]]] = st.just(SlotOp[Any]())
ops: Final[st.SearchStrategy[SlotOp[Any]]] = st.one_of(puts, puts, reads, forgets, restores, guards, changes, _none)


class SlotMachine(Machine[SlotStore]):
    """Ops on slots, alone and in batches."""

    @rule(op=puts, at=places)
    def put(self, op: PutSlot, at: int) -> None:
        self._run(self._aimed(op, at))

    @rule(some=st.lists(puts, min_size=2, max_size=4))
    def put_some(self, some: list[PutSlot]) -> None:
        for op in some:
            self._run(op)

    @rule(op=odd_puts, at=places)
    def put_odd(self, op: PutSlot, at: int) -> None:
        self._run(self._aimed(op, at) if op.name not in BAD_NAMES else op)

    @rule(op=reads, at=places)
    def read(self, op: SlotOp[Any], at: int) -> None:
        self._run(self._aimed(op, at))

    @rule(op=forgets, at=places)
    def forget(self, op: ForgetSlot, at: int) -> None:
        self._run(self._aimed(op, at))

    @rule(op=restores, at=places)
    def restore(self, op: RestoreSlot, at: int) -> None:
        self._run(self._aimed(op, at, forgotten=True))

    @rule(op=guards, at=places)
    def guard(self, op: GuardSlot, at: int) -> None:
        self._run(self._aimed(op, at))

    @rule(op=sweeps)
    def sweep(self, op: SweepSlots) -> None:
        self._run(op)

    @rule(op=changes)
    def change(self, op: SlotOp[Any]) -> None:
        self._run(op)

    @rule(batch=st.lists(ops, max_size=4))
    def run_batch(self, batch: list[SlotOp[Any]]) -> None:
        self._run(*batch)

    @rule()
    def flush(self) -> None:
        self.store.flush()

    def ends(self) -> list[float]:
        hidden = [slot.forgotten_at + LIMITS.undo_s for slot in self._found(forgotten=True) if slot.forgotten_at]
        return hidden + [slot.expires_at for slot in self._found() if slot.expires_at]

    def dump(self) -> None:
        for scope in self.own(WHOLE):
            for forgotten in (False, True):
                query = ListSlots(SlotQuery(scope, "subtree", forgotten=forgotten))
                self.same(lambda store, query=query: run(store, query))
        own = self.own(SCOPES)
        kept = [SlotHistory(scope, name) for scope in own for name in NAMES[3:]]
        secrets = [ListSecrets(own, forgotten) for forgotten in (False, True)]
        self.same(lambda store: store.batch([*kept, *secrets]))
        super().dump()

    def wipe(self) -> None:
        for scope in self.own(WHOLE):
            run(self.store, EraseSlots(scope, within="subtree"))

    def _run(self, *ops: SlotOp[Any]) -> None:
        own = [self.own(op) for op in ops]
        self.same(lambda store: store.batch(own))

    def _aimed(self, op: Any, at: int, *, forgotten: bool = False) -> Any:
        """The op on one of the slots that are there, at most places; else as it is."""
        if not hasattr(op, "name"):
            return op
        slot = one_of(self._found(forgotten=forgotten), at)
        return op if slot is None else replace(op, scope=slot.scope, name=slot.name)

    def _found(self, *, forgotten: bool = False) -> list[Slot]:
        queries = [ListSlots(SlotQuery(scope, "subtree", forgotten=forgotten)) for scope in self.own(WHOLE)]
        return [slot for slots in self.model.batch(queries) for slot in slots]
