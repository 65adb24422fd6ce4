"""A memory that a server keeps, opened like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from offprompt.config import Settings
from offprompt.errors import UsageError
from offprompt.service.offprompt import Offprompt

OWN: Final = ("app", "busy_timeout_s")
"""Settings that a client has a use for; all others are the server's."""


def is_server(where: object) -> bool:
    """Whether a URL is a server's and not a store's."""
    return isinstance(where, str) and where.lower().startswith(("http://", "https://"))


def open_server(
    url: str, given: Mapping[str, object], loaded: Settings, *, app: str | None, key: str | None, user: str | None
) -> Offprompt:
    """The server's memory. Nothing is asked before the first call.

    given    what `open` was called with beside the URL. app: where one is named. A client has the face of an Offprompt,
             but for `parts`: what needs the store itself runs where the store is.
    Raises   UsageError for what only a store can be opened with.
    """
    from offprompt.client.clients import Client  # noqa: PLC0415 - only who asks a server needs it

    for name, value in given.items():
        if value is not None and name not in OWN:
            raise UsageError(
                f"{name}=… is for whoever opens the store, and {url} is a server; set it there, or leave it out"
            )
    return cast("Offprompt", Client(url, key=key, app=app, user=user, timeout_s=loaded.busy_timeout_s))
