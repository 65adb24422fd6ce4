"""What the rules derive from real turns: how much by set and by rule, and how much of it is right.

    python bench/derive.py                        yield by set and by rule; precision by rule, of what was judged
    python bench/derive.py --judge FOLDER         draw 200 facts: what a judge reads goes to FOLDER/to_judge.jsonl
             [--rules NAME …] [--seed N] [--count N]   only of these rules; what was drawn before is left out
    python bench/derive.py --verdicts FILE        take a judge's lines {"n": …, "right": true or false, "why": …}
    python bench/derive.py --recall COUNT FOLDER  draw COUNT user turns of each set: a judge reads FOLDER/to_read.jsonl,
                                                  counts, and only then opens FOLDER/derived.jsonl
    python bench/derive.py --counts FILE          take a judge's lines {"n": …, "expected": …, "found": …}

Draws are kept in tests/data/derived without the words of the sets. judged.jsonl: the id and the digest of the turn,
the rule, the attribute, the verdict and its reason. recall.jsonl: the id and the digest of the turn, how many facts a
reader expects of it, and how many of these the rules give. Reads the folder that OFFPROMPT_DATA names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from offprompt.recall.derive import Derived, Turn, derive

KEPT = Path(__file__).resolve().parent.parent / "tests" / "data" / "derived"
JUDGED = KEPT / "judged.jsonl"
RECALL = KEPT / "recall.jsonl"
SAID_AT = datetime(2024, 5, 15, 12, tzinfo=UTC).timestamp()
"""When turns of sets without dates are taken to be said: a Wednesday."""

DRAWN = 200
SEED = 20240515
RECALL_SEED = 5
READ_CHARACTERS = {"bfcl": 600}
"""Of how long a beginning of a turn a reader counts the facts; of other sets' turns, all of it."""


def bfcl(folder: Path) -> Iterator[Turn]:
    for path in sorted((folder / "bfcl-memory").glob("memory_*.json")):
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            for number, turn in enumerate(row["question"]):
                yield Turn(f"{row['id']}:{number}", turn[0]["content"], at=SAID_AT)


def madial(folder: Path, language: str) -> Iterator[Turn]:
    lines = (folder / "madial" / f"MADial-Bench-{language}-dialogue.json").read_text(encoding="utf-8").splitlines()
    for place, row in enumerate(map(json.loads, lines)):
        for number, line in enumerate(row["dialogue"]):
            match = re.match(r'<(\w+)>:\s*"?(.*?)"?\n', line)
            if match:
                assistant = match[1] == "Assistant"
                role, speaker = ("assistant", "") if assistant else ("user", match[1])
                yield Turn(f"madial-{language}-{place}:{number}", match[2], role=role, speaker=speaker, at=SAID_AT)


