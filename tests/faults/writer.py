"""Does deeds until it is killed, and says what was acknowledged: the killed process' program.

python -m tests.faults.writer URL USER
"""

from __future__ import annotations

import sys

from tests.faults.deeds import do, opened


def main() -> None:
    """Deed after deed; its number is printed once all of it was acknowledged, and before all a word."""
    url, user = sys.argv[1:]
    sys.stdout.write("opens\n")
    sys.stdout.flush()
    engines = opened(url)
    number = 0
    while True:
        do(engines, user, number)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    main()
