"""What recall costs without an embedder: analysis, stored bytes, loading, search, adding, in processor time.

    python bench/recall_cost.py [NUMBER OF DOCS …]

Texts are made of random words, vectors of random numbers; half of the docs are turns of logs.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Iterator

import numpy as np

from offprompt.recall.docs import Content, Doc, Query, analyse
from offprompt.recall.packing import pack, unpack
from offprompt.recall.scope_index import ScopeIndex

DIMENSION = 512
SEARCHES = 200
ADDED = 2000


def random_texts() -> Iterator[str]:
    """Texts of 8 to 30 words, whose frequencies fall as in language (Zipf)."""
    rng = random.Random(1)  # noqa: S311 - a repeatable draw
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvw" for vowel in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(20000)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    while True:
        yield " ".join(rng.choices(words, cum_weights=weights, k=rng.randint(8, 30)))


def doc(number: int, content: Content) -> Doc:
    return Doc(
        doc_id=f"m{number}",
        content=content,
        kind="episode" if number % 2 else "fact",
        speaker="user" if number % 4 == 1 else "assistant",
        session=f"s{number // 40}",
        order=number,
        created_at=float(number),
    )


def cost(docs: int) -> None:
    texts = random_texts()
    vectors = np.random.default_rng(1).standard_normal((docs, DIMENSION), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    begun = time.process_time()
    contents = [analyse(next(texts), vector=vector) for vector in vectors]
    analysed = (time.process_time() - begun) / docs
    stored = [pack(content) for content in contents]
    begun = time.process_time()
    index = ScopeIndex(unrelated=0.1)
    index.add(doc(number, content) for number, data in enumerate(stored) if (content := unpack(data)))
    loaded = time.process_time() - begun
    searches: list[float] = []
    for vector in vectors[:SEARCHES]:
        query = Query(text=next(texts), vector=vector, now=1e6, speaker="user")
        begun = time.process_time()
        index.search(query)
        searches.append(1e3 * (time.process_time() - begun))
    begun = time.process_time()
    for number in range(ADDED):
        index.add([doc(docs + number, contents[number])])
    added = (time.process_time() - begun) / ADDED
    half, most = np.percentile(searches, (50, 99))
    size = sum(map(len, stored)) / docs
    print(
        f"| {docs:,} | {half:.1f} / {most:.1f} ms | {loaded:.2f} s | {1e3 * added:.2f} ms "
        f"| {1e3 * analysed:.2f} ms | {size:,.0f} bytes |"
    )


def main() -> None:
    print("| docs | search, median / 99 % | loaded | one doc added | one text analysed | stored, with its vector |")
    print("|---|---|---|---|---|---|")
    for docs in [int(number) for number in sys.argv[1:]] or [10_000, 100_000]:
        cost(docs)


if __name__ == "__main__":
    main()
