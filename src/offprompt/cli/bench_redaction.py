"""`offprompt bench redaction`: what is found of what may not be stored, and what it costs."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from offprompt.bootstrap import open as open_memory
from offprompt.cli.call import Call, command
from offprompt.cli.render import table
from offprompt.records.redaction import KINDS, PROVEN, Labelled

if TYPE_CHECKING:
    from offprompt.service.redaction_bench import Found

ROUNDS: Final = 5
COSTED: Final = 100
"""Rounds, and texts in each, of what redaction adds to a write."""


def redaction(
    call: Call,
    *,
    data: Annotated[
        Path | None, typer.Option(help="Labelled texts to measure too: a JSONL file or its folder.", metavar="PATH")
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="English texts to make.")] = 6000,
    seed: Annotated[int, typer.Option(help="What they are drawn by.")] = 1,
    cost: Annotated[bool, typer.Option("--cost/--no-cost", help="Also measure what it adds to a write.")] = True,
) -> None:
    """Precision and recall of redaction by kind, with 95 % intervals, and what it adds to a write.

    Of the texts of --data the half is measured that rules are not made by. Exit code 1 if a kind misses its floor.
    """
    from offprompt.privacy.redact import CheckedRedactor  # noqa: PLC0415 - makes many patterns
    from offprompt.service.redaction_bench import half, measure, read_texts  # noqa: PLC0415
    from offprompt.testing.personal_texts import personal_texts  # noqa: PLC0415

    sets = {f"{call.say('English, made with seed')} {seed}": personal_texts(seed, texts, "report")}
    if data is not None:
        sets[str(data.name or data)] = half(read_texts(data), "report")
    redactor = CheckedRedactor(KINDS)
    found = {name: measure(redactor, each) for name, each in sets.items()}
    ratios = _costs(personal_texts(seed, COSTED, "report")) if cost else {}
    document = {
        "texts": [
            {"name": name, "count": len(sets[name]), "kinds": [_document(one) for one in each]}
            for name, each in found.items()
        ],
        "write_ratio": ratios,
    }
    lines = [f"{name}: {len(sets[name])} {call.say('texts')}\n{_table(call, each)}" for name, each in found.items()]
    costs = [f"{call.say('a write takes')} {ratio:.2f} × ({call.say(kinds)})" for kinds, ratio in ratios.items()]
    call.put(document, "\n\n".join([*lines, *(["\n".join(costs)] if costs else [])]))
    if any(one.is_below for each in found.values() for one in each):
        raise typer.Exit(1)


def _document(one: Found) -> dict[str, Any]:
    from offprompt.service.redaction_bench import wilson  # noqa: PLC0415

    return {
        "kind": one.kind,
        "there": one.there,
        "found": one.found,
        "precision": one.precision,
        "precision_95": wilson(one.right, one.found),
        "recall": one.recall,
        "recall_95": wilson(one.hit, one.there),
        "below_floor": one.is_below,
    }


def _table(call: Call, found: Sequence[Found]) -> str:
    from offprompt.service.redaction_bench import wilson  # noqa: PLC0415

    def share(value: float, right: int, total: int) -> str:
        low, high = wilson(right, total)
        return f"{value:.3f} ({low:.3f}–{high:.3f})" if total else "–"

    rows = [
        [
            one.kind,
            one.there,
            one.found,
            share(one.precision, one.right, one.found),
            share(one.recall, one.hit, one.there),
        ]
        for one in found
    ]
    return table([*map(call.say, ("kind", "there", "found", "precision", "recall"))], rows)


def _costs(texts: Sequence[Labelled]) -> dict[str, float]:
    """How long remembering texts one by one in a SQLite file takes, as a multiple of the time without redaction.

    Without vectors or rules, beside which it would be seen less; medians of rounds that take turns.
    """
    settings = {"off": ("off", ""), "the kinds by default": ("words", ", ".join(PROVEN)), "all kinds": ("words", "all")}
    times: dict[str, list[float]] = {name: [] for name in settings}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            for name, (redact, kinds) in settings.items():
                file = Path(folder) / f"{name} {number}.db"
                with open_memory(file, embedder="none", redact=redact, redact_kinds=kinds) as mem:
                    scope = mem.scope(user="bench")
                    begun = time.perf_counter()
                    for one in texts:
                        scope.remember(one.text, derive="none")
                    times[name].append(time.perf_counter() - begun)
    bare = statistics.median(times.pop("off"))
    return {name: round(statistics.median(each) / bare, 3) for name, each in times.items()}


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "redaction")(redaction)
