"""stdout and stderr in any state: of another encoding, closed, full, left by their reader."""

from __future__ import annotations

import io
import os
import sys
from typing import Final, TextIO

from offprompt.errors import BackendError

NUMBERS: Final = {"stdout": 1, "stderr": 2}


def make_ready() -> None:
    """Let stdout and stderr escape what their encoding has no character for.

    A closed one gets its number back, so that no file opened later is taken for it; writing to it is an OSError.
    """
    for name, number in NUMBERS.items():
        stream = getattr(sys, name)
        if stream is None:
            handle = os.open(os.devnull, os.O_RDONLY)
            if handle != number:
                os.dup2(handle, number)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - a number
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_unicode(stream: TextIO) -> bool:
    """Whether the stream can write every character."""
    return (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf")


def answer(text: str) -> None:
    """Write to stdout, at once.

    Raises   BrokenPipeError if whoever read us has left; BackendError if it cannot be written.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as exc:
        discard(sys.stdout)
        raise BackendError(
            f"the answer cannot be written to stdout: {exc.strerror}; what the command changed is changed: "
            "free space or give another place, and look at it again"
        ) from exc


def complain(text: str) -> None:
    """Write to stderr, if it can be written to: there is no other place to say that it cannot."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Send what is still to be written to nowhere, so that nothing fails again at the program's end."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
