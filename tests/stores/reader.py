"""Reads from a store until its standard input ends: the other processes' program.

python reader.py URL USER
"""

from __future__ import annotations

import sys
import threading

from offprompt.bootstrap.engines import open_engines
from offprompt.bootstrap.urls import Urls
from offprompt.config import Settings
from offprompt.models.clocks import SystemClock
from offprompt.protocols import run
from offprompt.records import GetSlot, ListSlots, Scope, SlotQuery


def main() -> None:
    """Read, and print how often; a value that is not what its writer writes ends it with an error."""
    store, scope = open_engines(Urls(sys.argv[1]), SystemClock(), Settings(), create=True).main, Scope(user=sys.argv[2])
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    reads, newest = 0, -1
    while not over.wait(0.05):
        slot = run(store, GetSlot(scope, "slot0", touch=True))
        number = -1 if slot is None else _number(slot.value)
        if number < newest:
            raise SystemExit(f"read {number} after {newest}")
        newest = number
        for other in run(store, ListSlots(SlotQuery(scope, "exact"))):
            _number(other.value)
        reads += 1
    store.close()
    sys.stdout.write(f"{reads}\n")


def _number(value: object) -> int:
    if not isinstance(value, dict) or value["text"] != "值" * (value["number"] % 300):
        raise SystemExit("a value that nobody wrote")
    return int(value["number"])  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
