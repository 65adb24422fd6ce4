"""Leaks planted in real logs are found, and clean requests made of real logs have none. Everything is drawn by seed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from offprompt.testing.leak_texts import clean_requests, log_texts, random_words
from offprompt.testing.leaks import ENCODINGS, plant
from offprompt.wire.leaks import LeakIndex

pytestmark = pytest.mark.data

ROUNDS = [pytest.param(1_000, id="quick"), pytest.param(10_000, id="whole", marks=pytest.mark.long)]


@pytest.mark.parametrize("count", ROUNDS)
def test_of_planted_leaks_999_in_1000_are_found(data: Path, count: int) -> None:
    rng = random.Random(2)  # noqa: S311
    texts = log_texts(data)
    values = {f"{kind}{number}": piece for kind, pieces in texts.items() for number, piece in enumerate(pieces[:160:2])}
    values |= {f"words{number}": random_words(rng, 1500, chinese=number % 2 == 0) for number in range(80)}
    hosts = [piece[:400] for pieces in texts.values() for piece in pieces[1:160:2]]
    index = LeakIndex(values)
    encodings = list(ENCODINGS)
    missed: list[tuple[str, str]] = []
    for number in range(count):
        one = plant(rng, values, hosts, encoding=encodings[number % len(encodings)])
        if not any(leak.start < one.end and leak.end > one.start for leak in index.find(one.text)):
            missed.append((one.encoding, one.piece))
    assert len(missed) <= count // 1000, missed


@pytest.mark.parametrize("count", ROUNDS)
def test_of_clean_requests_less_than_1_in_1000_has_a_leak(data: Path, count: int) -> None:
    false: list[tuple[str, str]] = []
    total = 0
    for kind, (index, requests, _) in clean_requests(log_texts(data), count).items():
        total += len(requests)
        false += [(kind, leak.name) for request in requests for leak in index.find(request)]
    assert total == count
    assert len(false) < count / 1000, false
