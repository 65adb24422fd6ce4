"""`offprompt grant …`: who finds what a space, or an agent, holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.render import moment, table
from offprompt.records import Grant, GrantKind

grants = typer.Typer(
    name="grant", help="Who finds what a space, or an agent, holds; without a grant nobody does.", no_args_is_help=True
)

To = Annotated[list[str], typer.Option(help="user:ID, agent:ID, key:ID or everyone; may be repeated.")]


@command(grants, "space")
def space(call: Call, name: Annotated[str, typer.Argument(help="The space's name.")], *, to: To) -> None:
    """Let somebody find what a space holds."""
    _add(call, "space", name, to)


@command(grants, "agent")
def agent(call: Call, name: Annotated[str, typer.Argument(help="The agent's id.")], *, to: To) -> None:
    """Let somebody find what an agent keeps, for the same user and for all its users."""
    _add(call, "agent", name, to)


@command(grants, "list")
def list_(call: Call) -> None:
    """The grants of the app, the oldest first."""
    with call.memory() as memory:
        found = memory.grants.list()
    heads = [call.say(head) for head in ("what", "name", "to whom", "since")]
    rows = [[call.say(grant.kind), grant.name, grant.whom, moment(grant.at)] for grant in found]
    document = {"grants": [asdict(grant) for grant in found]}
    call.put(document, table(heads, rows) if rows else call.say("nothing here"))


@command(grants, "remove")
def remove(
    call: Call,
    kind: Annotated[GrantKind, typer.Argument(help="space or agent.")],
    name: Annotated[str, typer.Argument(help="The space's name, or the agent's id.")],
    *,
    to: To,
) -> None:
    """Take a grant back: programs that run find nothing more within seconds."""
    with call.memory() as memory:
        gone = [memory.grants.remove(kind, name, to=each) for each in to]
    _show(call, gone, "no longer granted")


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    app.add_typer(grants)


def _add(call: Call, kind: GrantKind, name: str, to: list[str]) -> None:
    with call.memory(create=True) as memory:
        made = [memory.grants.add(kind, name, to=each) for each in to]
    _show(call, made, "granted")


def _show(call: Call, found: list[Grant], said: str) -> None:
    lines = [f"{call.say(said)}: {call.say(grant.kind)} {grant.name} → {grant.whom}" for grant in found]
    call.put({"grants": [asdict(grant) for grant in found]}, "\n".join(lines))
