"""Any run of ops on slots does in process, which other engines are held against, what a plain dict would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offprompt.errors import ConflictError, LimitError, NameInvalidError, NotFoundError
from offprompt.protocols import SlotStore
from offprompt.records import Scope, SlotLimits, fold_name
from offprompt.stores.in_process import InProcessStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import erase, forget, get, history, names_of, put, restore, sweep

NAMES = st.sampled_from(["a", "A", "ａ", "b", "foo", "foobar", "fo_", "Straße", "STRASSE", "名字", "名"])
VALUES = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12), st.integers(), st.none(), st.lists(st.booleans(), max_size=2)
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, VALUES, st.sampled_from([None, 10.0, 30.0])),
        st.tuples(st.just("set"), NAMES, VALUES, st.integers(0, 3)),
        st.tuples(st.sampled_from(["get", "touch", "forget", "restore", "history", "erase"]), NAMES),
        st.tuples(st.just("move"), st.sampled_from([0.5, 9.5, 10.0, 100.0])),
        st.tuples(st.sampled_from(["list", "sweep"])),
    ),
    max_size=40,
)
LIMITS = SlotLimits(max_slots=4, keep_versions=2, undo_s=25.0)


@dataclass
class _Held:
    name: str
    values: list[tuple[int, Any]] = field(default_factory=list[tuple[int, Any]])
    expires_at: float | None = None
    forgotten_at: float | None = None
    uses: int = 0


class _Model:
    """A dict of lists, by folded name."""

    def __init__(self, clock: MovedClock) -> None:
        self.clock = clock
        self.held: dict[str, _Held] = {}

    def there(self, name: str, *, hidden: bool = False) -> _Held | None:
        held = self.held.get(fold_name(name))
        if held is None or (held.expires_at is not None and held.expires_at <= self.clock.now()):
            return None
        return held if hidden or held.forgotten_at is None else None

    def undoable(self, name: str) -> _Held | None:
        held = self.there(name, hidden=True)
        if held is None or held.forgotten_at is None:
            return None
        return held if self.clock.now() - held.forgotten_at < LIMITS.undo_s else None

    def live(self) -> list[str]:
        return [held.name for folded, held in sorted(self.held.items()) if self.there(folded) is not None]

    def put(self, name: str, value: Any, ttl_s: float | None, if_version: int | None) -> int | type[Exception]:
        current, hidden = self.there(name), self.undoable(name)
        if current is not None and current.name != name:
            return NameInvalidError
        if if_version is not None and if_version != (current.values[-1][0] if current else 0):
            return ConflictError
        if current is None and len(self.live()) >= LIMITS.max_slots:
            return LimitError
        held = current or _Held(name, list(hidden.values) if hidden is not None else [])
        version = held.values[-1][0] + 1 if held.values else 1
        held.values = [*held.values, (version, value)][-LIMITS.keep_versions :]
        held.expires_at = None if ttl_s is None else self.clock.now() + ttl_s
        self.held[fold_name(name)] = held
        return version

    def sweep(self) -> int:
        gone = [f for f, held in self.held.items() if self.there(f, hidden=True) is None or self._is_old(held)]
        for folded in gone:
            del self.held[folded]
        return len(gone)

    def _is_old(self, held: _Held) -> bool:
        return held.forgotten_at is not None and held.forgotten_at <= self.clock.now() - LIMITS.undo_s


@given(steps=STEPS)
def test_any_run_of_ops_is_as_with_a_dict(steps: list[Any]) -> None:
    clock = MovedClock()
    store, scope, model = InProcessStore(clock), Scope(user="u"), _Model(clock)
    for step in steps:
        _play(store, model, scope, *step)
    assert names_of(store, scope) == model.live()


def _play(store: SlotStore, model: _Model, scope: Scope, op: str, *given: Any) -> None:  # noqa: C901 - one case an op
    match op, given:
        case "put", (name, value, ttl_s):
            expected = model.put(name, value, ttl_s, None)
            assert _outcome(lambda: put(store, name, value, scope, ttl_s=ttl_s, limits=LIMITS).version) == expected
        case "set", (name, value, version):
            expected = model.put(name, value, None, version)
            made = _outcome(
                lambda: put(store, name, value, scope, ttl_s=None, if_version=version, limits=LIMITS).version
            )
            assert made == expected
        case "get" | "touch", (name,):
            held, slot = model.there(name), get(store, name, scope, touch=op == "touch")
            assert (slot is None) == (held is None)
            if slot is not None and held is not None:
                held.uses += op == "touch"
                assert (slot.name, slot.version, slot.value) == (held.name, *held.values[-1])
                assert (slot.uses, slot.expires_at) == (held.uses, held.expires_at)
        case "forget", (name,):
            held = model.there(name)
            assert forget(store, name, scope) == (held is not None)
            if held is not None:
                held.forgotten_at = model.clock.now()
        case "restore", (name,):
            held = model.undoable(name)
            is_full = len(model.live()) >= LIMITS.max_slots
            expected = NotFoundError if held is None else LimitError if is_full else held.values[-1][0]
            assert _outcome(lambda: restore(store, name, scope, limits=LIMITS).version) == expected
            if held is not None and not is_full:
                held.forgotten_at = None
        case "history", (name,):
            held = model.there(name, hidden=True)
            values = held.values if held is not None else []
            shown = [(version, value if held and held.forgotten_at is None else None) for version, value in values]
            assert [(kept.version, kept.value) for kept in history(store, name, scope)] == shown
        case "erase", (name,):
            assert erase(store, name, scope=scope) == (model.there(name, hidden=True) is not None)
            model.held.pop(fold_name(name), None)
        case "move", (seconds,):
            model.clock.move(seconds)
        case "list", ():
            assert names_of(store, scope) == model.live()
        case _:
            assert sweep(store, app=scope.app, undo_s=LIMITS.undo_s) == model.sweep()


def _outcome(call: Any) -> Any:
    """What a call returns, or the class of what it raises."""
    try:
        return call()
    except (NameInvalidError, ConflictError, LimitError, NotFoundError) as exc:
        return type(exc)
