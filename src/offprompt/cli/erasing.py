"""`offprompt erase`, `verify-erased`, `subject-export`, `hold …`: somebody's memory removed, proven, told, or held."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from offprompt.cli.call import Call, command
from offprompt.cli.errors import corrected
from offprompt.cli.render import moment, table
from offprompt.errors import UsageError
from offprompt.records import ErasureReceipt, Scope
from offprompt.records.erasure import owner_of
from offprompt.records.withdrawn import Withdrawn
from offprompt.service.offprompt import Offprompt

NOT_ERASED = 1
RECEIPT_MODE = 0o600

holds = typer.Typer(name="hold", help="Legal holds: whose memory is not erased.", no_args_is_help=True)


def erase(
    call: Call,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, for good: there is no undo.")] = False,
    receipt: Annotated[
        Path | None, typer.Option(help="The new file for the receipt; one in this folder unless given.")
    ] = None,
) -> None:
    """Remove all of one user, agent or session from every store, for good, and write a receipt that can be checked."""
    with _stored(call) as memory:
        bound = call.scope_of(memory)
        owner_of(bound.scope)
        if not yes:
            raise UsageError(f"erase cannot be undone; if that is meant: {corrected(call.argv, ['--yes'])}")
        ids, target = bound.scope, receipt or Path(f"erasure-{secrets.token_hex(6)}.json")
        with _new_file(target) as file:
            done = memory.erase(user=ids.user, agent=ids.agent, session=ids.session, app=ids.app)
            file.write(msgspec.json.format(msgspec.json.encode(done)) + b"\n")
    went = [f"{count} {call.say(kind)}" for kind, count in done.counts.items() if count and kind != "events"]
    lines = [f"{call.say('erased for good')}: {', '.join(went) or call.say('nothing here')}"]
    if count := done.counts["events"]:
        lines.append(f"{call.say('events under a pseudonym')}: {count}")
    lines += [f"{call.say('not reached')}: {what}" for store in done.stores for what in store.not_reached]
    lines += [f"{call.say('not reached')}: {what}" for what in done.not_reached]
    lines.append(f"{call.say('receipt')}: {target}")
    call.put({**asdict(done), "file": str(target)}, "\n".join(lines))


def verify_erased(
    call: Call,
    receipt: Annotated[Path, typer.Argument(help="The file that `erase` wrote.")],
    *,
    body_file: Annotated[
        list[Path] | None, typer.Option(help="A file with a text, or one a line, that must be nowhere any more.")
    ] = None,
) -> None:
    """Look for what was erased in rows, vectors, waiting writes and, on SQLite, each byte of the files.

    Exit code 1 if something is left.
    """
    given = _receipt(receipt)
    texts = [text for path in body_file or () for text in _texts(path)]
    with _stored(call) as memory:
        found = memory.verify_erased(given, texts=texts)
    is_gone = all(one.state != "fail" for one in found)
    heads = [call.say(head) for head in ("check", "state", "found", "what to do")]
    rows = [[one.name, call.say(one.state), one.what, one.way_out] for one in found]
    verdict = call.say("nothing is left in what was looked at" if is_gone else "something is LEFT")
    document = {"erased": is_gone, "findings": [asdict(one) for one in found]}
    call.put(document, f"{table(heads, rows)}\n{verdict}")
    if not is_gone:
        raise typer.Exit(NOT_ERASED)


def subject_export(
    call: Call,
    *,
    out: Annotated[Path, typer.Option(help="The new zip file, such as alice.zip.")],
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Values of secrets too; they are left out unless asked.")
    ] = False,
) -> None:
    """Write all that is stored of one user, out of every store, to a zip file of JSON lines with a README."""
    with _stored(call) as memory:
        ids = call.scope_of(memory).scope
        owner_of(ids)
        done = memory.export_subject(out, user=ids.user, app=ids.app, secrets=secrets)
    rows = [[place, f"{count:,}"] for place, count in done.counts.items() if count]
    lines = [table([call.say("place"), call.say("records")], rows), f"{call.say('stored')}: {out}"]
    if done.withheld:
        lines.append(f"{call.say('secrets left out (--secrets puts them in)')}: {done.withheld}")
    call.put({**asdict(done), "file": str(out)}, "\n".join(lines))


def withdraw(call: Call, consent: Annotated[str, typer.Argument(help="The consent's name.")]) -> None:
    """Remove for good what rests on a consent; nothing is stored under it any more."""
    with call.memory() as memory:
        done = call.scope_of(memory).withdraw(consent)
    counts = [f"{len(names)} {call.say(kind)}" for kind, names in _of(done) if names]
    call.put(asdict(done), f"{call.say('erased for good')}: {', '.join(counts) or call.say('nothing here')}")


def _of(done: Withdrawn) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("slots", done.slots), ("memories", done.memories), ("sessions", done.sessions)


@command(holds, "add")
def add(
    call: Call,
    reason: Annotated[str, typer.Argument(help="Why, such as a case's number; who is refused reads it.")],
) -> None:
    """Hold a scope: nothing of it is erased, cleared or swept until the hold is lifted."""
    with _stored(call) as memory:
        hold = memory.holds.add(call.scope_of(memory).scope, reason)
    call.put(_document(hold.scope, hold.reason, hold.at), f"{call.say('held')}: {hold.scope}, {hold.reason}")


@command(holds, "list")
def list_(call: Call) -> None:
    """The holds of the app, the oldest first."""
    with _stored(call) as memory:
        found = memory.holds.list(memory.parts.settings.app)
    heads = [call.say(head) for head in ("scope", "reason", "since")]
    rows = [[str(hold.scope), hold.reason, moment(hold.at)] for hold in found]
    document = {"holds": [_document(hold.scope, hold.reason, hold.at) for hold in found]}
    call.put(document, table(heads, rows) if rows else call.say("nothing here"))


@command(holds, "lift")
def lift(call: Call) -> None:
    """End the hold of a scope."""
    with _stored(call) as memory:
        hold = memory.holds.lift(call.scope_of(memory).scope)
    call.put(_document(hold.scope, hold.reason, hold.at), f"{call.say('no longer held')}: {hold.scope}")


@contextmanager
def _stored(call: Call) -> Generator[Offprompt]:
    """The memory, where it is stored.

    Raises   UnsupportedError if it is a server's.
    """
    with call.memory() as memory:
        _ = memory.parts  # of a server there are none
        yield memory


@contextmanager
def _new_file(path: Path) -> Generator[BinaryIO]:
    """A new private file; gone again if what it is for fails.

    Raises   UsageError if it is there already or cannot be made.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, RECEIPT_MODE)
    except OSError as exc:
        raise UsageError(
            f"the receipt's file {str(path)!r} cannot be made: {exc.strerror}; give another one (--receipt); nothing "
            "was erased"
        ) from exc
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
    except BaseException:
        path.unlink()
        raise


