"""How long an ingest takes: `python bench/ingest.py [EMBEDDER]`; one document of 2,000 passages, new, again, moved."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import offprompt
from offprompt.records.document import Ingested

SECTIONS = 2000
SENTENCES, WORDS = 8, 12


def text_of(seed: int) -> str:
    """Sections of made-up words, some 700 letters each."""
    rng = random.Random(seed)  # noqa: S311 - made-up words
    words = [
        "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(rng.randint(2, 4))) for _ in range(4000)
    ]
    sections: list[str] = []
    for at in range(SECTIONS):
        sentences = [" ".join(rng.choices(words, k=WORDS)).capitalize() + "." for _ in range(SENTENCES)]
        sections.append(f"## Section {at}\n\n{' '.join(sentences)}")
    return "\n\n".join(sections)


def timed(what: str, call: Callable[[], Ingested]) -> None:
    """Print what became of a document, and in how long."""
    start = time.perf_counter()
    done = call()
    took = time.perf_counter() - start
    print(
        f"{what:6} {done.outcome:10} {done.added:5} new of {done.passages:5}  {took:6.2f} s {done.added / took:6.0f}/s"
    )


def main(embedder: str) -> None:
    """All three, on a store of its own."""
    text = text_of(1)
    with tempfile.TemporaryDirectory() as folder, offprompt.open(Path(folder) / "own.db", embedder=embedder) as mem:
        space = mem.space("bench")
        space.put_document("warm.md", b"Loads the embedder.")
        timed("new", lambda: space.put_document("a.md", text.encode()))
        timed("again", lambda: space.put_document("a.md", text.encode()))
        timed("moved", lambda: space.put_document("a.md", f"Before it all.\n\n{text}".encode()))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "use")
