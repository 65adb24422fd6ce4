"""Places: the user's folders, and how a message names a place that was given as a URL."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

import platformdirs

APP_NAME: Final = "offprompt"

_SECRET: Final = re.compile(
    r"(?<=://)([^\s/@]*:)?[^\s/@]*@|(?<=[?&])((?:password|api_key|key|token)=)[^&\s]*", re.IGNORECASE
)


def masked(text: str) -> str:
    """The text with `***` in place of what stands before `@` in its URLs, behind the user's name, and of keys."""
    return _SECRET.sub(lambda found: f"{found[2]}***" if found[2] else f"{found[1] or ''}***@", text)


def data_folder() -> Path:
    """The user's data folder: the default store, what waits for a store, the tokens of servers."""
    return Path(platformdirs.user_data_dir(APP_NAME, appauthor=False))


def user_config_folder() -> Path:
    """Where a user's own `offprompt.toml` stands."""
    return Path(platformdirs.user_config_dir(APP_NAME, appauthor=False))


def token_file(port: int) -> Path:
    """Where a server on the loopback leaves the token that only its own user may read, by the port it listens on."""
    return data_folder() / "serve" / f"{port}.token"


def private_text(path: Path) -> str | None:
    """The text of a file that is this user's and that nobody else may read; None if there is no such file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, encoding="ascii") as file:
            found = os.fstat(file.fileno())
            is_private = found.st_uid == os.getuid() and stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077
            return file.read().strip() if is_private else None
    except (OSError, ValueError):
        return None
