"""`offprompt copy FROM TO`: a whole store from engine to engine."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from offprompt.bootstrap import open as open_memory
from offprompt.cli.call import Call, command
from offprompt.cli.render import table
from offprompt.service.checkup import fill_index
from offprompt.service.copying import Whole
from offprompt.service.copying import copy as copy_store

SHOWN_DIGITS = 12


def copy(
    call: Call,
    source: Annotated[str, typer.Argument(help="The store to copy: a URL, as --url takes it.", metavar="FROM")],
    target: Annotated[str, typer.Argument(help="An empty store, made if it is not there.", metavar="TO")],
) -> None:
    """Copy a whole store into an empty one and compare them row by row; broken off, the same command goes on.

    An index of vectors beside TO is filled from what was copied.
    """
    config = call.options.config
    with (
        open_memory(source, config=config, create=False) as old,
        open_memory(target, config=config) as new,
        Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress,
    ):
        task = progress.add_task("copy", total=None)
        done = copy_store(
            Whole.of(old.parts),
            Whole.of(new.parts),
            progress=lambda name, rows: progress.update(task, description=name, completed=rows),
        )
        indexed = fill_index(new.parts)
    document: dict[str, Any] = {
        "from": old.parts.url,
        "to": new.parts.url,
        "resumed": done.resumed,
        "rows": done.rows,
        "tables": {one.name: {"rows": one.rows, "sha256": one.digest} for one in done.tables},
    }
    rows = [[one.name, f"{one.rows:,}", one.digest[:SHOWN_DIGITS]] for one in done.tables if one.rows]
    lines = [table([call.say("table"), call.say("rows"), call.say("digest")], rows)]
    if done.resumed:
        lines.append(call.say("went on with a copy that was broken off"))
    if indexed is not None:
        document["vectors"] = indexed
        lines.append(f"{call.say('put into the index of vectors')}: {indexed:,}")
    lines.append(f"{call.say('copied and compared')}: {done.rows:,} {call.say('rows')}, {new.parts.url}")
    call.put(document, "\n".join(lines))


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "copy")(copy)
