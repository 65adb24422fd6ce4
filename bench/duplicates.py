"""Which facts are taken for ones that are stored already: how many rightly, and how many facts that loses.

    python bench/duplicates.py

Pairs   tests/data/duplicates/pairs.jsonl: facts said twice in other words, and different facts that look alike; some
        against facts of MADial. Their own sentences are in the folder that OFFPROMPT_DATA names.
Apart   the facts of MADial by language, and what rules derive from the messages of each BFCL scenario, each text once:
        no two of them are meant to become one, and those that would are counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

from derive import bfcl

from offprompt.models.embedders import embedder_for
from offprompt.recall.chunks import embed
from offprompt.recall.derive import derive
from offprompt.recall.duplicates import nearly_same, normalised

PAIRS: Final = Path(__file__).resolve().parent.parent / "tests" / "data" / "duplicates" / "pairs.jsonl"
Same = Callable[[str, str, float], bool]


def equal(left: str, right: str, _cosine: float) -> bool:
    return normalised(left) == normalised(right)


def close(least: float) -> Same:
    """By vectors alone."""
    return lambda _left, _right, cosine: cosine >= least


def near(least: float) -> Same:
    """As `merge_cosine` merges."""
    return lambda left, right, cosine: equal(left, right, cosine) or (cosine >= least and nearly_same(left, right))


RULES: Final[dict[str, Same]] = {
    "normalised text": equal,
    **{f"cosine {least:.2f}": close(least) for least in (0.8, 0.9, 0.95, 0.98)},
    **{f"merge_cosine {least:.2f}": near(least) for least in (0.8, 0.9, 0.95, 0.98)},
}


def facts_of(folder: Path) -> dict[str, dict[str, str]]:
    """The different facts of each corpus, by id."""
    found: dict[str, dict[str, str]] = {}
    for language in ("en", "zh"):
        lines = (folder / "madial" / f"MADial-Bench-{language}-memory.json").read_text(encoding="utf-8").splitlines()
        rows = [pair for line in lines for pair in json.loads(line).items()]
        found[f"madial-{language}"] = {name: row["event"] for name, row in rows}
    for turn in bfcl(folder):
        scenario = turn.turn_id.split("_prereq")[0]
        facts = found.setdefault(scenario, {})
        for fact in derive([turn], turn.at or 0.0):
            facts.setdefault(fact.text, fact.text)
    return found


def compared(left: Sequence[str], right: Sequence[str]) -> list[float]:
    """The cosines of pairs of texts."""
    embedder, texts = embedder_for(), list(dict.fromkeys([*left, *right]))
    if embedder is None:
        raise SystemExit("there is no default embedder")
    vectors = dict(zip(texts, embed(embedder, texts, kind="passage"), strict=True))
    return [float(vectors[one] @ vectors[other]) for one, other in zip(left, right, strict=True)]


def judged(facts: dict[str, dict[str, str]]) -> Iterator[tuple[str, str, bool]]:
    for row in map(json.loads, PAIRS.read_text(encoding="utf-8").splitlines()):
        yield row.get("left") or facts[row["set"]][row["id"]], row["right"], row["same"]


def main() -> None:
    folder = os.environ.get("OFFPROMPT_DATA")
    if not folder:
        raise SystemExit("bench/duplicates.py reads real facts: set OFFPROMPT_DATA to the folder of the data sets")
    facts = facts_of(Path(folder))
    rows = list(judged(facts))
    cosines = compared([row[0] for row in rows], [row[1] for row in rows])
    apart: list[tuple[str, str, float]] = []
    for own in facts.values():
        ends = list(combinations({text.casefold(): text for text in own.values()}.values(), 2))
        apart += [(a, b, cosine) for (a, b), cosine in zip(ends, compared(*zip(*ends, strict=True)), strict=True)]
    wanted = sum(same for *_, same in rows)
    print(f"{len(rows)} pairs, {wanted} say the same; {len(apart):,} pairs of different facts of real sets\n")
    print("| one fact if | precision | recall | different facts lost | of real sets lost |")
    print("|---|---|---|---|---|")
    for name, rule in RULES.items():
        taken = [same for (left, right, same), cosine in zip(rows, cosines, strict=True) if rule(left, right, cosine)]
        lost = sum(rule(left, right, cosine) for left, right, cosine in apart)
        right, wrong = sum(taken), len(taken) - sum(taken)
        print(f"| {name} | {right / max(len(taken), 1):.2f} | {right / wanted:.2f} | {wrong} | {lost} |")


if __name__ == "__main__":
    main()
