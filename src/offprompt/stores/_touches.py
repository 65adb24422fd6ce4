"""Uses of slots that wait in memory, so that a read need not write."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from offprompt.records import Event, Slot, fold_name
from offprompt.stores._rules import slid_far

MAX_WAITING: Final = 256

SlotKey: TypeAlias = tuple[tuple[str, str, str, str], str, float]
"""Scope key, folded name, created_at: a slot begun anew under the name is another one."""


@dataclass(frozen=True, slots=True)
class Touch:
    """One read: its event, and the slot's expiry after it; slot None: the read found nothing."""

    slot: SlotKey | None
    expires_at: float | None
    event: Event
    urgent: bool = False


@dataclass(slots=True)
class Uses:
    """Several uses of one slot: how many, the last one's time, the latest expiry."""

    count: int = 0
    used_at: float = 0.0
    expires_at: float | None = None

    def add(self, touch: Touch) -> None:
        """Count one more."""
        self.count += 1
        self.used_at = max(self.used_at, touch.event.at)
        if touch.expires_at is not None:
            self.expires_at = max(self.expires_at or 0.0, touch.expires_at)


def summed(touches: Iterable[Touch]) -> dict[SlotKey, Uses]:
    """The uses of each slot that was read."""
    found: dict[SlotKey, Uses] = {}
    for touch in touches:
        if touch.slot is not None:
            found.setdefault(touch.slot, Uses()).add(touch)
    return found


def slot_key(slot: Slot) -> SlotKey:
    """What identifies the slot among those that had its name."""
    return slot.scope.key, fold_name(slot.name), slot.created_at


class Touches:
    """The waiting uses of one store object. Thread-safe; a forked child begins without any: they are the parent's."""

    def __init__(self) -> None:
        self._start()

    def add(self, touches: list[Touch]) -> bool:
        """Keep them; whether it is time to write: many wait, or one slid far."""
        with self._lock_here():
            before = len(self._waiting)
            self._waiting.extend(touches)
            for touch in touches:
                if touch.slot is not None:
                    self._sums.setdefault(touch.slot, Uses()).add(touch)
            is_time = before // MAX_WAITING < len(self._waiting) // MAX_WAITING
            return is_time or any(touch.urgent for touch in touches)

    def waiting(self) -> list[Touch]:
        """All that wait, oldest first."""
        with self._lock_here():
            return list(self._waiting)

    def drop(self, count: int) -> None:
        """Let go of the oldest: they are stored."""
        with self._lock_here():
            self._waiting = self._waiting[count:]
            self._sums = summed(self._waiting)

    def over(self, slot: Slot, key: SlotKey) -> Slot:
        """The slot, whose key this is, as it is with what waits for it."""
        with self._lock_here():
            waits = self._sums.get(key) if self._sums else None
            if waits is None:
                return slot
            expires_at = slot.expires_at
            if slot.sliding and expires_at is not None and waits.expires_at is not None:
                expires_at = max(expires_at, waits.expires_at)
            return slot.used(slot.uses + waits.count, waits.used_at, expires_at)

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: list[Touch] = []
        self._sums: dict[SlotKey, Uses] = {}

    def _lock_here(self) -> threading.Lock:
        if self._pid != os.getpid():
            self._start()
        return self._lock


def touch_of(key: SlotKey, stored: Slot, after: Slot, event: Event) -> Touch:
    """The touch of a slot; `stored` as it is in the file, without what waits."""
    return Touch(key, after.expires_at, event, slid_far(stored, after))
