"""What looking for leaks costs: time to build and to scan, memory; in texts that share much; leaks missed, false ones.

    python bench/leaks.py [--bodies 10000] [--plants 10000] [--clean 10000]

Time is printed in milliseconds and as a multiple of one SHA-256 pass over the same bytes on the same machine. Real text
is read from the folder that OFFPROMPT_DATA names; without it the texts are made of random words.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from offprompt.testing.leak_texts import clean_requests, log_texts, random_words
from offprompt.testing.leaks import ENCODINGS, plant
from offprompt.wire.folding import fold
from offprompt.wire.leaks import LeakIndex

REQUEST_BYTES = 500_000


def best_ms(call: Callable[[], object], rounds: int = 15) -> float:
    times: list[float] = []
    for _ in range(rounds):
        # The thread's own time: what else runs on the machine costs cache, but not the time that it takes.
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return min(times) * 1e3


def cost(bodies: int, texts: dict[str, list[str]]) -> None:
    rng = random.Random(1)  # noqa: S311 - a repeatable draw
    values = {f"@{number}": random_words(rng, 4096, chinese=number % 4 == 0) for number in range(bodies)}
    begin = time.thread_time()
    index = LeakIndex()
    for name, value in values.items():
        index.add(name, value)
    index.find("What waits is taken in.")
    seconds = time.thread_time() - begin
    size = sum(len(value.encode()) for value in values.values())
    print(f"build      {bodies} bodies, {size / 1e6:.1f} MB: {seconds:.1f} s; fingerprints {index.bytes / 1e6:.1f} MB")
    for secrets in (0, 40):
        for number in range(secrets):
            index.add(f"secret{number}", "".join(rng.choices("abcdefghijk0123456789", k=8 + number % 12)), secret=True)
        print(f"with {secrets} short secrets:")
        for kind, pieces in texts.items():
            raw = "\n".join(pieces).encode() * (1 + REQUEST_BYTES // max(1, len("\n".join(pieces).encode())))
            request = raw[:REQUEST_BYTES].decode("utf-8", "ignore")
            sha = best_ms(lambda raw=raw: hashlib.sha256(raw[:REQUEST_BYTES]).digest())
            folding, scan = best_ms(lambda request=request: fold(request)), best_ms(lambda r=request: index.find(r))
            found = len(index.find(request))
            print(f"  {kind:14} sha {sha:.2f} ms, fold {folding / sha:4.1f} ×, find {scan / sha:5.1f} ×, {found} found")


def shared(texts: dict[str, list[str]]) -> None:
    rng = random.Random(5)  # noqa: S311 - a repeatable draw
    for kind, pieces in texts.items():
        drawn = rng.sample(pieces, min(230, len(pieces)))
        index = LeakIndex({str(number): piece for number, piece in enumerate(drawn[:200])})
        for name, some in (("stored ones", drawn[:30]), ("others", drawn[200:])):
            if text := "\n".join(some):
                scan, found = best_ms(lambda text=text, index=index: index.find(text), rounds=5), len(index.find(text))
                size = len(text.encode()) / 1e3
                print(f"shared     {kind}, {name}: {size:.0f} KB in {scan:.0f} ms, {found} found")


def planted(texts: dict[str, list[str]], count: int) -> None:
    rng = random.Random(2)  # noqa: S311 - a repeatable draw
    values = {f"{kind}{n}": piece for kind, pieces in texts.items() for n, piece in enumerate(pieces[:200:2])}
    hosts = [piece[:400] for pieces in texts.values() for piece in pieces[1:200:2]]
    index = LeakIndex(values)
    missed: Counter[str] = Counter()
    for number in range(count):
        one = plant(rng, values, hosts, encoding=list(ENCODINGS)[number % len(ENCODINGS)])
        found = index.find(one.text)
        missed[one.encoding] += not any(leak.start < one.end and leak.end > one.start for leak in found)
    gone = sum(missed.values())
    print(f"planted    {count}: {100 - 100 * gone / count:.2f} % found; missed {dict(+missed)}")


def clean(texts: dict[str, list[str]], count: int) -> None:
    for kind, (index, requests, shared) in clean_requests(texts, count).items():
        false = sum(bool(index.find(request)) for request in requests)
        print(
            f"clean      {kind}: {false} of {len(requests)} with a leak that is none ({shared} left out: they do share)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bodies", "plants", "clean"):
        parser.add_argument(f"--{name}", type=int, default=10_000)
    asked = parser.parse_args()
    folder = os.environ.get("OFFPROMPT_DATA")
    rng = random.Random(4)  # noqa: S311 - a repeatable draw
    words = [random_words(rng, 2000) for _ in range(400)]
    texts = log_texts(Path(folder)) if folder else {"words": words}
    cost(asked.bodies, texts)
    shared(texts)
    planted(texts, asked.plants)
    clean(texts, asked.clean)


if __name__ == "__main__":
    main()
