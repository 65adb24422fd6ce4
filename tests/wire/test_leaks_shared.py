"""Texts that share templates with stored ones: all runs are found (compared by hand, place by place), and each once."""

from __future__ import annotations

import random
from base64 import b64encode
from itertools import pairwise

import pytest

from offprompt.wire import leaks
from offprompt.wire.fingerprints import RUN
from offprompt.wire.folding import Places, fold
from offprompt.wire.leaks import LeakIndex
from offprompt.wire.runs import MIN_RUN, Run, StoredRuns

WORDS = ("flight", "gate", "code", "b4", "seat", "window", "no", "refund", "until", "noon", "航班", "登机口")


def by_hand(text: bytes, stored: bytes) -> list[tuple[int, int, int]]:
    """All runs that can be made no longer, by comparing every place with every other."""
    found: list[tuple[int, int, int]] = []
    for diagonal in range(-len(text), len(stored)):
        begin = max(0, -diagonal)
        end = min(len(text), len(stored) - diagonal)
        differ = [at for at in range(begin, end) if text[at] != stored[at + diagonal]]
        found += [
            (before + 1, at, before + 1 + diagonal)
            for before, at in pairwise([begin - 1, *differ, end])
            if at - before > 1
        ]
    return found


def sentence(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(WORDS, k=size))


def templates(rng: random.Random) -> tuple[str, list[str]]:
    """A text and stored ones made of the same sentences, words, and values at random."""
    shared = [sentence(rng, rng.randint(3, 12)) for _ in range(4)]

    def one(pieces: int) -> str:
        return " ".join(
            rng.choice(shared) if rng.random() < 0.6 else str(rng.random())[: rng.randint(1, 12)] for _ in range(pieces)
        )

    stored = [one(rng.randint(1, 8)) for _ in range(6)]
    return f"{one(4)} {rng.choice(stored)} {one(4)}", stored


def found_in(text: str, stored: list[str]) -> list[Run]:
    runs = StoredRuns()
    for number, value in enumerate(stored):
        runs.add(str(number), value, secret=False)
    return [run for run in runs.find(fold(text)) if len(fold(run.stored.text)) >= RUN]


@pytest.mark.parametrize("seed", range(60))
def test_each_shared_run_is_found_to_both_its_ends(seed: int) -> None:
    text, stored = templates(random.Random(seed))  # noqa: S311
    folded = fold(text)
    found = found_in(text, stored)
    every = {number: by_hand(folded, fold(value)) for number, value in enumerate(stored)}
    for run in found:
        assert (run.start, run.end, run.at) in every[run.stored.number]
        assert run.whole == (run.end - run.start == len(fold(run.stored.text)))
        assert run.whole or run.end - run.start >= MIN_RUN
    assert len({(run.stored.number, run.start, run.end) for run in found}) == len(found)
    for number, runs in every.items():
        for start, end, _ in runs:
            if end - start < RUN:
                continue
            assert any(run.start <= start and run.end >= end for run in found)
            if end - start == len(fold(stored[number])):
                assert any((run.stored.number, run.start, run.end) == (number, start, end) for run in found)


@pytest.mark.parametrize("unit", ["a", "ab", "0,", "1.0,0.5,", "=", "name, value\n", "天地", "x" * 30 + "y"])
def test_of_texts_that_repeat_themselves_all_that_is_shared_is_found(unit: str) -> None:
    for seed in range(4):
        rng = random.Random(seed)  # noqa: S311
        long, short, other = repeated(unit, rng.randint(60, 150)), repeated(unit, rng.randint(30, 40)), sentence(rng, 9)
        text = f"{other} {repeated(unit, rng.randint(60, 400))} {short}{other[:9]}{long} {other}"
        folded, stored = fold(text), [f"<{long}>", short, long]
        found = found_in(text, stored)
        every = {number: by_hand(folded, fold(value)) for number, value in enumerate(stored)}
        due = {
            at for runs in every.values() for start, end, _ in runs if end - start >= RUN for at in range(start, end)
        }
        assert due <= {at for run in found for at in range(run.start, run.end)}
        assert all((run.start, run.end, run.at) in every[run.stored.number] for run in found)


def repeated(unit: str, size: int) -> str:
    return unit * (size // len(unit.encode()) + 1)


@pytest.mark.parametrize("unit", ["a", "0,", "天"])
def test_of_texts_that_repeat_themselves_few_of_the_runs_are_followed(unit: str) -> None:
    found = found_in(repeated(unit, 20_000), [repeated(unit, 3_000)])
    assert all(run.whole for run in found)
    assert len(found) < 20_000 / 20


def test_a_stored_text_is_gone_through_once_for_all_runs_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[str] = []

    class Counted(Places):
        def __init__(self, text: str) -> None:
            walked.append(text)
            super().__init__(text)

    monkeypatch.setattr(leaks, "Places", Counted)
    rng = random.Random(7)  # noqa: S311
    template = [" ".join(rng.sample("abcdefghijklmnopqrstuvwxyz", 26)) for _ in range(40)]
    value = " | ".join(template)
    text = " ; ".join(f"{line} {number}" for number, line in enumerate(template))
    assert len(LeakIndex({"v": value}).find(text)) == len(template)
    assert sorted(map(len, walked)) == sorted([len(text), len(value)])


def test_values_in_several_encoded_runs_are_each_found_at_their_own_run() -> None:
    values = {str(seed): sentence(random.Random(seed), 20) + f" {seed} é天" for seed in range(6)}  # noqa: S311
    digits = [b64encode(f"{'x' * at}{value}".encode()).decode().rstrip("=") for at, value in enumerate(values.values())]
    text = "航班 é " + " — ".join([*digits, values["2"].encode().hex()])
    found = [(leak.name, text[leak.start : leak.end], leak.form) for leak in LeakIndex(values).find(text)]
    assert found == [
        *((name, run, "base64") for name, run in zip(values, digits, strict=True)),
        ("2", values["2"].encode().hex(), "hex"),
    ]
