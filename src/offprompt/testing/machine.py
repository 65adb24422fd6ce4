"""Model-based conformance: any run of steps does in an engine what it does in the one that ends with the process."""

# ruff: noqa: S101 - tests assert

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, cast

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from offprompt.errors import OffpromptError
from offprompt.records import Event, Scope, WaitingVector
from offprompt.stores.in_process import InProcessStore
from offprompt.testing.clock import MovedClock

STEPS: Final = 50
PHASES: Final = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
"""Not `explain`, which traces every line of an engine."""
MOVES: Final = st.sampled_from([0.0, 0.5, 0.5, 9.5, 10.0, 30.0, 4000.0, -0.5, -10.0])
SCOPES: Final = (
    Scope("a", user="u"),
    Scope("a", user="用户 一"),
    Scope("a", user="u", session="s"),
    Scope("a", user="u", agent="g"),
    Scope("a", user="u_", agent="g", session="s"),
    Scope("a", user="U%"),
    Scope("a", agent="g"),
    Scope("a", session="s"),
    Scope("a", shared=True),
    Scope("b", user="u"),
)
WHOLE: Final = (Scope("a", shared=True), Scope("b", shared=True))
"""The scopes whose subtrees are all that a run leaves."""

S = TypeVar("S", bound="HasEvents")
R = TypeVar("R")
T = TypeVar("T")
_apps = itertools.count()


def mostly(usual: Sequence[T], rare: Sequence[T]) -> st.SearchStrategy[T]:
    """One of the usual, but for one time in six: then one of the rare."""
    usual, rare = tuple(usual), tuple(rare)

    def choose(number: int) -> T:
        return rare[number % len(rare)] if number % 6 == 5 else usual[number % len(usual)]

    return st.integers(0, 6 * len(usual) * len(rare) - 1).map(choose)


def one_of(found: Sequence[T], at: int) -> T | None:
    """What a step is aimed at: one of what is there; of the eight places two aim at nothing."""
    return found[at % len(found)] if found and at < 6 else None


scopes: Final = mostly(SCOPES[:1] * 5 + SCOPES[1:4], SCOPES)
places: Final = st.integers(0, 7)
words: Final = mostly(["app", "model", "键"], ["nul \x00", "half \ud83d", ""])
"""Texts that are no values: actors, reasons."""


class HasEvents(Protocol):
    """A store with an event log."""

    @property
    def events(self) -> Callable[..., list[Event]]:
        """See SlotStore."""
        ...


class Machine(RuleBasedStateMachine, Generic[S]):
    """Each step is run on two stores with one clock: what comes back, or is raised, must be the same, and so must all
    that is stored in the end.

    Apps      `a` and `b` of the strategies become apps of this run alone, which `wipe` empties in the end, so that runs
              can share a store. Steps that reach over apps are the same in both stores because of that.
    reopen    closes the store and opens it again, None: it cannot be.
    """

    START: ClassVar[float] = MovedClock().now()

    def __init__(self, store: S, clock: MovedClock, reopen: Callable[[], S] | None = None) -> None:
        super().__init__()
        clock.move(self.START - clock.now())
        self.clock, self.store, self.model = clock, store, InProcessStore(clock)
        self.number = f"run{next(_apps)}/"
        self._reopen = reopen
        self._first = max((event.seq for event in store.events(limit=10**9)), default=0)

    @rule(seconds=MOVES)
    def move(self, seconds: float) -> None:
        """Let time pass, or turn the clock back."""
        self.clock.move(seconds)

    @rule(at=places)
    def move_to_an_end(self, at: int) -> None:
        """Go to the very time at which something that is there ends, if that is to come."""
        end = one_of([end for end in self.ends() if end > self.clock.now()], at)
        if end is not None:
            self.clock.move(end - self.clock.now())

    @rule()
    def open_again(self) -> None:
        """What is stored outlives the object."""
        if self._reopen is not None:
            self.store = self._reopen()

    @rule(
        scope=st.none() | scopes,
        op=st.sampled_from([None, "slot.", "slot.write", "memory.", "no"]),
        at=st.integers(0, 9),
    )
    def read_events(self, scope: Scope | None, op: str | None, at: int) -> None:
        """The same events, and the same ones behind any of them."""
        scope = self.own(scope)
        mine, theirs = (self._events(store, scope, op) for store in (self.store, self.model))
        check_same(mine, theirs)
        assert [event.seq for event in mine] == sorted({event.seq for event in mine})
        if at < len(mine):
            behind = self.store.events(scope=scope, op=op, after=mine[at].seq, limit=3)
            assert behind == mine[at + 1 : at + 4]

    def own(self, value: R) -> R:
        """The value with its apps become this run's."""
        return _in_apps(value, self.number)

    def same(self, call: Callable[[Any], Any]) -> Any:
        """What the call gives in both stores, or the class of what it raises there."""
        mine, theirs = (_outcome(call, store) for store in (self.store, self.model))
        check_same(mine, theirs)
        return mine

    def ends(self) -> list[float]:
        """When lives end, and times to undo."""
        return []

    def dump(self) -> None:
        """Compare all that is stored."""
        for scope in self.own(WHOLE):
            check_same(self._events(self.store, scope), self._events(self.model, scope))

    def wipe(self) -> None:
        """Empty this run's apps."""
        raise AssertionError("a machine says how its apps are emptied")

    def teardown(self) -> None:
        """The last comparison."""
        try:
            self.dump()
        finally:
            self.wipe()

    def _events(self, store: Any, scope: Scope | None, op: str | None = None) -> list[Event]:
        after = 0 if store is self.model else self._first
        return store.events(scope=scope, op=op, after=after, limit=10**9)


