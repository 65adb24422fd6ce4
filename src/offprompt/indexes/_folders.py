"""Folders that hold an index: each may be opened once, by one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

Client: TypeAlias = Any
"""A client of a vector database that keeps a folder by itself."""


class Folders:
    """The clients of this process by folder: a folder may be opened once, and its client does one thing at a time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked child does: its parent's clients are not its own."""
        self.lock = threading.RLock()
        self._open: dict[Path, tuple[Client, int]] = {}

    def take(self, path: str, make: Callable[..., Client]) -> Client:
        """The client of a folder, made if it is the first to ask."""
        folder = Path(path).expanduser().absolute()
        with self.lock:
            client, users = self._open.get(folder) or (make(path=folder, force_disable_check_same_thread=True), 0)
            self._open[folder] = client, users + 1
            return client

    def release(self, path: str) -> None:
        """One less uses it; the last one closes it."""
        folder = Path(path).expanduser().absolute()
        with self.lock:
            client, users = self._open.pop(folder)
            if users > 1:
                self._open[folder] = client, users - 1
            else:
                client.close()


FOLDERS: Final = Folders()
os.register_at_fork(after_in_child=FOLDERS.forget)
