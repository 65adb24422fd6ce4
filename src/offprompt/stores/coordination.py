"""Coordination over a store's notes: for engines without a means of their own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from offprompt.errors import ConflictError
from offprompt.protocols import Clock, Notes

R = TypeVar("R")

ONCE: Final = "once:"
SWEEP_EVERY: Final = 32
SWEPT: Final = 128
"""Every so many calls of `once` look at so many notes: more of them go than come."""

TINY_S: Final = 1e-6
"""What two sums of times may differ by."""


class NotedCoordinator:
    """Coordinator over the notes of a store: each call that changes something is one write there.

    Cost   a note stays for each key of `take` and `lease`: for a bounded number of keys. Those of `once` whose time is
           over are removed by later calls of it, a few each time. Many calls a second are for Redis.
    """

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes, self._clock = notes, clock
        self._calls = itertools.count(1)
        self._looked_at = ""

    def take(self, key: str, *, limit: int, per_s: float) -> float:
        """See Coordinator."""
        step = 1 / per_s

        def work(kept: dict[str, Any], now: float) -> tuple[float, dict[str, Any]]:
            full = min(max(kept.get("full", 0.0), now), now + limit * step)
            wait = full - now - (limit - 1) * step
            return (wait, {"full": full}) if wait > TINY_S else (0.0, {"full": full + step})

        return self._change(f"rate:{key}", work)

    def once(self, key: str, digest: str, *, seconds: float) -> str | None:
        """See Coordinator."""

        def work(kept: dict[str, Any], now: float) -> tuple[str | None, dict[str, Any]]:
            if kept.get("until", 0.0) > now:
                return result_of(key, digest, kept["digest"], kept.get("result"), kept["until"] - now), kept
            return None, {"digest": digest, "until": now + seconds}

        if next(self._calls) % SWEEP_EVERY == 0:
            self._sweep()
        return self._change(f"{ONCE}{key}", work)

    def finish(self, key: str, digest: str, result: str | None, *, ttl_s: float) -> None:
        """See Coordinator."""

        def work(kept: dict[str, Any], now: float) -> tuple[None, dict[str, Any]]:
            if kept.get("digest") != digest or "result" in kept:
                return None, kept
            return None, {} if result is None else {"digest": digest, "until": now + ttl_s, "result": result}

        self._change(f"{ONCE}{key}", work)

    def lease(self, key: str, holder: str, *, seconds: float) -> int | None:
        """See Coordinator."""

        def work(kept: dict[str, Any], now: float) -> tuple[int | None, dict[str, Any]]:
            is_held, number = kept.get("until", 0.0) > now, kept.get("number", 0)
            if is_held and kept["holder"] != holder:
                return None, kept
            number += not is_held
            return number, {"holder": holder, "until": now + seconds, "number": number}

        return self._change(f"lease:{key}", work)

    def release(self, key: str, holder: str) -> None:
        """See Coordinator."""

        def work(kept: dict[str, Any], _now: float) -> tuple[None, dict[str, Any]]:
            return None, kept | {"until": 0.0} if kept.get("holder") == holder else kept

        self._change(f"lease:{key}", work)

    def _sweep(self) -> None:
        """Remove what is over among the next few notes of `once`, and begin from the first one behind the last."""
        some, now = self._notes.notes(ONCE, after=self._looked_at, limit=SWEPT), self._clock.now()
        over = [(name, text) for name, text in some if json.loads(text)["until"] <= now]
        if over:
            self._notes.drop_notes(over)
        self._looked_at = some[-1][0] if len(some) == SWEPT else ""

    def _change(self, name: str, work: Callable[[dict[str, Any], float], tuple[R, dict[str, Any]]]) -> R:
        while True:
            was = self._notes.note(name)
            kept: dict[str, Any] = json.loads(was) if was is not None else {}
            result, after = work(kept, self._clock.now())
            if after == kept or self._notes.set_note(name, json.dumps(after) if after else None, was=was):
                return result


def result_of(key: str, digest: str, kept: str, result: str | None, left_s: float) -> str:
    """The result under a key that stands for the digest `kept`; None: it is being done.

    Raises   ConflictError as Coordinator.once says.
    """
    if kept != digest:
        raise ConflictError(f"the key {key!r} was used for something else already; use a new key for each request")
    if result is None:
        raise ConflictError(
            f"what the key {key!r} stands for is being done by another call; ask again soon: in {left_s:.0f} s at the "
            "latest it is done, or may be begun anew",
            retry_after_s=min(1.0, max(0.0, left_s)),
        )
    return result