def run_machine(make: Callable[[], Machine[Any]], *, runs: int | None = None) -> None:
    """So many runs of at most STEPS steps; None: as many as hypothesis' profile says."""
    chosen = settings(stateful_step_count=STEPS, deadline=None, phases=PHASES)
    if runs is not None:
        chosen = settings(chosen, max_examples=runs)
    run_state_machine_as_test(cast("Any", make), settings=chosen)


def check_same(mine: Any, theirs: Any, where: str = "") -> None:
    """The same, with types and the order of members, but for durations and places in logs; else where and what."""
    parts, others = _parts(mine), _parts(theirs)
    for (name, part), (other, there) in zip(parts, others, strict=False):
        assert name == other, f"at {where}: {name!r}, in process {other!r}"
        check_same(part, there, f"{where}/{name}")
    same = (type(mine), len(parts)) == (type(theirs), len(others)) and (parts or repr(mine) == repr(theirs))
    assert same, f"at {where or 'the result'}: {mine!r:.400}, in process {theirs!r:.400}"


def _parts(value: Any) -> list[tuple[Any, Any]]:
    """What a result is made of, by name; empty for what has no parts."""
    if isinstance(value, Event):
        value = replace(value, duration_s=0.0, seq=0)
    if isinstance(value, WaitingVector):
        value = replace(value, seq=0)
    if is_dataclass(value) and not isinstance(value, type):
        return [(item.name, getattr(value, item.name)) for item in fields(value)]
    if isinstance(value, Mapping):
        return list(cast("Mapping[Any, Any]", value).items())
    return list(enumerate(cast("Sequence[Any]", value))) if isinstance(value, (list, tuple)) else []


def _outcome(call: Callable[[Any], Any], store: Any) -> Any:
    try:
        return call(store)
    except OffpromptError as exc:
        return type(exc)


def _in_apps(value: Any, number: str) -> Any:
    if isinstance(value, Scope):
        return value if value.app.startswith(number) else replace(value, app=number + value.app)
    if is_dataclass(value) and not isinstance(value, type):
        changed: dict[str, Any] = {}
        for name in (item.name for item in fields(value)):
            part = getattr(value, name)
            in_app = number + part if name == "app" and isinstance(part, str) else _in_apps(part, number)
            if in_app is not part:
                changed[name] = in_app
        return replace(cast("Any", value), **changed) if changed else cast("Any", value)
    if isinstance(value, tuple) and value:
        return tuple(_in_apps(part, number) for part in cast("tuple[Any, ...]", value))
    return cast("Any", value)
