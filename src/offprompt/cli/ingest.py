"""`offprompt ingest`, `documents`, `forget-document`: documents of a space."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from offprompt.cli.call import Call, command
from offprompt.cli.errors import spoken
from offprompt.cli.render import moment, table
from offprompt.records.document import Ingested, IngestOutcome, IngestStep

NOTHING_TAKEN: Final = 2

Space = Annotated[str, typer.Option(help="The space whose documents they are.")]


def ingest(
    call: Call,
    path: Annotated[Path, typer.Argument(help="A file, or a folder with all below it.")],
    *,
    space: Space,
    name: Annotated[str | None, typer.Option(help="What the file or the folder is called instead.")] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove documents of that folder that are not in it any more.")
    ] = False,
) -> None:
    """Make documents passages of a space: Markdown, text, HTML, PDF, DOCX. Exit code 2 if all were refused."""
    with (
        call.memory(create=True) as memory,
        Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar,
    ):
        task = bar.add_task(call.say("documents"), total=None)

        def told(step: IngestStep) -> None:
            part = step.passages / step.of_passages if step.of_passages else 0
            bar.update(task, description=escape(step.document[-40:]), completed=step.at + part, total=step.of)

        opened = memory.space(space, app=call.options.app)
        done = opened.ingest(path, name=name, remove=remove, progress=told)
    counts = ", ".join(f"{count} {_label(call, outcome)}" for outcome, count in done.counts.items())
    shown = [one for one in done if one.outcome != "unchanged"]
    heads = [call.say(head) for head in ("outcome", "document", "passages", "new", "gone", "why")]
    rows = [
        [_label(call, one.outcome), one.document, one.passages, one.added, one.removed, spoken(one.why)]
        for one in shown
    ]
    text = [table(heads, rows)] if rows else []
    call.put(
        {"space": done.space, "documents": [asdict(one) for one in done], "counts": done.counts},
        "\n".join([*text, counts or call.say("nothing here")]),
    )
    _check(done.documents)


def documents(call: Call, *, space: Space) -> None:
    """The documents of a space, by name."""
    with call.memory() as memory:
        found, nothing = memory.space(space, app=call.options.app).documents(), call.nothing_in(memory)
    heads = [call.say(head) for head in ("document", "title", "type", "passages", "pages", "bytes", "updated")]
    rows = [
        [one.name, one.title or "-", one.media, one.passages, one.pages or "-", one.bytes, moment(one.at)]
        for one in found
    ]
    call.put({"documents": [asdict(one) for one in found]}, table(heads, rows) if rows else nothing)


def forget_document(
    call: Call, names: Annotated[list[str], typer.Argument(help="The documents' names.")], *, space: Space
) -> None:
    """Remove documents of a space for good, with their passages; there is no undo."""
    with call.memory() as memory:
        gone = memory.space(space, app=call.options.app).forget_document(*names)
    lines = [f"{call.say('removed')}: {one.document}, {one.removed} {call.say('passages')}" for one in gone]
    call.put({"documents": [asdict(one) for one in gone]}, "\n".join(lines))


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    for name, function in (("ingest", ingest), ("documents", documents), ("forget-document", forget_document)):
        command(app, name)(function)


def _label(call: Call, outcome: IngestOutcome) -> str:
    return call.say("left out") if outcome == "refused" else call.say(outcome)


def _check(documents: tuple[Ingested, ...]) -> None:
    if documents and all(one.outcome == "refused" for one in documents):
        raise typer.Exit(NOTHING_TAKEN)
