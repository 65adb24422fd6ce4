"""How large the base install is, and how long `import offprompt` takes.

The package is installed into a fresh virtual environment; its size is what that environment grew by. Over the limit
is a failure. Time depends on the machine, so it is printed, as such and as a multiple of `python -c pass`, and fails
nothing.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

LIMIT_MB = 150
ROUNDS = 7


def size_mb(folder: Path) -> float:
    """Megabytes (10^6 bytes) of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def seconds(python: Path, code: str) -> float:
    """The median time of a fresh interpreter that runs the code."""
    times: list[float] = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        subprocess.run([str(python), "-c", code], check=True)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> int:
    """Measure, print, and return 1 if the install is over the limit."""
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "venv"
        venv.create(place, with_pip=True)
        python = place / "bin" / "python"
        # Running pip writes byte code of its own; that is not the package's.
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--help"], check=True, stdout=subprocess.DEVNULL
        )
        subprocess.run([str(python), "-m", "compileall", "-q", str(place)], check=False, stdout=subprocess.DEVNULL)
        before = size_mb(place)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(root)], check=True)
        grown = size_mb(place) - before
        bare, loaded = seconds(python, "pass"), seconds(python, "import offprompt")
    verdict = "ok" if grown <= LIMIT_MB else "TOO LARGE"
    lines = [
        f"base install: {grown:.1f} MB of {LIMIT_MB} MB ({verdict})",
        f"import offprompt: {1000 * (loaded - bare):.0f} ms on this machine, {loaded / bare:.1f} x `python -c pass`",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if grown <= LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main())
