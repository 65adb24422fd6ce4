"""Quotas: what one app may store, and how often it may ask."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Final

from offprompt.config import Settings
from offprompt.errors import LimitError, RateError
from offprompt.protocols import Clock, Coordinator, MemoryStore, SlotStore, apply, run
from offprompt.records import Identity, MeasureMemories, MeasureSlots

MEASURED_S: Final = 10.0
"""Seconds for which a measure is gone on from; so long what other processes store is not seen."""

AGAIN_S: Final = 1.0
"""Seconds after which an app that is full is measured anew: it may have erased something."""

MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Stored:
    """What an app has stored: as measured, with what this process has added since. bytes: of values and records."""

    at: float = float("-inf")
    slots: int = 0
    memories: int = 0
    bytes: int = 0


class Quotas:
    """The quotas of the settings, for each app on its own. Thread-safe.

    Requests  are counted by the coordinator, so for all processes together; a key's own beside its app's.
    Room      is measured at most every MEASURED_S seconds, and what this process adds is counted; so several processes
              may together go beyond a limit by what they add in that time.
    Cost      of room: where no limit is set, none; else the measure, O(slots and memories of the app).
    """

    def __init__(
        self, slots: SlotStore, memories: MemoryStore, coordinator: Coordinator, clock: Clock, settings: Settings
    ) -> None:
        self._slots, self._memories, self._coordinator = slots, memories, coordinator
        self._clock, self._settings = clock, settings
        self._stored: dict[str, Stored] = {}
        self._lock = threading.Lock()

    def counts_requests(self, identity: Identity) -> bool:
        """Whether the identity's requests have a limit."""
        return self._settings.requests_per_minute > 0 or identity.requests_per_minute is not None

    def take(self, identity: Identity) -> None:
        """Count a request.

        Raises   RateError if the key or the app has made as many as it may; the request is not counted then.
        """
        own, of_app = identity.requests_per_minute, self._settings.requests_per_minute
        if own is not None:
            self._take(f"key {identity.key}", f"requests/key/{identity.key}", own)
        if of_app:
            self._take(f"app {identity.app!r}", f"requests/app/{identity.app}", of_app)

    def make_room(self, app: str, *, slots: int = 0, memories: int = 0, size: int = 0) -> None:
        """Nothing, if the app may store that much more; it is counted as stored.

        size     bytes of values and texts; less than 0 where what is shorter replaces something.
        Raises   LimitError naming what is full.
        """
        own = self._settings
        if not (own.max_app_slots or own.max_app_memories or own.max_app_bytes):
            return
        with self._lock:
            stored = self._measured(app, MEASURED_S)
            if self._full(stored, slots, memories, size) is not None:
                stored = self._measured(app, AGAIN_S)
            full = self._full(stored, slots, memories, size)
            if full is not None:
                raise full
            self._stored[app] = replace(
                stored, slots=stored.slots + slots, memories=stored.memories + memories, bytes=stored.bytes + size
            )

    def _take(self, whose: str, name: str, limit: int) -> None:
        wait_s = self._coordinator.take(name, limit=limit, per_s=limit / MINUTE_S)
        if wait_s > 0:
            raise RateError(
                f"requests of {whose} in a minute",
                used=limit,
                limit=limit,
                unit="requests",
                way_out=f"ask again in {wait_s:.1f} s, or raise requests_per_minute",
                retry_after_s=wait_s,
            )

    def _full(self, stored: Stored, slots: int, memories: int, size: int) -> LimitError | None:
        """Why so much more may not be stored; what takes no more of something may, however full that is."""
        own = self._settings
        for what, used, added, limit, setting in (
            ("slots", stored.slots, slots, own.max_app_slots, "max_app_slots"),
            ("memories", stored.memories, memories, own.max_app_memories, "max_app_memories"),
            ("bytes", stored.bytes, size, own.max_app_bytes, "max_app_bytes"),
        ):
            if limit and added > 0 and used + added > limit:
                way_out = f"erase what is no longer needed, or raise {setting}"
                return LimitError("the app would have", used=used + added, limit=limit, unit=what, way_out=way_out)
        return None

    def _measured(self, app: str, within_s: float) -> Stored:
        now, known = self._clock.now(), self._stored.get(app, Stored())
        if 0 <= now - known.at < within_s:
            return known
        slots, memories = run(self._slots, MeasureSlots(app)), apply(self._memories, MeasureMemories(app))
        return Stored(now, slots.count, memories.count, slots.bytes + memories.bytes)
