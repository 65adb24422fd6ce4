"""The token of a server on the loopback: in a file that only its own user may read, so that no web page knows it."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from offprompt.errors import BackendError, UsageError
from offprompt.records.places import token_file


@contextmanager
def local_token(port: int) -> Generator[str]:
    """A new token, in `token_file(port)` until the block is left.

    Left over  what a killed server left is replaced: whoever makes this has the port, so nobody else serves there.
    Removed    only while the file has this token: one that was put there since is another server's.
    Raises     UsageError for a folder or file that is another user's, or that others may write; BackendError if the
               file cannot be written.
    """
    path, token = token_file(port), f"local_{secrets.token_urlsafe(32)}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_own(path.parent, writable=0o022)
        if path.is_symlink() or path.exists():
            _check_own(path, writable=0o077)
        _put(path, token)
    except OSError as exc:
        raise BackendError(
            f"the token of this server cannot be written to {path}: {exc.strerror or exc}; free space or correct the "
            "rights of its folder, or set XDG_DATA_HOME to another one"
        ) from exc
    try:
        yield token
    finally:
        with suppress(OSError, ValueError):
            if path.read_text(encoding="ascii") == token:
                path.unlink()


def _check_own(path: Path, *, writable: int) -> None:
    """Raises UsageError unless it is a plain file or folder of this user, without these rights of others."""
    found = path.lstat()
    if found.st_uid != os.getuid():
        why = "another user's"
    elif stat.S_ISLNK(found.st_mode) or not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        why = "no plain file"
    elif found.st_mode & writable:
        why = f"open to others (mode {stat.S_IMODE(found.st_mode):o})"
    else:
        return
    raise UsageError(f"{path}, where the token of this server belongs, is {why}; look who put it there, and remove it")


def _put(path: Path, token: str) -> None:
    """The file appears with all that is in it, and was never open to others."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(token)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
