"""What the suites share: short forms of the ops, and the clock fixture."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.protocols import SlotStore, run
from offprompt.records import (
    EraseSlots,
    ForgetSlot,
    GetSlot,
    ListSlots,
    PutSlot,
    RestoreSlot,
    Scope,
    Slot,
    SlotHistory,
    SlotQuery,
    SlotVersion,
    SweepSlots,
)
from offprompt.testing.clock import MovedClock

ALICE = Scope(user="alice@example.com")
BOB = Scope(user="bob")


def put(store: SlotStore, name: str, value: Any, scope: Scope = ALICE, **options: Any) -> Slot:
    """Write a slot."""
    return run(store, PutSlot(scope, name, value, options.pop("policy", "by_handle"), **options))


def get(store: SlotStore, name: str, scope: Scope = ALICE, *, touch: bool = False) -> Slot | None:
    """The slot, or None."""
    return run(store, GetSlot(scope, name, touch=touch))


def value_of(store: SlotStore, name: str, scope: Scope = ALICE) -> Any:
    """The slot's value; `...` if there is no slot, since None is a value."""
    slot = get(store, name, scope)
    return ... if slot is None else slot.value


def forget(store: SlotStore, name: str, scope: Scope = ALICE, **options: Any) -> bool:
    """Hide a slot."""
    return run(store, ForgetSlot(scope, name, **options))


def restore(store: SlotStore, name: str, scope: Scope = ALICE, **options: Any) -> Slot:
    """Undo a forget."""
    return run(store, RestoreSlot(scope, name, **options))


def history(store: SlotStore, name: str, scope: Scope = ALICE) -> list[SlotVersion]:
    """The kept versions."""
    return run(store, SlotHistory(scope, name))


def erase(store: SlotStore, *names: str, scope: Scope = ALICE, **options: Any) -> int:
    """Remove slots; without names all of the scope."""
    return run(store, EraseSlots(scope, names or None, **options))


def sweep(store: SlotStore, **options: Any) -> int:
    """Remove what is over."""
    return run(store, SweepSlots(**options))


def found(store: SlotStore, query: SlotQuery) -> list[Slot]:
    """What a query finds."""
    return run(store, ListSlots(query))


def names_of(store: SlotStore, scope: Scope = ALICE, **conditions: Any) -> list[str]:
    """The names that a query finds, in order."""
    return [slot.name for slot in found(store, SlotQuery(scope, conditions.pop("within", "exact"), **conditions))]


class Suite:
    """The root of the suites."""

    @pytest.fixture
    def clock(self) -> MovedClock:
        """The clock that the store under test runs by."""
        return MovedClock()
