"""Conversion in a process of its own, which is ended when it takes too long: files can be made so that a library does.

Run as a module it is that process: the document's bytes on stdin, its name as the argument, JSON on stdout.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from offprompt.errors import UnsupportedError, UsageError
from offprompt.recall.convert.choosing import converted, media_of
from offprompt.recall.convert.converted import Converted, refused

MAX_SECONDS: Final = 60.0
MAX_MEMORY: Final = 4 * 1024**3
"""Bytes of memory that the process may ask for, where the system can be told so."""

IN_PROCESS: Final = ("markdown", "text")
"""What our own code reads, in time that grows with the text alone."""


class Told(msgspec.Struct, omit_defaults=True):
    """What the process says: the document as text, or why not."""

    converted: Converted | None = None
    refused: str = ""
    unsupported: str = ""


def converted_apart(name: str, data: bytes, *, seconds: float = MAX_SECONDS) -> Converted:
    """As `converted`.

    Cost     some .3 s more for the process, but for text and Markdown.
    Raises   UsageError too for what takes longer than so many seconds, or more memory than MAX_MEMORY.
    """
    if media_of(name) in IN_PROCESS:
        return converted(name, data)
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join(dict.fromkeys([root, *filter(None, sys.path)]))
    try:
        ran = subprocess.run(  # noqa: S603 - our own module; -P: nothing of the current folder is imported
            [sys.executable, "-P", "-m", __name__, name],
            input=data,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise refused(f"it takes more than {seconds:.0f} seconds to read", "split it, or save it anew") from None
    except OSError as exc:
        raise UnsupportedError(f"no process can be started to read it: {exc.strerror or exc}") from exc
    try:
        told = msgspec.json.decode(ran.stdout, type=Told)
    except msgspec.DecodeError as exc:
        raise refused("what reads it broke down over it", "save it anew, or in another format") from exc
    if told.unsupported:
        raise UnsupportedError(told.unsupported)
    if told.converted is None:
        raise UsageError(told.refused)
    return told.converted


def main(name: str) -> None:
    """Convert what comes on stdin."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - POSIX only

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(MAX_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        told = Told(converted(name, sys.stdin.buffer.read()))
    except UnsupportedError as exc:
        told = Told(unsupported=str(exc))
    except UsageError as exc:
        told = Told(refused=str(exc))
    sys.stdout.buffer.write(msgspec.json.encode(told))


if __name__ == "__main__":
    main(sys.argv[1])
