"""`offprompt key …`: who may ask a server for an app's memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from offprompt.cli.call import Call, command
from offprompt.cli.errors import corrected
from offprompt.cli.render import moment, seconds_of, table
from offprompt.errors import UsageError
from offprompt.records import DEFAULT, Issued, Key
from offprompt.service.keys import CACHE_S, OVERLAP_S, checked_roles

keys = typer.Typer(
    name="key", help="Keys for an app's memory over a network; --app says which app.", no_args_is_help=True
)

KeyId = Annotated[str, typer.Argument(help="The key's id, as `key list` shows it.")]
Expires = Annotated[
    str | None, typer.Option(help="When it expires: 2027-01-31, 2027-01-31T10:00:00Z or seconds; none: never.")
]


@command(keys, "create")
def create(
    call: Call,
    name: Annotated[str, typer.Argument(help="Who it is for; events name it.")],
    *,
    also_user: Annotated[list[str] | None, typer.Option(help="One more user whose memory it is for.")] = None,
    also_agent: Annotated[list[str] | None, typer.Option(help="One more agent whose memory it is for.")] = None,
    role: Annotated[list[str] | None, typer.Option(help="read, write or admin; read and write unless said.")] = None,
    expires: Expires = None,
    per_minute: Annotated[int | None, typer.Option(help="Requests that it may make in a minute.", min=1)] = None,
) -> None:
    """Make a key, with --user or --agent for that one only; its token is shown this once, and only a hash is stored."""
    own = call.options
    if own.session is not None or own.shared:
        raise UsageError("a key is of users and agents: leave --session and --shared out")
    with call.memory(create=True) as memory:
        issued = memory.keys.create(
            name,
            app=memory.parts.settings.app,
            users=_ids(own.user, also_user),
            agents=_ids(own.agent, also_agent),
            roles=checked_roles(role or ("read", "write")),
            expires_at=_time(expires),
            requests_per_minute=per_minute,
        )
    _show(call, issued)


@command(keys, "list")
def list_(call: Call) -> None:
    """The keys of the app, in order of creation, those that have expired too."""
    with call.memory() as memory:
        found, now = memory.keys.list(memory.parts.settings.app), memory.parts.clock.now()
        nothing = call.nothing_in(memory)
    heads = [call.say(head) for head in ("id", "name", "user", "agent", "roles", "created", "expires", "state")]
    rows = [[*_row(call, key), _state(call, key, now)] for key in found]
    call.put({"keys": [asdict(key) for key in found]}, table(heads, rows) if rows else nothing)


@command(keys, "rotate")
def rotate(
    call: Call,
    key_id: KeyId,
    *,
    overlap: Annotated[float, typer.Option(help="Seconds for which the token before stays valid.", min=0)] = OVERLAP_S,
    expires: Expires = None,
) -> None:
    """Give a key a new token, which is shown this once; the one before it stays valid for a time."""
    at = DEFAULT if expires is None else _time(expires)
    with call.memory() as memory:
        issued = memory.keys.rotate(memory.parts.settings.app, key_id, overlap_s=overlap, expires_at=at)
    _show(call, issued)


@command(keys, "revoke")
def revoke(
    call: Call, key_id: KeyId, *, yes: Annotated[bool, typer.Option("--yes", help="Yes: there is no undo.")] = False
) -> None:
    """Take a key back, for good: servers that run refuse it within seconds."""
    if not yes:
        raise UsageError(f"a key that is revoked is gone; if that is meant: {corrected(call.argv, ['--yes'])}")
    with call.memory() as memory:
        key = memory.keys.revoke(memory.parts.settings.app, key_id)
    within = f"{call.say('servers refuse it within seconds:')} {CACHE_S:g}"
    call.put({"revoked": asdict(key)}, f"{key.key_id}: {call.say('revoked')} ({within})")


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    app.add_typer(keys)


def _ids(first: str | None, more: list[str] | None) -> list[str] | None:
    """The ids that are named; None: none is, so it is for any."""
    return [*([] if first is None else [first]), *(more or [])] or None


def _time(text: str | None) -> float | None:
    return None if text is None or text.lower() == "none" else seconds_of(text, "--expires")


def _show(call: Call, issued: Issued) -> None:
    """The key, and its token alone on a line, so that it is easily taken from there."""
    lines = [
        issued.token,
        f"{call.say('shown this once; send it as')} Authorization: Bearer op_…",
        f"{call.say('to a gateway as')} Offprompt-Key: op_…",
    ]
    call.put({"key": asdict(issued.key), "token": issued.token}, "\n".join(lines))


def _row(call: Call, key: Key) -> list[Any]:
    ids = [call.say("any") if each is None else ", ".join(each) for each in (key.users, key.agents)]
    return [key.key_id, key.name, *ids, ", ".join(key.roles), moment(key.created_at), moment(key.expires_at) or "-"]


def _state(call: Call, key: Key, now: float) -> str:
    if key.expires_at is not None and key.expires_at <= now:
        return call.say("expired")
    return call.say("two tokens") if key.old_until > now else call.say("ok")
