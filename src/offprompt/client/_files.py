"""Streams: a file of the user's that is sent, a new one that is written, and lines as they come."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from offprompt.errors import UsageError

CHUNK: Final = 64 * 1024
TAIL: Final = 1 << 20


class NewFile:
    """A private file that was not there; gone again if it was not written to the end. lines: ends of lines so far."""

    def __init__(self, path: Path) -> None:
        self.path, self.lines = path, 0

    def __enter__(self) -> NewFile:
        """Raises   UsageError if it is there, or cannot be made."""
        try:
            self._file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        except OSError as exc:
            raise self._refused(exc, "give a path that is free") from exc
        return self

    def write(self, chunk: bytes) -> None:
        """Raises   UsageError if it cannot be written."""
        try:
            self._file.write(chunk)
        except OSError as exc:
            raise self._refused(exc, "free space, or give another") from exc
        self.lines += chunk.count(b"\n")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._file.close()
        except OSError as exc:
            self.path.unlink(missing_ok=True)
            if error is None:
                raise self._refused(exc, "free space, or give another") from exc
        if error is not None:
            self.path.unlink(missing_ok=True)

    def _refused(self, exc: OSError, way_out: str) -> UsageError:
        return UsageError(f"{self.path} cannot be written: {exc.strerror or exc}; {way_out}")


class ComingLines:
    """Lines as they come. A connection that breaks off behind the first one is no error: it says how far it got."""

    def __init__(self, on_line: Callable[[Any], object]) -> None:
        self._on_line, self._number, self.is_whole = on_line, 0, True

    def take(self, line: str) -> None:
        """One line."""
        if line.strip():
            self._number += 1
            self._on_line(json.loads(line))

    @contextmanager
    def ended(self, lost: type[Exception]) -> Generator[None]:
        """Around the reading of all of them."""
        try:
            yield
        except lost:
            if not self._number:
                raise
            self.is_whole = False


def chunks(path: Path) -> Iterator[bytes]:
    """A file's bytes, piece by piece.

    Raises   UsageError if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}; correct the path") from exc


async def async_chunks(path: Path) -> AsyncIterator[bytes]:
    """`chunks`, read in a worker thread."""
    pieces = chunks(path)
    while chunk := await asyncio.to_thread(next, pieces, b""):
        yield chunk


def last_line(path: Path) -> Any:
    """The JSON of a file's last line, of at most TAIL bytes."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        return json.loads(file.read().splitlines()[-1])
