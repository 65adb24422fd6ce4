"""Writes to a store until it is done or killed, and says what was acknowledged: the other processes' program.

python writer.py URL USER COUNT    COUNT -1: until killed
"""

from __future__ import annotations

import sys

from offprompt.bootstrap.engines import open_engines
from offprompt.bootstrap.urls import Urls
from offprompt.config import Settings
from offprompt.models.clocks import SystemClock
from offprompt.protocols import run
from offprompt.records import PutSlot, Scope

NAMES = 20


def main() -> None:
    """Write slot after slot, `text` with its own number in it, and print the number when the store said yes."""
    url, user, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    store = open_engines(Urls(url), SystemClock(), Settings(), create=True).main
    number = 0
    while number != count:
        scope = Scope(user=user)
        value = {"number": number, "text": "值" * (number % 300)}
        slot = run(store, PutSlot(scope, f"slot{number % NAMES}", value, "by_handle"))
        sys.stdout.write(f"{number} {slot.version}\n")
        sys.stdout.flush()
        number += 1
    store.close()


if __name__ == "__main__":
    main()
