"""Who has how many memories, and who does what how often."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offprompt.errors import UsageError

SIZES: Final = (100, 1_000, 10_000, 100_000)
"""The classes of scopes: at most so many memories."""

MIX: Final = {"recall": 0.6, "read": 0.2, "remember": 0.1, "write": 0.1}
"""Shares of what clients do: memories found, a slot read, a sentence remembered, a slot written."""

_STEPS: Final = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """A store for the bench: how many memories, of how many users, and how many the user has who has most.

    Users    are ranked: the one of rank r has a share in proportion to r^-s (Zipf), and asks as often; s follows from
             the three numbers.
    """

    memories: int = 1_000_000
    users: int = 10_000
    largest: int = 100_000

    def __post_init__(self) -> None:
        if not 1 <= self.users <= self.memories or not self.memories <= self.largest * self.users:
            raise UsageError(
                f"{self.memories} memories of {self.users} users cannot be with {self.largest} for the first; give at "
                "least one memory a user, and to the first no less than the mean"
            )
        if self.largest > self.memories - self.users + 1:
            raise UsageError(f"largest={self.largest} leaves nothing for the others; give a smaller one")

    @property
    def note(self) -> str:
        """The plan as the store's note says it."""
        return json.dumps(asdict(self), sort_keys=True)

    def shares(self) -> NDArray[np.float64]:
        """Each user's part, by rank; together 1."""
        ranks = np.arange(1, self.users + 1, dtype=np.float64)
        low, high = 0.0, 10.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            weights = ranks**-middle
            low, high = (middle, high) if weights[0] / weights.sum() < self.largest / self.memories else (low, middle)
        weights = ranks**-low
        return weights / weights.sum()

    def sizes(self) -> NDArray[np.int64]:
        """Memories of each user, by rank: at least one, together `memories`."""
        sizes = np.maximum(1, np.floor(self.shares() * self.memories + 1e-6).astype(np.int64))
        left = self.memories - int(sizes.sum())
        # What rounding left over goes to those in the middle, one by one; what it took comes from the larger ones.
        order = np.argsort(-sizes, kind="stable")
        order = order[1:] if len(order) > 1 else order
        step = 1 if left > 0 else -1
        chosen = order if left > 0 else order[sizes[order] > 1]
        for at in range(abs(left)):
            sizes[chosen[at % len(chosen)]] += step
        return sizes


def user_of(rank: int) -> str:
    """The name of the user of a rank, from 0."""
    return f"load-{rank:06}"


def class_of(size: int) -> int:
    """The smallest class that holds a scope of so many memories; the last one for larger ones."""
    return next((most for most in SIZES if size <= most), SIZES[-1])
