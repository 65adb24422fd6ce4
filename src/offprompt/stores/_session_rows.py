"""Sessions of the engine that ends with the process."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A session as kept: texts, so that nobody holds what is stored."""

    record: str
    revision: int
    used_at: float
    journal: dict[str, str] = field(default_factory=dict[str, str])
    bodies: dict[str, str] = field(default_factory=dict[str, str])
    ledger: dict[int, str] = field(default_factory=dict[int, str])
