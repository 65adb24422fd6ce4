"""A clock that tests move."""

from __future__ import annotations


class MovedClock:
    """A Clock that stands still until it is moved."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return self._now

    def move(self, seconds: float) -> None:
        """Let that many seconds pass; negative: turn the clock back."""
        self._now += seconds
