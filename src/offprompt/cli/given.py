"""What a command line hands in: an argument, stdin, a file; as text or JSON."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from offprompt.cli.call import Call
from offprompt.cli.errors import corrected, quoted
from offprompt.errors import UsageError
from offprompt.records import Within

WithinOption = Annotated[Within, typer.Option(help="This scope, what it inherits, or all below it.")]


def text_given(call: Call, what: str, value: str | None, file: Path | None) -> str:
    """The text as given: an argument, stdin, or a file.

    what     it is, for errors, such as `slot 'city'`.

    Raises   UsageError if it is given twice or not at all.
    """
    if (value is None) == (file is None):
        way = corrected(call.argv, ["--file", "notes.txt"] if value is None else [])
        given = "no value" if value is None else "a value and --file"
        raise UsageError(f"{given} for {what}: give the value, `-` for stdin, or a file: {way}")
    if file is not None:
        return file_text(file, "--file")
    return stdin_text(what) if value == "-" else value or ""


def stdin_text(what: str) -> str:
    """What stands on stdin, without its last newline.

    Raises   UsageError if it is closed, empty, or no text in its encoding.
    """
    stream = sys.stdin
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="strict")
    try:
        text = "" if stream is None else stream.read()
    except UnicodeDecodeError as exc:
        raise UsageError(
            f"stdin is not {exc.encoding} text (byte {exc.start + 1}); set PYTHONIOENCODING=utf-8, or give a --file"
        ) from exc
    if not text:
        raise UsageError(f"nothing on stdin for {what}; pipe the value in, or write '' for an empty text")
    return text.removesuffix("\n")


def file_text(path: Path, option: str) -> str:
    """A file's text.

    Raises   UsageError if it cannot be read as UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
        raise UsageError(f"{option} {str(path)!r} cannot be read: {why}; correct the path or the file") from exc


def parsed(text: str, what: str, way_out: str) -> Any:
    """The text as JSON.

    Raises   UsageError saying where it is not; never the value.
    """
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as exc:
        where = f"{exc.msg} at line {exc.lineno}, column {exc.colno}" if isinstance(exc, ValueError) else "too deep"
        raise UsageError(f"{what} is not JSON: {where}; {way_out}") from exc


def scope_words(call: Call) -> list[str]:
    """The call's scope as words of a command line."""
    own = call.options
    given = (("--app", own.app), ("--user", own.user), ("--agent", own.agent), ("--session", own.session))
    words = [word for option, value in given if value is not None for word in (option, quoted(value))]
    return words + (["--shared"] if own.shared else [])


PurposeOption = Annotated[str | None, typer.Option(help="What it may be used for.")]
ConsentOption = Annotated[str | None, typer.Option(help="The consent that it rests on, for `withdraw`.")]
