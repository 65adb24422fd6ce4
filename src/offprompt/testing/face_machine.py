"""Any run of calls over a server does what it does in this process."""

# ruff: noqa: D102 - tests: their names are their docstrings, and they assert

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Final, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import offprompt
from offprompt.errors import NotFoundError, OffpromptError, UsageError
from offprompt.records import DEFAULT, Memory
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing.clock import MovedClock
from offprompt.testing.face_kit import unique
from offprompt.testing.machine import MOVES, check_same, mostly, one_of, places

NAMES: Final = mostly(["a", "名字", "b"], ["A", "ａ", "foo", "foobar", "fo_", ".a", "a b", "m_1", "", "名" * 65])
TEXTS: Final = mostly(
    ["I like tea", "I live in Porto", "我喜欢绿茶", "我住在上海"],
    ["I moved to Lisbon in May", "我叫李明", "", " ", "nul \x00", "𝔘 a'b\"c\\", "x" * 20_001],
)
USUAL_VALUES: Final[list[Any]] = ["Ulm", "上海", {"a": [1, None]}]
ODD_VALUES: Final[list[Any]] = [0, True, None, 10**25, 1.5, "", "nul \x00", "长" * 1400]
VALUES: Final = mostly(USUAL_VALUES, ODD_VALUES)
SCOPES: Final[tuple[dict[str, Any], ...]] = ({}, {"session": "s1"}, {"agent": "助手"}, {"agent": "g", "session": "s2"})
COUNTED: Final[dict[str, Any]] = {"uses": 0, "used_at": None}
"""A server stores the uses of memories when it has time."""

_versions: Final = mostly([None], [0, 1, 2, -1])
_tags: Final = mostly([None], [["t"], ["标签", "T"], "text", [5]])
_times: Final = mostly([None], [1_700_000_000.0, "2027-01-15", "soon", float("nan")])
_within: Final = mostly(["inherit"], ["exact", "subtree", "below"])
_scopes: Final = mostly(SCOPES[:1], SCOPES)


