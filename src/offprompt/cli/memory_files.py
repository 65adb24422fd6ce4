"""`offprompt memory export`, `import` and `sessions`: memories as files, and where they were said."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.errors import spoken
from offprompt.cli.given import WithinOption
from offprompt.cli.render import table

NOTHING_TAKEN: Final = 2


def export(
    call: Call,
    target: Annotated[Path, typer.Argument(help="The file to write, JSON Lines; it must not be there.")],
    *,
    within: WithinOption = "subtree",
    secrets: Annotated[bool, typer.Option("--secrets", help="Secrets that memories quote too.")] = False,
) -> None:
    """Write memories to a file; what was forgotten is left out."""
    with call.scope() as scope:
        count = scope.memories.export(target, within=within, secrets=secrets)
    call.put({"exported": count, "file": str(target)}, f"{count} {call.say('memories')}: {target}")


def import_(
    call: Call,
    source: Annotated[Path, typer.Argument(help="Our export, one of mem0, or a chat log.")],
    *,
    rescope: Annotated[bool, typer.Option("--rescope", help="All into this scope, whatever ids it names.")] = False,
    no_derive: Annotated[bool, typer.Option("--no-derive", help="Read no facts or profile in a chat log.")] = False,
) -> None:
    """Store what a file holds; once more, it changes nothing. Exit code 2 if all of it was left out."""
    with call.scope(create=True) as scope:
        done = scope.memories.import_file(source, rescope=rescope, derive="none" if no_derive else "rules")
    document = {"added": done.added, "known": done.known, "refused": [asdict(one) for one in done.refused]}
    counts = f"{done.added} {call.say('added')}, {done.known} {call.say('known already')}"
    left = [f"{call.say('left out')}: {spoken(str(one))}" for one in done.refused]
    call.put(document, "\n".join([counts, *left]))
    if done.refused and not (done.added or done.known):
        raise typer.Exit(NOTHING_TAKEN)


def sessions(call: Call) -> None:
    """The sessions in which something was remembered, with how much."""
    with call.scope() as scope:
        counts = scope.memories.sessions()
    heads = [call.say(head) for head in ("session", "memories")]
    rows = [[name, count] for name, count in counts.items()]
    call.put({"sessions": counts}, table(heads, rows) if rows else call.say("nothing here"))


def mount(memories: typer.Typer) -> None:
    """Put the commands into `offprompt memory`."""
    for name, function in (("export", export), ("import", import_), ("sessions", sessions)):
        command(memories, name)(function)
