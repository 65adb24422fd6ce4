"""The system's clock."""

from __future__ import annotations

import time


class SystemClock:
    """Seconds since 1970 by the machine's clock."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()
