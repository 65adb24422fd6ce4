"""How much of what is true the checks of extraction let through, and how much of what is not.

    python -m bench.extraction

A language model is not asked. What rules derive from a sentence stands for what a good one would say (`true`); the same
quote with what another sentence says for one that invents (`invented`); the same with a denial in front for one that
turns it round (`denied`). Sentences: those of tests/data/derived/cases.jsonl, with which at hand the checks were
written; and with OFFPROMPT_DATA set the users' turns of its conversations, which were looked at afterwards.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

from bench.derive import all_turns
from offprompt.recall.derive import Derived, Turn, derive
from offprompt.recall.extract import Decision, Line, Strictness, check

CASES = Path(__file__).parents[1] / "tests" / "data" / "derived" / "cases.jsonl"
AT = 1683720000.0
Language = Literal["en", "zh"]
Kind = Literal["true", "invented", "denied"]
HAN = re.compile(r"[\u4e00-\u9fff]")
DENIED = {"en": "It is not so that {}", "zh": "不是{}"}


Said = list[tuple[Turn, str, Derived]]


def cases() -> list[Turn]:
    """The sentences that the rules are tested with."""
    texts = dict.fromkeys(json.loads(line)["said"] for line in CASES.read_text(encoding="utf-8").splitlines())
    return [Turn("1", text, at=AT) for text in texts]


def said(turns: Iterable[Turn], language: Language) -> Said:
    """Each turn with the words that carry a fact, and the fact."""
    found: Said = []
    for turn in turns:
        one = Turn("1", turn.text, "user", turn.speaker, turn.at or AT)
        for fact in derive([one], AT):
            quote = fact.quotes[0]
            if bool(HAN.search(fact.text)) is (language == "zh"):
                found.append((one, one.text[quote.start : quote.end], fact))
    return found


def decisions(own: Said, language: Language, kind: Kind) -> Iterator[tuple[Turn, Decision]]:
    """Turns, each with what a model says of it."""
    chance = random.Random(1)  # noqa: S311 - a draw, seeded
    for turn, quote, fact in own:
        other = chance.choice(own)[2]
        if kind == "invented" and other.text in {each.text for each in derive([turn], AT)}:
            continue
        told = other if kind == "invented" else fact
        claim = told.text
        if kind == "denied":
            claim = DENIED[language].format(told.text if turn.speaker else told.text[:1].lower() + told.text[1:])
        yield turn, Decision("ADD", (1,), 0, turn.speaker or "user", quote, told.subject, claim)


def measured(own: Said, language: Language, kind: Kind, strictness: Strictness) -> Counter[str]:
    """How many are `kept`, and why the others are dropped."""
    counts: Counter[str] = Counter()
    for turn, decision in decisions(own, language, kind):
        found = check([decision], [Line(1, turn.text, turn.at or AT, turn.speaker)], (), strictness=strictness)
        counts[found.dropped[0][1] if found.dropped else "kept"] += 1
    return counts


def show(name: str, turns: Iterable[Turn], language: Language) -> None:
    """Print the lines of one set."""
    own = said(turns, language)
    for kind in get_args(Kind):
        for strictness in get_args(Strictness):
            counts = measured(own, language, kind, strictness)
            rest = ", ".join(f"{why} {count}" for why, count in counts.most_common() if why != "kept")
            kept = f"{counts['kept']:4} of {counts.total():4}"
            print(f"{name:8} {language} {kind:9} {strictness:7} {kept} kept; dropped: {rest}")


def main() -> None:
    """Print the table."""
    for language in get_args(Language):
        show("cases", cases(), language)
    if folder := os.environ.get("OFFPROMPT_DATA"):
        for name, turns in all_turns(Path(folder)).items():
            show(name, turns, "zh" if name.endswith("zh") else "en")


if __name__ == "__main__":
    main()