class FaceMachine(RuleBasedStateMachine):
    """Each step is run on two memories with one clock: what comes back, or is said, must be the same.

    memory   the one under test, which other runs may share: a run has a user of its own.
    """

    START: ClassVar[float] = MovedClock().now()

    def __init__(self, memory: Offprompt, clock: MovedClock) -> None:
        super().__init__()
        clock.move(self.START - clock.now())
        self.clock, self.user = clock, unique("run")
        self.model = offprompt.open(":memory:", clock=clock, embedder="none")
        self.faces = (memory, self.model)
        self.ids: list[dict[str, str]] = [{}, {}]

    def teardown(self) -> None:
        try:
            self.same({}, lambda scope: scope.slots.list(within="subtree"))
            self.same({}, lambda scope: scope.memories.list(within="subtree", limit=1000))
            self.same({}, lambda scope: scope.clear())
        finally:
            self.model.close()

    def same(self, ids: dict[str, Any], call: Callable[[BoundScope], Any]) -> None:
        """What the call gives on both, or what it is told."""
        self.same_of(ids, 7, lambda scope, _: call(scope))

    def same_of(self, ids: dict[str, Any], at: int, call: Callable[[BoundScope, str], Any]) -> None:
        """The same of a call about a memory. at: which of those that were seen; there is none for 6 and 7."""
        which = one_of(list(self.ids[1].values()), at)
        found: list[Any] = []
        for face, known in zip(self.faces, self.ids, strict=True):
            name = next((own for own, alike in known.items() if alike == which), "m_nothing")
            try:
                result = call(face.scope(user=self.user, **ids), name)
            except (UsageError, NotFoundError):
                result = "refused"  # of two faults in one call either may be told first
            except OffpromptError as exc:
                result = type(exc), str(exc)
            found.append(_alike(result, known))
        check_same(*found)

    @rule(seconds=MOVES)
    def move(self, seconds: float) -> None:
        self.clock.move(seconds)

    @rule(
        ids=_scopes,
        name=NAMES,
        value=VALUES,
        ttl_s=mostly([DEFAULT], [None, 30.0, 0.0]),
        tags=_tags,
        importance=mostly([None], [0.9, 2]),
        policy=mostly([None], ["never", "card", "sometimes"]),
        if_version=_versions,
        split=mostly([False], [True]),
    )
    def write(self, ids: dict[str, Any], name: str, value: Any, **options: Any) -> None:
        self.same(ids, lambda scope: scope.write(name, value, **options))

    @rule(ids=_scopes, name=NAMES, touch=st.booleans())
    def read(self, ids: dict[str, Any], name: str, touch: bool) -> None:  # noqa: FBT001 - a rule's argument
        self.same(ids, lambda scope: scope.read(name))
        self.same(ids, lambda scope: scope.slots.get(name, touch=touch))

    @rule(ids=_scopes, name=NAMES, if_version=_versions)
    def forget(self, ids: dict[str, Any], name: str, if_version: int | None) -> None:
        self.same(ids, lambda scope: scope.forget(name, if_version=if_version))

    @rule(ids=_scopes, name=NAMES)
    def undo(self, ids: dict[str, Any], name: str) -> None:
        self.same(ids, lambda scope: scope.slots.undo(name))
        self.same(ids, lambda scope: scope.slots.history(name))

    @rule(ids=_scopes, names=mostly([None], ["*", "fo?", "名*", 5]), tags=mostly([()], [["t"], "t"]), within=_within)
    def list_slots(self, ids: dict[str, Any], **conditions: Any) -> None:
        self.same(ids, lambda scope: scope.slots.list(**conditions))
        self.same(ids, lambda scope: scope.slots.list(within=conditions["within"], forgotten=True))
        self.same(ids, lambda scope: scope.slots.snapshot())
        self.same(ids, lambda scope: scope.slots.rank(limit=2))

    @rule(ids=_scopes, name=NAMES, within=mostly(["exact"], ["subtree", "inherit"]))
    def erase(self, ids: dict[str, Any], name: str, within: Any) -> None:
        self.same(ids, lambda scope: scope.slots.erase(name, within=within))

    @rule(ids=_scopes, name=NAMES, tool=st.just("send"), argument=mostly(["token"], ["/a/0"]))
    def allow(self, ids: dict[str, Any], name: str, tool: str, argument: str) -> None:
        self.same(ids, lambda scope: scope.slots.allow(name, tool, argument))
        self.same(ids, lambda scope: scope.slots.allowed(name))
        self.same(ids, lambda scope: scope.slots.lock(name))

    @rule(
        ids=_scopes,
        what=TEXTS | st.lists(TEXTS, max_size=2) | TEXTS.map(lambda text: {"role": "user", "content": text}),
        metadata=mostly([None], [{"n": 1}, {"题": ["家", None]}, [1]]),
        tags=mostly([()], [["t"], "t"]),
        event_at=_times,
        key=mostly([None], ["k1", "键", ""]),
        derive=mostly(["rules", "none"], ["model", "magic"]),
    )
    def remember(self, ids: dict[str, Any], what: Any, key: str | None, **options: Any) -> None:
        self.same(ids, lambda scope: scope.remember(what, idempotency_key=key, **options))

    @rule(
        ids=_scopes,
        query=mostly(["tea", "茶", "where does she live?", "我叫什么"], ["", "quark"]),
        within=_within,
        filters=mostly([None], [{"n": 1}, {"n": {"gte": 1}}, {"n": {"near": 1}}]),
        since=_times,
        top_k=mostly([None], [1, 0, 1000]),
        floor=mostly([None], [0.0, 1.0, 2.0]),
    )
    def recall(self, ids: dict[str, Any], query: str, **options: Any) -> None:
        self.same(ids, lambda scope: scope.recall(query, **options))

    @rule(
        ids=_scopes,
        within=_within,
        limit=mostly([100], [1, 2, 0]),
        since=_times,
        states=mostly([["live"]], [["forgotten"], ["gone"]]),
    )
    def list_memories(self, ids: dict[str, Any], **conditions: Any) -> None:
        self.same(ids, lambda scope: scope.memories.list(**conditions))

    @rule(
        ids=_scopes,
        at=places,
        text=mostly([None], ["I like coffee", "我喜欢咖啡", ""]),
        metadata=mostly([None], [{"n": None}, {"m": 2}]),
        event_at=mostly([DEFAULT], [None, 5.0, "soon"]),
        archived=mostly([None], [True, False]),
        if_version=_versions,
    )
    def update(self, ids: dict[str, Any], at: int, **changes: Any) -> None:
        self.same_of(ids, at, lambda scope, name: scope.memories.update(name, **changes))

    @rule(ids=_scopes, at=places, verb=st.sampled_from(["get", "forget", "undo", "history", "erase"]))
    def one_memory(self, ids: dict[str, Any], at: int, verb: str) -> None:
        self.same_of(ids, at, lambda scope, name: getattr(scope.memories, verb)(name))

    @rule(ids=_scopes, op=mostly([None], ["slot.", "memory."]), limit=mostly([1000], [3, 0]))
    def events(self, ids: dict[str, Any], op: str | None, limit: int) -> None:
        self.same(ids, lambda scope: scope.events(op=op, limit=limit))


def _alike(value: Any, known: dict[str, str]) -> Any:
    """A result with its memories' ids by order of appearance, and without what a server stores later."""
    if isinstance(value, str):
        if value.startswith("m_") and len(value) > len("m_nothing"):
            return known.setdefault(value, f"memory {len(known)}")
        return value
    if isinstance(value, Memory):
        value = replace(value, **COUNTED)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {each.name: _alike(getattr(value, each.name), known) for each in fields(value)}
        return replace(cast("Any", value), **changed)
    if isinstance(value, (list, tuple)):
        return type(cast("list[Any]", value))(_alike(each, known) for each in cast("list[Any]", value))
    return value
