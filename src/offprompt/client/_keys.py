"""Where a client's key comes from unless it is given."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import urlsplit

from offprompt.client._transport import is_loopback
from offprompt.errors import UsageError
from offprompt.records.places import private_text, token_file

DEFAULT_PORT = 7333


def key_of(url: str, given: str | None) -> Callable[[], str | None]:
    """What says the key, each time anew: the one given, else OFFPROMPT_KEY, else the token of this machine's server.

    Raises   UsageError for a key with spaces, line ends or letters beyond ASCII; the message does not hold it.
    """
    key = given or os.environ.get("OFFPROMPT_KEY")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError("the key holds a space, a line end or a letter that no key has; pass it as it was printed")
    if key or not is_loopback(url):
        return lambda: key
    file = token_file(urlsplit(url).port or DEFAULT_PORT)
    return lambda: private_text(file) or None
