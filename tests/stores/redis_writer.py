"""Counts up a slot that others count up too, and writes one of its own each time: the other processes' program.

python redis_writer.py URL USER COUNT    each acknowledged count is printed
"""

from __future__ import annotations

import sys

from offprompt.errors import ConflictError
from offprompt.models.clocks import SystemClock
from offprompt.protocols import run
from offprompt.records import GetSlot, PutSlot, Scope
from offprompt.stores.redis import RedisStore

EVERYBODY = Scope(shared=True)


def main() -> None:
    """Count."""
    url, user, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    store = RedisStore(url, clock=SystemClock())
    for number in range(count):
        run(store, PutSlot(Scope(user=user), f"own{number % 5}", number, "by_handle"))
        while True:
            slot = run(store, GetSlot(EVERYBODY, "数"))
            version, value = (slot.version, slot.value) if slot is not None else (0, 0)
            assert isinstance(value, int)
            try:
                run(store, PutSlot(EVERYBODY, "数", value + 1, "by_handle", if_version=version))
            except ConflictError:
                continue
            break
        sys.stdout.write(f"{value + 1}\n")
    store.close()


if __name__ == "__main__":
    main()
