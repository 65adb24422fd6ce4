"""How the command line says that something went wrong: one line on stderr, one exit code, never a traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

import typer

from offprompt.errors import OffpromptError

CommandLineError: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""What Typer raises for a command line that it cannot read; the class has had several homes."""

USAGE: Final = 2
INTERRUPTED: Final = 130


def exit_code(error: Exception) -> int:
    """The exit code of an error; the tree in `offprompt.errors` is the table."""
    return error.exit_code if isinstance(error, OffpromptError) else USAGE


def report(error: Exception, argv: Sequence[str]) -> int:
    """Say on stderr what went wrong, as JSON where the command line asked for it; returns the exit code."""
    code, text = exit_code(error), " ".join(sentence(error).split())
    if wants_json(argv):
        document = {"error": {"type": kind(error), "message": text, "exit_code": code}}
        sys.stderr.write(json.dumps(document, ensure_ascii=False) + "\n")
    else:
        sys.stderr.write(f"offprompt: {text}\n")
    return code


def wants_json(argv: Sequence[str]) -> bool:
    """Whether `--json` stands among the options."""
    return "--json" in (argv[: argv.index("--")] if "--" in argv else argv)


def kind(error: Exception) -> str:
    """The error's class, Typer's own counting as UsageError."""
    return type(error).__name__ if isinstance(error, OffpromptError) else "UsageError"


def sentence(error: Exception) -> str:
    """The error's sentence; Typer's own with the command that would help."""
    if isinstance(error, OffpromptError):
        return str(error)
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "offprompt")
    formatted = getattr(error, "format_message", None)
    message = str(formatted() if callable(formatted) else error)
    return f"{message.rstrip('.')}; try: {path} --help"
