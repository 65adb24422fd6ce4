"""Texts for measuring the search for leaks: pieces of real logs, words at random, and requests that are clean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from offprompt.records import as_dict, as_list
from offprompt.wire.folding import fold
from offprompt.wire.leaks import LeakIndex

LOGS: Final = {
    "airline": "tau-bench/gpt-4o-airline.json",
    "coding": "swe-agent/*.traj",
    "chat": "longmemeval/haystacks.json",
    "chinese": "madial/MADial-Bench-zh-*.json",
}
PIECE: Final = 2000
# Below what 32 characters or 12 Han fold to, and below what the search guarantees.
SHARED_BYTES: Final = 18


def log_texts(folder: Path) -> dict[str, list[str]]:
    """Pieces of 2,000 characters of what was said in the logs of a data folder, by kind of log."""
    found: dict[str, list[str]] = {}
    for kind, pattern in LOGS.items():
        texts = [text for path in sorted(folder.glob(pattern)) for text in _texts(_documents(path)) if len(text) > 20]
        whole = "\n".join(dict.fromkeys(texts))
        found[kind] = [whole[at : at + PIECE] for at in range(0, len(whole) - PIECE, PIECE)]
    return found


def _documents(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in as_list(value) or (as_dict(value) or {}).values():
        yield from _texts(item)


def random_words(rng: Random, size: int, *, chinese: bool = False) -> str:
    """Text of about that many UTF-8 bytes."""
    if chinese:
        return "".join(chr(rng.randint(0x4E00, 0x9FA5)) if rng.random() < 0.9 else "，" for _ in range(size // 3))
    words: list[str] = []
    while size > 0:
        words.append("".join(rng.choices("etaoinshrdlucmfw", k=rng.randint(2, 9))))
        size -= len(words[-1]) + 1
    return " ".join(words)


def clean_requests(texts: Mapping[str, Sequence[str]], count: int) -> dict[str, tuple[LeakIndex, list[str], int]]:
    """By kind of log: an index of values of all kinds, requests of that kind that share nothing with them, and how
    many were left out because they do share a run of folded bytes with a value: found here by looking at all of them.
    """
    rng = Random(3)  # noqa: S311 - a repeatable draw
    values = {f"{kind}{number}": piece for kind, pieces in texts.items() for number, piece in enumerate(pieces[:80:2])}
    known: set[bytes] = set()
    for value in values.values():
        folded = fold(value)
        known.update(folded[at : at + SHARED_BYTES] for at in range(len(folded) - SHARED_BYTES + 1))
    index = LeakIndex(values)
    made: dict[str, tuple[LeakIndex, list[str], int]] = {}
    for kind, pieces in texts.items():
        requests: list[str] = []
        shared = 0
        for _ in range(40 * count):
            if len(requests) == count // len(texts):
                break
            piece = rng.choice(pieces)
            start = rng.randrange(len(piece))
            request = piece[start : start + rng.randint(60, PIECE)]
            folded = fold(request)
            if any(folded[at : at + SHARED_BYTES] in known for at in range(len(folded) - SHARED_BYTES + 1)):
                shared += 1
            else:
                requests.append(request)
        made[kind] = (index, requests, shared)
    return made
