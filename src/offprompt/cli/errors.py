"""How the command line says that something went wrong: one line on stderr, one exit code, never a traceback."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import typer

from offprompt.cli import streams
from offprompt.errors import NotFoundError, OffpromptError
from offprompt.records.slot import RESERVED_PREFIX

CommandLineError: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""What Typer raises for a command line that it cannot read; the class has had several homes."""

SCOPE_OPTIONS: Final = ("--url", "--app", "--user", "--agent", "--session", "--config")

LONG: Final = 60
USAGE: Final = 2
PIPE_CLOSED: Final = 141

SPOKEN: Final = (
    (r"\b\w+=True \((--[\w-]+)\)", r"\1"),
    (r"\bttl_s=", "--ttl "),
    (r"\bor None for ever", "or `none` for ever"),
    (r"\bif_version=", "--if-version "),
    (r"\bimportance=", "--importance "),
    (r"\bpolicy='(\w+)'", r"--policy \1"),
    (r"\b(user|agent|session|app)=''", r"--\1 ''"),
    (r"shared=True stands alone: .*", "--shared stands alone: leave out --user, --agent and --session, or --shared"),
    (r"pass another schema with the value", "give another --schema with the value"),
    (r"\bkinds=", "--kind "),
    (r"\bstates=", "--state "),
    (r"\btop_k=", "--top "),
    (r"\bfloor=", "--floor "),
    (r"\bquery='([^']*)'", r"the question '\1'"),
    (r"\blimit=(-?\d+)", r"--limit \1"),
    (r"\bwhat='([^']*)'", r"the text '\1'"),
    (r"\bgive key=", "name its variable (--key-env; key_env in the config file)"),
    (r"is not a valid (int|int range)$", "is no whole number"),
)
"""What the library calls its arguments, and what the command line calls them."""

NO_COMMAND: Final = re.compile(r"No such command '([^']+)'")
EXTRA: Final = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((.+)\)$")
SETTING: Final = re.compile(r"\braise (max_\w+|busy_timeout_s)")


def exit_code(error: Exception) -> int:
    """The exit code of an error; the tree in `offprompt.errors` is the table."""
    return error.exit_code if isinstance(error, OffpromptError) else USAGE


def report(error: Exception, argv: Sequence[str]) -> int:
    """Say on stderr what went wrong, as JSON where the command line asked for it; returns the exit code."""
    code, text = exit_code(error), " ".join(sentence(error, argv).split())
    if wants_json(argv):
        document = {"error": {"type": kind(error), "message": text, "exit_code": code}}
        streams.complain(json.dumps(document, ensure_ascii=not streams.is_unicode(sys.stderr)) + "\n")
    elif text:
        streams.complain(f"offprompt: {text}\n")
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
    """The error's sentence in the command line's words; Typer's own with the command that would help.

    Empty where Typer has printed the help already, because no command was given.
    """
    if isinstance(error, NotFoundError) and error.name:
        return f"{str(error).partition('; ')[0]}; {way_out(error, argv)}"
    if isinstance(error, OffpromptError):
        return spoken(str(error))
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "offprompt")
    formatted = getattr(error, "format_message", None)
    message = str(formatted() if callable(formatted) else error).rstrip(".")
    option = getattr(error, "option_name", None)
    if isinstance(option, str) and re.fullmatch(r"-[^-]", option):
        return f"{message}; if it is a value: {as_value(argv, option)}"
    for pattern, way in ((NO_COMMAND, elsewhere(context, message)), (EXTRA, as_one_text(argv, message))):
        if way and (found := pattern.match(message)):
            return f"{found[0]}; {way}"
    return f"{spoken(message)}; try: {path} --help" if message else ""


def elsewhere(context: Any, message: str) -> str:
    """The commands of this name in other groups than the one that was asked for it; empty where there are none."""
    found = NO_COMMAND.match(message)
    if not found or context is None:
        return ""
    root = context.find_root().command
    groups = {"": root, **{f"{name} ": one for name, one in root.commands.items()}}
    names = [
        f"offprompt {group}{found[1]}" for group, one in groups.items() if found[1] in getattr(one, "commands", {})
    ]
    return f"it is: {', '.join(names)}" if names else ""


def as_one_text(argv: Sequence[str], message: str) -> str:
    """The command line with the words behind the last argument, and that one, in quotes; empty if they stand apart."""
    found = EXTRA.match(message)
    if not found:
        return ""
    for first in range(1, len(argv)):
        for last in range(first + 1, len(argv) + 1):
            if " ".join(argv[first:last]) == found[1]:
                one = " ".join(argv[first - 1 : last])
                return f"if they are one text: {as_typed([*argv[: first - 1], one, *argv[last:]])}"
    return ""


def spoken(text: str) -> str:
    """A sentence of the library with its arguments called as the command line calls them."""
    for pattern, word in SPOKEN:
        text = re.sub(pattern, word, text)
    return SETTING.sub(lambda match: f"raise OFFPROMPT_{match[1].upper()}", text)


def as_value(argv: Sequence[str], option: str) -> str:
    """The command line with the word that was taken for this option behind `--`, where it is a value."""
    at = next(at for at, word in enumerate(argv) if word.startswith(option))
    return as_typed([*argv[:at], *argv[at + 1 :], "--", argv[at]])


def way_out(error: NotFoundError, argv: Sequence[str]) -> str:
    """The command that finds it: the same with the slot's name spelled as stored, or a list of what there is."""
    if error.alike and error.name in argv:
        at = argv.index(error.name)
        return (
            f"spelled alike: {', '.join(error.alike)}; try: {as_typed([*argv[:at], error.alike[0], *argv[at + 1 :]])}"
        )
    family = "memory" if error.name.startswith(RESERVED_PREFIX) else "slot"
    return f"try: {as_typed([family, 'list', *scope_words(argv)])}"


def scope_words(argv: Sequence[str]) -> list[str]:
    """The words of a command line that say whose memory, and in which store."""
    words: list[str] = []
    for at, word in enumerate(argv):
        if word == "--shared" or (word.partition("=")[0] in SCOPE_OPTIONS and "=" in word):
            words.append(word)
        elif word in SCOPE_OPTIONS:
            words += argv[at : at + 2]
    return words
