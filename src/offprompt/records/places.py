"""Places: the user's folders, and how a message names a place that was given as a URL."""

from __future__ import annotations

import re
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
