"""`offprompt encrypt` and `offprompt keyring …`: what is stored, sealed; and the keys that seal it."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress

from offprompt.bootstrap.encryption import begin, keyring_at, rotate
from offprompt.cli.call import Call, command
from offprompt.cli.render import moment, table
from offprompt.errors import UsageError
from offprompt.privacy.app_key import key_text, read_key
from offprompt.privacy.cipher import KEY_BYTES
from offprompt.records.scope import key_owner
from offprompt.service import encryption, maintenance

KEY_MODE: Final = 0o600

keyring = typer.Typer(
    name="keyring", help="The keys that seal what is stored; they are never printed.", no_args_is_help=True
)


def encrypt(call: Call) -> None:
    """Seal a store that is not sealed, under the keyring of the settings; broken off, the same command goes on.

    Nothing else may use the store meanwhile.
    """
    begin(call.options.url, call.options.config)
    _seal(call, anew=False)


@command(keyring, "new-key")
def new_key(
    call: Call, file: Annotated[Path, typer.Argument(help="The new file; it must not be in a backup of the store.")]
) -> None:
    """Make a key for the app: without it nothing that is sealed can ever be read."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, KEY_MODE)
    except OSError as exc:
        raise UsageError(f"the key file {str(file)!r} cannot be made: {exc.strerror}; give a new file") from exc
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(key_text(secrets.token_bytes(KEY_BYTES)) + "\n")
    call.put({"key_file": str(file)}, f"{call.say('stored')}: {file}; {call.say('keep a copy of it in another place')}")


@command(keyring, "list")
def list_(call: Call) -> None:
    """Whose keys there are, with their ids and when each was made; never a key."""
    with keyring_at(call.options.config) as (ring, _):
        found, ring_id = list(ring.list()), ring.id
    heads = [call.say(head) for head in ("app", "kind", "id", "key", "created")]
    rows = [[*one.owner, key_id, moment(at)] for one in found for key_id, at in zip(one.ids, one.at, strict=True)]
    owners = [
        {"app": one.owner[0], "kind": one.owner[1], "id": one.owner[2], "keys": one.ids, "created_at": one.at}
        for one in found
    ]
    call.put({"keyring": ring_id, "owners": owners}, table(heads, rows) if rows else call.say("nothing here"))


@command(keyring, "rotate")
def rotate_(
    call: Call,
    *,
    new_key_file: Annotated[str, typer.Option(help="The file of the app's new key.")] = "",
    new_key_env: Annotated[str, typer.Option(help="Or the variable that holds it.")] = "",
    new_key_command: Annotated[str, typer.Option(help="Or the command that prints it.")] = "",
) -> None:
    """Wrap all keys by a new key of the app; the one of the settings opens nothing from then on.

    Broken off, the same command goes on. Then give the settings the new key.
    """
    if not (new_key_file or new_key_env or new_key_command):
        raise UsageError("rotate needs the app's new key: --new-key-file FILE; make one with offprompt keyring new-key")
    count = rotate(call.options.config, read_key(file=new_key_file, env=new_key_env, command=new_key_command))
    said = f"{call.say('wrapped by the new key')}: {count}; {call.say('now give the settings the new key')}"
    call.put({"rewrapped": count}, said)


@command(keyring, "renew")
def renew(
    call: Call,
    *,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Seal anew what older keys sealed, of everybody.")] = False,
) -> None:
    """Give a user, agent, session or the shared scope a new key, which seals what is written from now on."""
    with call.memory() as memory:
        sealer = encryption.sealer_in(memory.parts.main)
        if sealer is None:
            raise UsageError("nothing seals this store: set encryption_keyring and where the app's key comes from")
        key_id = sealer.renew(key_owner(call.scope_of(memory).scope))
    if rewrite:
        _seal(call, anew=True)
    else:
        call.put({"key": key_id}, f"{call.say('new key')}: {key_id}")


@command(keyring, "backup")
def backup(call: Call, target: Annotated[Path, typer.Argument(help="The file to write.")]) -> None:
    """Copy the keyring, still wrapped by the app's key. Whoever is erased later is not erased in that copy."""
    with keyring_at(call.options.config) as (_, store):
        size = maintenance.backup(store, target)
    call.put({"backup": str(target), "bytes": size}, f"{call.say('stored')}: {target}, {size:,} {call.say('bytes')}")


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    command(app, "encrypt")(encrypt)
    app.add_typer(keyring)


def _seal(call: Call, *, anew: bool) -> None:
    with (
        call.memory() as memory,
        Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress,
    ):
        task = progress.add_task("encrypt", total=None)
        done = encryption.seal_all(
            memory.parts,
            anew=anew,
            progress=lambda name, rows: progress.update(task, description=name, completed=rows),
        )
        left = [] if anew else encryption.scoured(memory.parts)
    lines = [f"{call.say('rows')}: {done.rows:,}; {call.say('sealed')}: {done.sealed:,}"]
    lines += [f"{call.say('not reached')}: {what}" for what in left]
    call.put({"rows": done.rows, "sealed": done.sealed, "not_reached": left}, "\n".join(lines))
