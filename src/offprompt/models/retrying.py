"""When a failed request is made again: pure rules."""

from __future__ import annotations

import email.utils
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

AGAIN: Final = frozenset({408, 425, 429})
SERVER: Final = 500


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is made again, and after how long.

    times    tries behind the first, 0: none. base_s: the first wait, doubled with each try up to max_s.
    """

    times: int = 4
    base_s: float = 0.5
    max_s: float = 30.0

    def wait_s(self, tries: int, asked: float | None, chance: float) -> float:
        """Seconds before the next try, after so many: what the endpoint asked for, if it did, and a little more;
        else between half of the doubled wait and all of it.

        chance   from 0 to 1, what spreads the waits of many callers.
        Source   "equal jitter" in Brooker 2015, "Exponential backoff and jitter".
        """
        if asked is not None:
            return asked + chance * min(asked, self.base_s) / 4
        full = min(self.max_s, self.base_s * 2 ** (tries - 1))
        return full * (1 + chance) / 2


def is_worth_a_try(status: int) -> bool:
    """Whether the same request may be answered later: too many, too early, too slow, or the server's own fault."""
    return status in AGAIN or status >= SERVER


def asked_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that `Retry-After-Ms` or `Retry-After` ask for, the latter as seconds or as a date; None: neither does.

    now   seconds since 1970, by the clock of this machine; a date that has passed asks for no wait.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name) or "") * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after") or "").timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, at - now)
