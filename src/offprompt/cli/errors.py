"""How the command line says that something went wrong: one line on stderr, one exit code, never a traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

import typer

from offprompt.errors import NotFoundError, OffpromptError

CommandLineError: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""What Typer raises for a command line that it cannot read; the class has had several homes."""

SCOPE_OPTIONS: Final = ("--url", "--app", "--user", "--agent", "--session", "--config")

LONG: Final = 60
USAGE: Final = 2
INTERRUPTED: Final = 130


def exit_code(error: Exception) -> int:
    """The exit code of an error; the tree in `offprompt.errors` is the table."""
    return error.exit_code if isinstance(error, OffpromptError) else USAGE


def report(error: Exception, argv: Sequence[str]) -> int:
    """Say on stderr what went wrong, as JSON where the command line asked for it; returns the exit code."""
    code, text = exit_code(error), " ".join(sentence(error, argv).split())
    if wants_json(argv):
        document = {"error": {"type": kind(error), "message": text, "exit_code": code}}
        sys.stderr.write(json.dumps(document, ensure_ascii=False) + "\n")
    else:
        sys.stderr.write(f"offprompt: {text}\n")
    return code


def as_typed(words: Sequence[str]) -> str:
    """A command line as one would type it."""
    return " ".join(["offprompt", *(quoted(word if len(word) <= LONG else "VALUE") for word in words)])


def quoted(word: str) -> str:
    """A word as a shell reads it back; letters of any script stand as they are."""
    plain = word and all(char.isalnum() or char in "_-./:=@%+," for char in word)
    return word if plain else "'" + word.replace("'", "'\"'\"'") + "'"


def corrected(argv: Sequence[str], more: Sequence[str]) -> str:
    """The command line with some more words behind its options; words over 60 characters are left out."""
    cut = argv.index("--") if "--" in argv else len(argv)
    return as_typed([*argv[:cut], *more, *argv[cut:]])


def wants_json(argv: Sequence[str]) -> bool:
    """Whether `--json` stands among the options."""
    return "--json" in (argv[: argv.index("--")] if "--" in argv else argv)


def kind(error: Exception) -> str:
    """The error's class, Typer's own counting as UsageError."""
    return type(error).__name__ if isinstance(error, OffpromptError) else "UsageError"


def sentence(error: Exception, argv: Sequence[str]) -> str:
    """The error's sentence; Typer's own with the command that would help."""
    if isinstance(error, NotFoundError) and error.name:
        return f"{str(error).partition('; ')[0]}; {way_out(error, argv)}"
    if isinstance(error, OffpromptError):
        return str(error)
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "offprompt")
    formatted = getattr(error, "format_message", None)
    message = str(formatted() if callable(formatted) else error)
    return f"{message.rstrip('.')}; try: {path} --help"


def way_out(error: NotFoundError, argv: Sequence[str]) -> str:
    """The command that finds the slot: the same with the name spelled as stored, or a list of the names."""
    if error.alike and error.name in argv:
        at = argv.index(error.name)
        return (
            f"spelled alike: {', '.join(error.alike)}; try: {as_typed([*argv[:at], error.alike[0], *argv[at + 1 :]])}"
        )
    return f"try: {as_typed(['slot', 'list', *scope_words(argv)])}"


def scope_words(argv: Sequence[str]) -> list[str]:
    """The words of a command line that say whose memory, and in which store."""
    words: list[str] = []
    for at, word in enumerate(argv):
        if word == "--shared" or (word.partition("=")[0] in SCOPE_OPTIONS and "=" in word):
            words.append(word)
        elif word in SCOPE_OPTIONS:
            words += argv[at : at + 2]
    return words
