"""Kept: what a process has read of its latest conversations, so that a next request reads only what is new."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from offprompt.records import Scope
from offprompt.service.session import Session

MAX_SESSIONS: Final = 256
MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the requests of the conversations that are kept; what is read of one takes about ten times as much."""

Key = tuple[Scope, str]


class KeptSessions:
    """The session objects of the conversations that were answered last, one each.

    Checked  by the session itself, against the stored state: another process may have gone on with it.
    Not for several threads: the application's loop alone asks.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, tuple[Session, int]] = OrderedDict()
        self._bytes = 0

    def take(self, key: Key) -> Session | None:
        """The conversation's object; it is kept no more."""
        found, size = self._kept.pop(key, (None, 0))
        self._bytes -= size
        return found

    def put(self, key: Key, session: Session, size: int) -> None:
        """Keep it. size: bytes of its last request; one that is larger than all that may be kept is not kept."""
        self.take(key)
        self._kept[key] = session, size
        self._bytes += size
        while len(self._kept) > MAX_SESSIONS or self._bytes > MAX_BYTES:
            _, (_, gone) = self._kept.popitem(last=False)
            self._bytes -= gone
