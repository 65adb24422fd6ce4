"""`doctor`, `backup`, `restore`, `sweep`, `reindex`: the store's health."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from offprompt.cli.call import Call, command
from offprompt.cli.render import table
from offprompt.errors import UsageError
from offprompt.service import maintenance
from offprompt.service.checkup import checkup
from offprompt.service.parts import Parts
from offprompt.service.retaining import Retaining, would_sweep

NOT_SOUND = 1


def doctor(
    call: Call,
    *,
    fix: Annotated[bool, typer.Option("--fix", help="Mend rights of files, and the index of vectors.")] = False,
) -> None:
    """Look at the store: integrity, slots, memories, format, rights, clock, disk, index of vectors, copy, worker.

    Exit code 1 if it is not sound.
    """
    with call.memory() as memory:
        report = checkup(memory.parts, fix=fix)
    heads = [call.say(head) for head in ("check", "state", "found", "what to do")]
    rows = [[one.name, call.say(one.state), one.what, one.way_out] for one in report.findings]
    verdict = call.say("the store is sound" if report.is_sound else "the store is NOT sound")
    document = {"sound": report.is_sound, "findings": [asdict(one) for one in report.findings]}
    call.put(document, f"{table(heads, rows)}\n{verdict}")
    if not report.is_sound:
        raise typer.Exit(NOT_SOUND)


def backup(
    call: Call,
    target: Annotated[Path, typer.Argument(help="The file to write.")],
    *,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
) -> None:
    """Copy the store to a file, while it is in use."""
    if not target.parent.is_dir():
        raise UsageError(f"the folder {str(target.parent)!r} of the backup is not there; make it, or correct the path")
    with call.memory() as memory:
        size = maintenance.backup(memory.parts.main, target, overwrite=overwrite)
    call.put({"backup": str(target), "bytes": size}, f"{call.say('stored')}: {target}, {size:,} {call.say('bytes')}")


def restore(
    call: Call,
    source: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace what the store holds.")] = False,
) -> None:
    """Put a backup in place of the store."""
    if not source.is_file():
        raise UsageError(f"the backup {str(source)!r} is not a file; correct the path")
    with call.memory(create=True) as memory:
        again = memory.restore(source, force=force)
    more = f"; {call.say('erased anew')}: {len(again)}" if again else ""
    call.put({"restored": str(source), "erased": len(again)}, f"{call.say('restored from')} {source}{more}")


def sweep(
    call: Call,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")] = False,
) -> None:
    """Remove what expired, what was forgotten long ago, what is idle, and what `retention` says is past its time."""
    with call.memory() as memory:
        parts, settings = memory.parts, memory.parts.settings
        swept = would_sweep(parts, app=call.options.app) if dry_run else _swept(parts, call.options.app)
        rules = Retaining(parts, app=call.options.app) if settings.retention else None
        past = {} if rules is None else dict(rules.due().counts) if dry_run else dict(rules.remove())
    counts = (
        f"{swept.slots} {call.say('slots')}, {swept.memories} {call.say('memories')}, "
        f"{swept.sessions} {call.say('sessions')}"
    )
    lines = [f"{call.say('would be removed' if dry_run else 'removed')}: {counts}"]
    if past:
        lines.append(table([call.say("category"), call.say("records")], [[name, f"{n:,}"] for name, n in past.items()]))
    document = {**asdict(swept), **({"retention": past} if past else {}), **({"dry_run": True} if dry_run else {})}
    call.put(document, "\n".join(lines))


def _swept(parts: Parts, app: str | None) -> maintenance.Swept:
    settings = parts.settings
    return maintenance.sweep(
        parts.slots,
        parts.memories.store,
        parts.sessions,
        parts.clock,
        app=app,
        undo_s=settings.undo_s,
        session_idle_s=settings.session_idle_s,
        user_idle_days=settings.user_idle_days,
        holds=parts.holds.list(),
    )


def reindex(call: Call) -> None:
    """Give memories, of a scope or all, vectors of the embedder in use; broken off, it goes on where it was."""
    with call.memory() as memory:
        # NumPy and the embedder are loaded with the command, not with the program.
        from offprompt.service import reindexing  # noqa: PLC0415

        kit = memory.parts.memories.kit
        scope = call.scope_of(memory).scope if call.scoped else None
        total = reindexing.waiting(kit, scope)
        with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task("reindex", total=total)
            done = reindexing.reindex(kit, scope, progress=lambda count: progress.update(task, completed=count))
    by = done.embedder or call.say("by words alone: there is no embedder")
    mended = f"; {call.say('entries of the vector index mended')}: {done.mended}" if done.mended else ""
    call.put(asdict(done), f"{call.say('indexed')}: {done.done} {call.say('memories')}, {by}{mended}")


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    for name, function in (
        ("doctor", doctor),
        ("backup", backup),
        ("restore", restore),
        ("sweep", sweep),
        ("reindex", reindex),
    ):
        command(app, name)(function)
