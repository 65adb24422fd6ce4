"""How much of what is true the checks of extraction let through, and how much of what is not.

    python -m bench.extraction

A language model is not asked. What rules derive from the sentences of tests/data/derived/cases.jsonl stands for what a
good one would say (`true`); the same quote with what another sentence says for one that invents (`invented`); the same
with a denial in front for one that turns it round (`denied`). The checks were written with these sentences at hand.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from offprompt.recall.derive import Derived, Turn, derive
from offprompt.recall.extract import Decision, Line, Strictness, check

CASES = Path(__file__).parents[1] / "tests" / "data" / "derived" / "cases.jsonl"
AT = 1683720000.0
Language = Literal["en", "zh"]
Kind = Literal["true", "invented", "denied"]
DENIED = {"en": "It is not so that {}", "zh": "不是{}"}


def said() -> list[tuple[str, str, Derived]]:
    """Each sentence with the words that carry a fact, and the fact."""
    texts = dict.fromkeys(json.loads(line)["said"] for line in CASES.read_text(encoding="utf-8").splitlines())
    found: list[tuple[str, str, Derived]] = []
    for text in texts:
        for fact in derive([Turn("1", text, at=AT)], AT):
            quote = fact.quotes[0]
            found.append((text, text[quote.start : quote.end], fact))
    return found


def decisions(language: Language, kind: Kind) -> Iterator[tuple[str, Decision]]:
    """Sentences, each with what a model says of it."""
    chance = random.Random(1)  # noqa: S311 - a draw, seeded
    own = [one for one in said() if bool(re.search(r"[\u4e00-\u9fff]", one[2].text)) is (language == "zh")]
    for text, quote, fact in own:
        other = chance.choice(own)[2]
        if kind == "invented" and other.text in {each.text for each in derive([Turn("1", text, at=AT)], AT)}:
            continue
        told = {"true": fact, "invented": other, "denied": fact}[kind]
        claim = DENIED[language].format(told.text[:1].lower() + told.text[1:]) if kind == "denied" else told.text
        yield text, Decision("ADD", (1,), 0, "user", quote, told.subject, claim)


def measured(language: Language, kind: Kind, strictness: Strictness) -> Counter[str]:
    """How many are `kept`, and why the others are dropped."""
    counts: Counter[str] = Counter()
    for text, decision in decisions(language, kind):
        found = check([decision], [Line(1, text, AT)], (), strictness=strictness)
        counts[found.dropped[0][1] if found.dropped else "kept"] += 1
    return counts


def main() -> None:
    """Print the table."""
    for language in get_args(Language):
        for kind in get_args(Kind):
            for strictness in get_args(Strictness):
                counts = measured(language, kind, strictness)
                rest = ", ".join(f"{why} {count}" for why, count in counts.most_common() if why != "kept")
                print(
                    f"{language} {kind:9} {strictness:7} {counts['kept']:3} of {counts.total():3} kept; dropped: {rest}"
                )


if __name__ == "__main__":
    main()