def locomo(folder: Path) -> Iterator[Turn]:
    for sample in json.loads((folder / "locomo-dev" / "locomo_first5.json").read_text(encoding="utf-8")):
        talk = sample["conversation"]
        for name in [name for name in talk if re.fullmatch(r"session_\d+", name)]:
            when = datetime.strptime(talk[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            for turn in talk[name]:
                turn_id = f"{sample['sample_id']}:{turn['dia_id']}"
                yield Turn(turn_id, turn["text"], speaker=turn["speaker"], at=when.timestamp())


def all_turns(folder: Path) -> dict[str, list[Turn]]:
    return {
        "bfcl": list(bfcl(folder)),
        "madial-en": list(madial(folder, "en")),
        "madial-zh": list(madial(folder, "zh")),
        "locomo-dev": list(locomo(folder)),
    }


def show_yield(turns: dict[str, list[Turn]], found: dict[str, list[Derived]]) -> None:
    by_rule = {name: Counter(one.rule for one in facts) for name, facts in found.items()}
    for name, facts in found.items():
        users = sum(turn.role == "user" for turn in turns[name])
        holding = len({one.quotes[0].turn_id for one in facts})
        print(f"{name:10} {users:5} user turns, {holding:4} with facts, {len(facts):4} facts")
    print(f"{'rule':20}" + "".join(f"{name:>11}" for name in found))
    for rule, _ in sum(by_rule.values(), Counter[str]()).most_common():
        print(f"{rule:20}" + "".join(f"{counts[rule] or '-':>11}" for counts in by_rule.values()))


def draw(turns: dict[str, list[Turn]], found: dict[str, list[Derived]], asked: argparse.Namespace) -> None:
    wanted: list[str] = asked.rules
    kept = read(JUDGED)
    before = {(row["turn"], row["attribute"]) for row in kept}
    everything = [
        (name, one)
        for name, facts in found.items()
        for one in facts
        if (not wanted or one.rule in wanted) and (one.quotes[0].turn_id, one.attribute) not in before
    ]
    rng = random.Random(asked.seed)  # noqa: S311 - a repeatable draw
    round_ = max((row["draw"] for row in kept), default=0) + 1
    to_judge: list[dict[str, Any]] = []
    drawn = rng.sample(everything, min(asked.count, len(everything)))
    for number, (name, one) in enumerate(drawn, start=len(kept)):
        at = next(place for place, turn in enumerate(turns[name]) if turn.turn_id == one.quotes[0].turn_id)
        turn, before = turns[name][at], turns[name][at - 1] if at else None
        digest = hashlib.sha256(turn.text.encode()).hexdigest()
        held = {"n": number, "draw": round_, "set": name, "turn": turn.turn_id, "digest": digest, "rule": one.rule}
        kept.append({**held, "attribute": one.attribute, "right": None, "why": ""})
        event = "" if one.event_at is None else datetime.fromtimestamp(one.event_at, UTC).isoformat()
        to_judge.append(
            {
                "n": number,
                "turn": turn.turn_id,
                "speaker": turn.speaker or "user",
                "said_at": datetime.fromtimestamp(turn.at or SAID_AT, UTC).isoformat(),
                "before": before.text if before else "",
                "source": turn.text,
                "quoted": turn.text[one.quotes[0].start : one.quotes[0].end],
                **{name: getattr(one, name) for name in ("rule", "kind", "slot", "subject", "attribute", "value")},
                **{name: getattr(one, name) for name in ("positive", "effect", "text", "precision")},
                "event_at": event,
            }
        )
    folder: Path = asked.judge
    folder.mkdir(parents=True, exist_ok=True)
    write(JUDGED, kept)
    write(folder / "to_judge.jsonl", to_judge)
    print(f"{len(to_judge)} facts to judge: {folder / 'to_judge.jsonl'}")


def draw_recall(turns: dict[str, list[Turn]], found: dict[str, list[Derived]], count: int, folder: Path) -> None:
    rng = random.Random(RECALL_SEED)  # noqa: S311 - a repeatable draw
    counted = {(row["turn"], row["digest"]): row for row in read(RECALL)}
    kept: list[dict[str, Any]] = []
    to_read: list[dict[str, Any]] = []
    derived: list[dict[str, Any]] = []
    for name, of_set in turns.items():
        places = [place for place, turn in enumerate(of_set) if turn.role == "user"]
        for place in sorted(rng.sample(places, min(count, len(places)))):
            turn, n = of_set[place], len(kept)
            digest = hashlib.sha256(turn.text.encode()).hexdigest()
            held = {"n": n, "set": name, "turn": turn.turn_id, "digest": digest, "expected": None, "found": None}
            kept.append({**held, **counted.get((turn.turn_id, digest), {}), "n": n})
            end = READ_CHARACTERS.get(name, len(turn.text))
            said_at = datetime.fromtimestamp(turn.at or SAID_AT, UTC).isoformat()
            before = of_set[place - 1].text[-300:] if place else ""
            speaker = turn.speaker or "user"
            to_read.append({"n": n, "speaker": speaker, "said_at": said_at, "before": before, "text": turn.text[:end]})
            quoting = [
                one.text
                for one in found[name]
                if any(quote.turn_id == turn.turn_id and quote.start < end for quote in one.quotes)
            ]
            derived.append({"n": n, "derived": quoting})
    folder.mkdir(parents=True, exist_ok=True)
    write(RECALL, kept)
    write(folder / "to_read.jsonl", to_read)
    write(folder / "derived.jsonl", derived)
    print(f"{len(to_read)} turns to read: {folder / 'to_read.jsonl'}; afterwards {folder / 'derived.jsonl'}")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def take(lines: Path, kept: Path) -> None:
    by_number = {row["n"]: row for row in read(lines)}
    write(kept, [{**row, **by_number.get(row["n"], {})} for row in read(kept)])


def show_precision() -> None:
    judged = [row for row in read(JUDGED) if row["right"] is not None]
    if not judged:
        print("no facts judged")
    for round_ in sorted({row["draw"] for row in judged}):
        rows = [row for row in judged if row["draw"] == round_]
        print(f"draw {round_}: precision {sum(row['right'] for row in rows) / len(rows):.3f} of {len(rows)} judged")
        for what in ("set", "rule"):
            for name, count in Counter(row[what] for row in rows).most_common():
                right = sum(row["right"] for row in rows if row[what] == name)
                print(f"  {name:20} {right:3} of {count:3} right")


def show_recall() -> None:
    rows = [row for row in read(RECALL) if row["found"] is not None]
    for name in [*dict.fromkeys(row["set"] for row in rows), "all"]:
        of_set = [row for row in rows if name in (row["set"], "all")]
        found, expected = (sum(row[what] for row in of_set) for what in ("found", "expected"))
        share = f"{found / expected:.3f}" if expected else "-"
        print(f"{name:10} recall {share}: {found:3} of {expected:3} facts in {len(of_set)} turns")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", type=Path)
    parser.add_argument("--verdicts", type=Path)
    parser.add_argument("--recall", nargs=2, metavar=("COUNT", "FOLDER"))
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--rules", nargs="+", default=[])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=DRAWN)
    asked = parser.parse_args()
    named = os.environ.get("OFFPROMPT_DATA")
    if not named:
        raise SystemExit("bench/derive.py reads real turns: set OFFPROMPT_DATA to the folder of the data sets")
    turns = all_turns(Path(named))
    found = {name: derive(of_set, SAID_AT) for name, of_set in turns.items()}
    if asked.judge:
        draw(turns, found, asked)
        return
    if asked.recall:
        draw_recall(turns, found, int(asked.recall[0]), Path(asked.recall[1]))
        return
    if asked.verdicts:
        take(asked.verdicts, JUDGED)
    if asked.counts:
        take(asked.counts, RECALL)
    show_yield(turns, found)
    show_precision()
    show_recall()


if __name__ == "__main__":
    main()
