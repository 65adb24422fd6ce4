"""Finding: what a look at a store's health says about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked.

    name     of the check, e.g. `integrity`. state: `ok`, `warn` (works, but), `fail` (not sound).
    what     what was found, in one sentence. way_out: what to do about it; empty when ok.
    """

    name: str
    state: Literal["ok", "warn", "fail"]
    what: str
    way_out: str = ""
