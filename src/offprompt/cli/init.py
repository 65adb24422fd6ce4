"""`offprompt init`: a coding agent's settings with this memory; `offprompt hook`: what they run."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from offprompt.cli import streams
from offprompt.cli.call import Call, command
from offprompt.cli.errors import report
from offprompt.cli.host_files import HOOK_FILES, HOOKS, MCP_FILES, Agent, with_hooks, with_server, with_toml_server
from offprompt.cli.mcp import LACKING, door_of, mcp_words, own_command, own_words
from offprompt.errors import BackendError, OffpromptError, UnsupportedError, UsageError
from offprompt.records import as_dict
from offprompt.service.offprompt import Offprompt

FAILED = 1
"""A hook that could not work: not 2, with which hosts hold their agent up."""


def init(
    call: Call,
    host: Annotated[Agent, typer.Argument(help="Whose settings.")],
    *,
    folder: Annotated[Path, typer.Option(help="The project.")] = Path(),
    hooks: Annotated[
        bool, typer.Option("--hooks/--no-hooks", help="Also what runs when a session begins, and ends.")
    ] = (True),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take out what was put in.")] = False,
) -> None:
    """Give a coding agent this memory in one project: the MCP server, and hooks where it has them.

    Shows what changes. Entries of others stay as they are; once more changes nothing. Needs the extra `mcp`.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {str(folder)!r}; name the project's with --folder")
    if not remove and find_spec("mcp") is None:
        raise UnsupportedError(LACKING)
    if not remove and not dry_run:
        with call.scope(create=True):  # whose memory it is must be known, and its store must open
            pass
    changes = {path: new for path, old, new in _wanted(call, host, folder, hooks=hooks, remove=remove) if old != new}
    texts: list[str] = []
    for path, new in changes.items():
        old, name = _read(path), path.relative_to(folder).as_posix()
        lines = difflib.unified_diff(
            old.splitlines(), new.splitlines(), name if old else "/dev/null", name, lineterm="", n=2
        )
        texts += lines
        if not dry_run:
            _write(path, new)
    done = call.say("would change") if dry_run else call.say("changed")
    names = [path.relative_to(folder).as_posix() for path in changes]
    texts.append(f"{done}: {', '.join(names)}" if names else call.say("nothing to change"))
    call.put(
        {"host": host, "files": names, "changed": bool(names) and not dry_run, "diff": texts[:-1]}, "\n".join(texts)
    )


def _wanted(call: Call, agent: Agent, folder: Path, *, hooks: bool, remove: bool) -> list[tuple[Path, str, str]]:
    """Each file with its text and the one that it is to have."""
    program, name = own_command(), MCP_FILES[agent]
    put = with_toml_server if name.endswith(".toml") else with_server
    text = _read(folder / name)
    wanted = [(folder / name, text, put(text, name, program, None if remove else mcp_words(call)))]
    if agent in HOOK_FILES:
        name = HOOK_FILES[agent]
        lines = {
            event: shlex.join([program, "hook", what, "--host", agent, *own_words(call)])
            for event, what in HOOKS[agent].items()
        }
        text = _read(folder / name)
        wanted.append((folder / name, text, with_hooks(text, name, {} if remove or not hooks else lines)))
    return wanted


def hook(
    call: Call,
    event: Annotated[Literal["session-start", "session-end"], typer.Argument(help="What happens.")],
    *,
    host: Annotated[Literal["claude-code", "codex"], typer.Option(help="Whose hook it is.")] = "claude-code",
) -> None:
    """What a host runs, with its JSON on stdin, when a session begins: say what is known; when it ends: remember it.

    It never holds the host up: where it fails it says why on stderr and ends with 1.
    """
    try:
        given = _given(sys.stdin.read())
        from offprompt.service import host_sessions  # noqa: PLC0415 - loads NumPy

        with call.memory(create=True) as memory:
            bound, door = call.scope_of(memory), door_of(call, memory, "user", via="hook")
            if event == "session-start":
                if told := host_sessions.index_of(door, bound):
                    output = {"hookEventName": "SessionStart", "additionalContext": told}
                    streams.answer(json.dumps({"hookSpecificOutput": output}, ensure_ascii=False) + "\n")
            elif path := given.get("transcript_path"):
                name = _session_of(given, host)
                texts = host_sessions.user_texts(Path(str(path)).expanduser(), door.tokenizer)
                if isinstance(memory, Offprompt):  # pyright: ignore[reportUnnecessaryIsInstance] - a Client has its face
                    host_sessions.keep_session(memory, bound, name, texts)
                else:
                    host_sessions.send_session(bound, name, texts)
    except OffpromptError as exc:
        report(exc, call.argv)
        raise typer.Exit(FAILED) from exc


def _given(text: str) -> dict[str, object]:
    try:
        given = as_dict(json.loads(text))
    except ValueError:
        given = None
    if given is None:
        raise UsageError("stdin holds no JSON object; a host gives one to its hooks")
    return given


def _session_of(given: Mapping[str, object], host: str) -> str:
    """What a session of a host is called.

    Raises   UsageError where the host gave no id.
    """
    if not given.get("session_id"):
        raise UsageError("the hook's input has no session_id; run it as the host's hook, not by hand")
    return f"{host} {given['session_id']}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{str(path)!r} cannot be read: {exc}; nothing was changed in it") from exc


def _write(path: Path, text: str) -> None:
    """The file with that text, whole or not at all; without any it is no more."""
    try:
        if not text:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        if target.exists():
            fresh.chmod(target.stat().st_mode & 0o777)
        fresh.replace(target)
    except OSError as exc:
        raise BackendError(f"{str(path)!r} cannot be written: {exc}; it is as it was") from exc


def mount(app: typer.Typer) -> None:
    """Put the commands into the program."""
    command(app, "init")(init)
    command(app, "hook")(hook)
