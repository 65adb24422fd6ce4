"""Writes slots and remembers texts by the product's own calls, which spool, and says what was taken: stored or kept.

python -m tests.faults.spooler URL USER FIRST DEADLINE    until killed
"""

from __future__ import annotations

import sys

import offprompt
from tests.faults.deeds import NAMES, text_of, value_of


def main() -> None:
    """Number after number; each is printed with `spooled` where one of its writes waits on this machine."""
    url, user, first, deadline = sys.argv[1:]
    scope = offprompt.open(url, write_deadline_s=float(deadline), embedder="none").scope(user=user)
    number = int(first)
    while True:
        slot = scope.write(f"slot{number % NAMES}", value_of(number), policy="by_handle")
        (done,) = scope.remember(text_of(user, number))
        sys.stdout.write(f"{number} {'spooled' if slot.spooled or done.outcome == 'spooled' else 'stored'}\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    main()
