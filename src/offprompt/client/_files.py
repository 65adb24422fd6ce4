"""A new file of the user's that a stream is written to."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from offprompt.errors import UsageError


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
