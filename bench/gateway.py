"""What the gateway saves on real logs, and what of the evidence it keeps: measured where its upstream receives it.

    python bench/gateway.py --log tau-bench [--model gpt-5 …] [--high 8000]   runs of one log, kept in gateway.jsonl
    python bench/gateway.py --questions 0 [--high 8000]                       one haystack's questions
    python bench/gateway.py --page                                            what is kept, into docs/gateway-proof.md

Reads the folder that OFFPROMPT_DATA names. Each run takes its last one's place. `auto` decides by the price sheet, so
that each log goes through the gateway once for each model, with recall off and on.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.gateway_questions import asked
from bench.gateway_run import Run, Way, steps, through
from offprompt.records import compact
from offprompt.service.replay.logged import Conversation
from offprompt.service.replay.readers import read_conversations
from offprompt.service.replay.simulate import Series
from offprompt.wire.prices import PriceSheet, builtin_sheets, sheet_for

LOGS = {
    "swe-agent": ("swe-agent/*.traj", 126),
    "tau-bench": ("tau-bench/gpt-4o-airline.json", 200),
    "longmemeval": ("longmemeval/haystacks.json", 200),
}
MODELS = ("claude-opus-5", "gpt-5", "gpt-4o", "deepseek-v4-pro", "qwen3-max", "local-llama")
KEPT = Path(__file__).with_name("gateway.jsonl")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "gateway-proof.md"
PART = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LABELS = {"off": "gateway", "on": "gateway, recall on", "cut": "truncation only"}


def conversations(folder: Path, pattern: str) -> Iterator[Conversation]:
    for path in sorted(folder.glob(pattern)):
        yield from read_conversations(path, print)


def sheet_of(model: str) -> PriceSheet:
    sheet = sheet_for(model, builtin_sheets())
    if sheet is None:
        raise SystemExit(f"no price sheet is for {model!r}")
    return sheet


def measured(folder: Path, log: str, model: str, high: int) -> Iterator[dict[str, Any]]:
    """The rows of one log on one sheet: truncation, and the gateway with recall off and on."""
    pattern, limit = LOGS[log]
    system, messages = steps(conversations(folder, pattern), limit)
    sheet = sheet_of(model)
    for recall in ("off", "on"):
        way = Way(model, sheet, high=high, low=high // 2, recall=recall == "on")
        run = asyncio.run(through(system, messages, way, [sheet]))
        everything, evidence = run.without.series[sheet.name], {"off": run.seen, "on": run.kept}[recall]
        ratios, fitting = run.ratios(sheet.name), _fitting(run, sheet)
        row = {"log": log, "sheet": sheet.name, "high": high, "requests": len(run.answered), "values": run.values}
        sums = _sums(run.through.series[sheet.name], everything)
        yield {
            **row,
            "way": recall,
            **sums,
            "worst": max(ratios[:fitting], default=1.0),
            "worst_of_all": max(ratios),
            "fitting": fitting,
            "searches": run.answered[-1] - len(run.answered),
            "evidence": evidence,
            "in_words": run.seen,
        }
        if recall == "off":
            yield {**row, "way": "cut", **_sums(run.cut.series[sheet.name], everything), "evidence": run.kept_cut}


def _sums(series: Series, everything: Series) -> dict[str, Any]:
    return {
        "tokens": sum(series.tokens),
        "cached": sum(series.cached),
        "price": sum(series.price),
        "input": sum(series.tokens) / sum(everything.tokens),
        "cost": sum(series.price) / sum(everything.price),
        "everything_tokens": sum(everything.tokens),
        "everything_cached": sum(everything.cached),
    }


def _fitting(run: Run, sheet: PriceSheet) -> int:
    """How many requests' everything fits the model's context, output reserve and head beside it."""
    room = (sheet.context_tokens or 128_000) - 4096 - 1000
    return sum(tokens <= room for tokens in run.without.series[sheet.name].tokens)


def keep(rows: Iterator[dict[str, Any]]) -> None:
    """Put rows in the place of those with the same names."""
    names = ("log", "sheet", "high", "way", "haystack")
    for row in rows:
        print(compact(row), flush=True)
        old = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()] if KEPT.exists() else []
        kept = [each for each in old if any(each.get(name) != row.get(name) for name in names)]
        KEPT.write_text("".join(f"{compact(each)}\n" for each in [*kept, row]), encoding="utf-8")


def replays(rows: list[dict[str, Any]]) -> str:
    """Gains and losses at the default window."""
    sheets = [sheet_of(model).name for model in MODELS]
    heads = ("log", "sheet", "what is sent", "tokens", "cached", "input ×", "price ×", "worst ×", "evidence")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    found = {(row["log"], row["sheet"], row["way"]): row for row in rows if "sheet" in row and row["high"] == 8000}
    places = [(log, sheet, way) for log in LOGS for sheet in sheets for way in LABELS]
    lines += [_line(LOGS[place[0]][0], found[place]) for place in places if place in found]
    return "\n".join(lines)


def _line(pattern: str, row: Mapping[str, Any]) -> str:
    evidence = f"{row['evidence'] / row['values']:.3f}" if row["values"] else "-"
    worst = f"{row['worst']:.3f}" if "worst" in row else "-"
    cells = (f"`{pattern}`, {row['requests']}", f"`{row['sheet']}`", LABELS[row["way"]], f"{row['tokens']:,}")
    more = (f"{row['cached']:,}", f"{row['input']:.3f}", f"{row['cost']:.3f}", worst, evidence)
    return f"| {' | '.join([*cells, *more])} |"


def windows(rows: list[dict[str, Any]]) -> str:
    """Evidence and price by window, on one sheet."""
    heads = ("log", "window", "truncation", "gateway", "recall on", "price ×: truncation", "gateway", "recall on")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    found = {(row["log"], row["high"], row["way"]): row for row in rows if row.get("sheet") == "qwen-implicit"}
    for log, high in sorted({key[:2] for key in found}, key=lambda key: (key[0], -key[1])):
        three = [found[log, high, way] for way in ("cut", "off", "on")]
        if three[0]["values"]:
            kept = [f"{row['evidence'] / row['values']:.3f}" for row in three]
            costs = [f"{row['cost']:.3f}" for row in three]
            lines.append(f"| `{log}` | {high:,} to {high // 2:,} | {' | '.join([*kept, *costs])} |")
    return "\n".join(lines)


def answers(rows: list[dict[str, Any]]) -> str:
    """Questions at the end of the haystacks, by window."""
    heads = ("window", "questions", "truncation", "still in the request", "came back by itself", "or by one search")
    lines = ["| " + " | ".join([*heads, "tokens of the final request"]) + " |", "|---" * (len(heads) + 1) + "|"]
    for high in sorted({row["high"] for row in rows if row["log"] == "questions"}, reverse=True):
        mine = [row for row in rows if row["log"] == "questions" and row["high"] == high]
        total = {name: sum(row[name] for row in mine) for name in mine[0] if isinstance(mine[0][name], int)}
        shares = [
            f"{total[name]} ({total[name] / total['asked']:.2f})" for name in ("cut", "window", "recalled", "found")
        ]
        mean, whole = (round(total[name] / total["asked"]) for name in ("tokens", "whole_tokens"))
        cells = [f"{high:,} to {high // 2:,}", total["asked"], *shares, f"{mean:,} of {whole:,}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def put_page() -> None:
    """Write what is kept into the page."""
    rows = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]
    made = {"replays": replays, "windows": windows, "answers": answers}
    text = PAGE.read_text(encoding="utf-8")

    def fresh(match: re.Match[str]) -> str:
        return f"{match[1]}{made[match[2]](rows)}\n{match[3]}" if match[2] in made else match[0]

    PAGE.write_text(PART.sub(fresh, text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", choices=LOGS)
    parser.add_argument("--model", nargs="+", default=MODELS)
    parser.add_argument("--high", type=int, default=8000)
    parser.add_argument("--questions", type=int)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        put_page()
        return
    folder = Path(os.environ["OFFPROMPT_DATA"])
    if given.questions is not None:
        model = "gpt-5"
        way = Way(model, sheet_of(model), high=given.high, low=given.high // 2, recall=True)
        kept = asyncio.run(asked(folder, given.questions, way))
        keep(iter([{"log": "questions", "haystack": given.questions, "high": given.high, **dataclasses.asdict(kept)}]))
    elif given.log:
        for model in given.model:
            keep(measured(folder, given.log, model, given.high))


if __name__ == "__main__":
    main()
