"""`offprompt slot allow …`, `lock …`: what models may do with a slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.render import place_json, table
from offprompt.records import Place

Name = Annotated[str, typer.Argument(help="The slot's name.")]
Tool = Annotated[str, typer.Argument(help="The tool's name.")]
Where = Annotated[str, typer.Argument(help="A top-level argument, or a JSON pointer such as /headers/Authorization.")]
Host = Annotated[str, typer.Option(help="Only while all URLs of the call name this host.")]


def allow(call: Call, name: Name, tool: Tool, argument: Where, *, host: Host = "") -> None:
    """Let the handle of a `never` slot resolve in one string of one tool's arguments."""
    with call.scope() as scope:
        slot = scope.slots.allow(name, tool, argument, host=host)
    put_places(call, slot.name, slot.allow)


def disallow(call: Call, name: Name, tool: Tool, argument: Where, *, host: Host = "") -> None:
    """Take such a place away."""
    with call.scope() as scope:
        slot = scope.slots.disallow(name, tool, argument, host=host)
    put_places(call, slot.name, slot.allow)


def allowed(call: Call, name: Name) -> None:
    """The places where the handle of a `never` slot resolves."""
    with call.scope() as scope:
        places = scope.slots.allowed(name)
    put_places(call, name, places)


def lock(call: Call, name: Name) -> None:
    """Let models neither write nor forget a slot."""
    with call.scope() as scope:
        slot = scope.slots.lock(name)
    call.put({"name": slot.name, "locked": True}, f"{slot.name}: {call.say('locked for models')}")


def unlock(call: Call, name: Name) -> None:
    """Let models write and forget a slot again."""
    with call.scope() as scope:
        slot = scope.slots.unlock(name)
    call.put({"name": slot.name, "locked": False}, f"{slot.name}: {call.say('free for models')}")


def mount(slots: typer.Typer) -> None:
    """Put the commands into `offprompt slot`."""
    for function in (allow, disallow, allowed, lock, unlock):
        command(slots, function.__name__)(function)


def put_places(call: Call, name: str, places: Sequence[Place]) -> None:
    """Answer with a slot's places."""
    heads = [call.say(head) for head in ("tool", "argument", "host")]
    rows = [[place.tool, place.argument, place.host or call.say("any")] for place in places]
    text = table(heads, rows) if rows else f"{name}: {call.say('its handle resolves nowhere')}"
    call.put({"name": name, "allow": [place_json(place) for place in places]}, text)
