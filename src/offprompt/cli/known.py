"""`known`, `correct`, `pin`, `fact`: what is known of a user, for the user to see and set right."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.render import moment, table
from offprompt.records import Known

Name = Annotated[str, typer.Argument(help="A slot's name, or a fact's id (m_…), as `known` lists it.")]


def known(call: Call, *, limit: Annotated[int, typer.Option(help="The first so many.", min=1, max=1000)] = 100) -> None:
    """What is known of a user, each thing once: pinned first, then the newest; of secrets the names alone."""
    with call.memory() as memory:
        found = call.scope_of(memory).known(limit=limit)
        nothing = call.nothing_in(memory)
    heads = [call.say(head) for head in ("name", "value", "agent", "source", "trust", "since", "pinned")]
    rows = [
        [
            one.name,
            one.text,
            one.agent or "-",
            one.source,
            one.trust,
            moment(one.at),
            call.say("yes") if one.pinned else "",
        ]
        for one in found
    ]
    call.put({"known": [asdict(one) for one in found]}, table(heads, rows) if rows else nothing)


def correct(call: Call, name: Name, text: Annotated[str, typer.Argument(help="The text that is right.")]) -> None:
    """Put another text in place of what is known under a name."""
    with call.memory() as memory:
        done = call.scope_of(memory).correct(name, text)
    _show(call, done)


def pin(call: Call, name: Name, *, off: Annotated[bool, typer.Option("--off", help="No longer.")] = False) -> None:
    """Keep a fact for ever, and first in the list."""
    with call.memory() as memory:
        done = call.scope_of(memory).pin(name, pinned=not off)
    _show(call, done)


def fact(
    call: Call,
    attribute: Annotated[str, typer.Argument(help="What of whom, such as plan or home.")],
    value: Annotated[str, typer.Argument(help="What it is now.")],
    *,
    subject: Annotated[str, typer.Option(help="Whom it is about; user: whose memory it is.")] = "user",
    text: Annotated[str | None, typer.Option(help="The sentence that is found and shown.")] = None,
) -> None:
    """Store what a business system knows, in place of what was known of it."""
    with call.memory() as memory:
        done = call.scope_of(memory).upsert_fact(subject, attribute, value, text=text)
    replaced = f" ({call.say('replaces')} {', '.join(done.replaced)})" if done.replaced else ""
    call.put(asdict(done), f"{call.say(done.outcome)}: {done.name}, {done.text}{replaced}")


def _show(call: Call, done: Known) -> None:
    call.put(asdict(done), f"{call.say('stored')}: {done.name}, {done.text}")


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    for name, function in (("known", known), ("correct", correct), ("pin", pin), ("fact", fact)):
        command(app, name)(function)
