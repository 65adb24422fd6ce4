"""`sessions`, `users`, `alias`, `prices`, `settings`: what there is, and whose."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from offprompt.bootstrap import config_file, price_sheets
from offprompt.cli.call import Call, command
from offprompt.cli.errors import corrected
from offprompt.cli.render import moment, scope_json, table
from offprompt.config import Settings, load_settings, setting_docs
from offprompt.errors import UsageError
from offprompt.records.holder import Holder


def sessions(call: Call) -> None:
    """The sessions of a scope, or of all, the most recently used first."""
    with call.memory() as memory:
        scope = call.scope_of(memory).scope if call.scoped else None
        found, nothing = memory.parts.sessions.sessions(scope), call.nothing_in(memory)
    heads = [call.say(head) for head in ("session", "scope", "model", "turns", "requests", "used")]
    rows = [
        [one.scope.session, one.scope.without_session(), one.model, one.turn, one.requests, moment(one.used_at)]
        for one in found
    ]
    document = [
        {
            "scope": scope_json(one.scope),
            "model": one.model,
            "wire": one.wire,
            "policy": one.policy,
            "turns": one.turn,
            "requests": one.requests,
            "turns_left": one.left,
            "created_at": one.created_at,
            "used_at": one.used_at,
        }
        for one in found
    ]
    call.put({"sessions": document}, table(heads, rows) if rows else nothing)


def users(call: Call) -> None:
    """Whose slots, memories and sessions there are: users and agents of an app, by name."""
    with call.memory() as memory:
        found, nothing = memory.users(), call.nothing_in(memory)
    heads = [call.say(head) for head in ("user", "agent", "slots held", "memories held", "sessions held")]
    rows = [[holder(call, one), one.scope.agent or "-", one.slots, one.memories, one.sessions] for one in found]
    document = [
        {"scope": scope_json(one.scope), "slots": one.slots, "memories": one.memories, "sessions": one.sessions}
        for one in found
    ]
    call.put({"users": document}, table(heads, rows) if rows else nothing)


def alias(
    call: Call,
    old: Annotated[str, typer.Argument(help="The id that is joined to the other.")],
    new: Annotated[str, typer.Argument(help="The id that stands for both.")],
    *,
    preview: Annotated[bool, typer.Option("--preview", help="Only say what would move, and what conflicts.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Yes: there is no undo.")] = False,
) -> None:
    """Join two user ids of one person: memories and slots of the first become the second's."""
    if not preview and not yes:
        raise UsageError(
            f"alias cannot be undone; look first: {corrected(call.argv, ['--preview'])}; "
            f"if it is meant: {corrected(call.argv, ['--yes'])}"
        )
    with call.memory() as memory:
        joined = memory.alias(old, new, preview=preview)
    verb = call.say("would move to") if preview else call.say("moved to")
    lines = [f"{verb} {joined.user}: {joined.memories} {call.say('memories')}, {len(joined.slots)} {call.say('slots')}"]
    if not (joined.memories or joined.slots or joined.conflicts):
        lines.append(f"{call.say('nothing is stored under')} {old}")
    if joined.conflicts:
        lines.append(f"{call.say('the name is taken, so they stay')}: {', '.join(joined.conflicts)}")
    call.put(asdict(joined), "\n".join(lines))


def holder(call: Call, one: Holder) -> str:
    """The user's id; of what belongs to no user, whose it is."""
    if one.scope.space:
        return f"{call.say('space')} {one.scope.space}"
    if one.scope.shared or one.scope.session:
        return call.say("everyone") if one.scope.shared else f"{call.say('session')} {one.scope.session}"
    return one.scope.user or "-"


def prices(call: Call) -> None:
    """The price sheets with their dates and sources."""
    sheets = list(price_sheets(settings_of(call)))
    heads = [call.say(head) for head in ("sheet", "currency", "input", "cache write", "cache read", "output", "dated")]
    rows = [
        [one.name, one.currency, one.input, one.cache_write, one.cache_read, one.output, one.dated] for one in sheets
    ]
    sources = dict.fromkeys(f"{one.dated}: {one.source}" for one in sheets)
    text = "\n".join([table(heads, rows), f"({call.say('per million tokens')})", "", *sources])
    call.put({"prices": [asdict(one) for one in sheets]}, text)


def settings(call: Call) -> None:
    """All settings: in force, default, what they do."""
    force, plain = settings_of(call), Settings()
    heads = [call.say(head) for head in ("setting", "in force", "default", "what it does")]
    rows = [
        [name, shown(getattr(force, name)), shown(getattr(plain, name)), doc] for name, doc in setting_docs().items()
    ]
    document = {
        name: {"value": getattr(force, name), "default": getattr(plain, name), "doc": doc}
        for name, doc in setting_docs().items()
    }
    call.put({"settings": document}, table(heads, rows))


def settings_of(call: Call) -> Settings:
    """The settings in force for this call."""
    file = Path(call.options.config) if call.options.config else config_file(os.environ)
    return load_settings({"app": call.options.app}, file=file)


def shown(value: Any) -> str:
    """A setting's value; empty text as a dash."""
    return f"{value:.12g}" if isinstance(value, float) else str(value) or "-"


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    for name, function in (
        ("sessions", sessions),
        ("users", users),
        ("alias", alias),
        ("prices", prices),
        ("settings", settings),
    ):
        command(app, name)(function)
