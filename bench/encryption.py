"""What encryption at rest costs: the same work on a plain and on a sealed SQLite store, by turns, in one run.

    .venv/bin/python -m bench.encryption

Printed   medians of both in milliseconds, and the ratio of the medians; medians of ratios would hide what a sync costs.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import offprompt
from offprompt.privacy.app_key import key_text
from offprompt.protocols import apply
from offprompt.records import LoadIndex
from offprompt.service.copying import Whole, copy
from offprompt.service.offprompt import Offprompt

MEMORIES = 10_000
ROUNDS = 300
COLD_ROUNDS = 5
NAMES = ["Marta", "Ada", "李明", "Jonas", "Chidi", "王芳", "Ines", "Tariq"]
THINGS = ["tea", "chess", "the night train", "rain", "old maps", "乌龙茶", "blue paint", "long walks"]


def settings(folder: Path) -> dict[str, Any]:
    """Those of the sealed store."""
    key = folder / "app.key"
    key.write_text(key_text(b"\x2a" * 32))
    return {"encryption_keyring": str(folder / "ring" / "keys.db"), "encryption_key_file": str(key)}


def timed(work: Callable[[int], object], number: int) -> float:
    """Milliseconds that it takes."""
    began = time.perf_counter()
    work(number)
    return (time.perf_counter() - began) * 1000


def compared(what: str, pair: list[Callable[[int], object]], rounds: int) -> None:
    """Do the work on both by turns, and print what it took."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for at in (0, 1) if number % 2 else (1, 0):
            taken[at].append(timed(pair[at], number))
    plain, sealed = map(statistics.median, taken)
    print(f"{what:<34} {plain:9.3f} {sealed:9.3f} {sealed / plain:7.2f}", flush=True)


def main() -> None:
    """Fill, copy, compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = settings(folder)
        where = folder / "plain" / "a.db", folder / "sealed" / "a.db"

        def opened(at: int) -> Offprompt:
            return offprompt.open(where[at], **(own if at else {}))

        texts = [
            f"{NAMES[number % 8]} number {number} likes {THINGS[number // 8 % 8]} at {number % 24} o'clock"
            for number in range(MEMORIES)
        ]
        with opened(0) as plain:
            for at in range(0, MEMORIES, 500):
                plain.scope(user="alice").remember(texts[at : at + 500])
            with opened(1) as target:
                copy(Whole.of(plain.parts), Whole.of(target.parts))
        for at, path in enumerate(where):
            print(("plain", "sealed")[at], sum(one.stat().st_size for one in path.parent.iterdir()) >> 20, "MiB")

        def cold(at: int) -> Callable[[int], object]:
            def work(number: int) -> object:
                with opened(at) as memory:
                    return memory.scope(user="alice").recall(f"what does Ada number {number * 8 + 1} like")

            return work

        print(f"{'ms, median':<34} {'plain':>9} {'sealed':>9} {'ratio':>7}")
        compared("open and first recall, 10,000", [cold(0), cold(1)], COLD_ROUNDS)
        with opened(0) as plain, opened(1) as sealed:
            both = plain, sealed
            for one in both:
                one.scope(user="alice").recall("warm")
            for what, make, rounds in (
                ("recall, 10,000, warm", recalled, ROUNDS),
                ("load 10,000 from the file", loaded, COLD_ROUNDS),
                ("slot write", written, ROUNDS),
                ("slot read", read, ROUNDS),
                ("remember one text", remembered, ROUNDS // 3),
            ):
                compared(what, [make(one) for one in both], rounds)


def recalled(one: Offprompt) -> Callable[[int], object]:
    """One question."""
    return lambda number: one.scope(user="alice").recall(f"what does 李明 number {number * 8 + 2} like")


def loaded(one: Offprompt) -> Callable[[int], object]:
    """What a recall loads of a scope that is not kept."""
    return lambda _: apply(one.parts.main, LoadIndex(one.scope(user="alice").scope, 0))


def written(one: Offprompt) -> Callable[[int], object]:
    """One new version of one slot."""
    return lambda number: one.scope(user="alice").write("city", f"Porto {number}")


def read(one: Offprompt) -> Callable[[int], object]:
    """One slot."""
    return lambda _: one.scope(user="alice").read("city")


def remembered(one: Offprompt) -> Callable[[int], object]:
    """One text, with its vector."""
    return lambda number: one.scope(user="alice").remember(f"Ada said {number} things about tea")


if __name__ == "__main__":
    main()