def _document(scope: Scope, reason: str, at: float) -> dict[str, object]:
    return {"scope": asdict(scope), "reason": reason, "at": at}


def _receipt(path: Path) -> ErasureReceipt:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ErasureReceipt)
    except (OSError, ValueError) as exc:
        raise UsageError(f"{str(path)!r} is no receipt of an erasure: {exc}; give the file that `erase` wrote") from exc
    if not found.scopes:
        raise UsageError(
            f"{str(path)!r} is no receipt of an erasure: it names nobody; give the file that `erase` wrote"
        )
    return found


def _texts(path: Path) -> list[str]:
    """The file's text as a whole, and each of its lines of 4 bytes or more."""
    try:
        text = path.read_text(encoding="utf-8").strip("\n")
    except (OSError, ValueError) as exc:
        raise UsageError(f"{str(path)!r} cannot be read as a text: {exc}; give a file in UTF-8") from exc
    lines = [line for line in text.splitlines() if len(line.encode()) >= 4]
    if not lines:
        raise UsageError(f"{str(path)!r} holds no line of 4 bytes or more; give what was stored")
    return list(dict.fromkeys([text, *lines]))


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    command(app, "erase")(erase)
    command(app, "verify-erased")(verify_erased)
    command(app, "subject-export")(subject_export)
    command(app, "withdraw")(withdraw)
    app.add_typer(holds)
