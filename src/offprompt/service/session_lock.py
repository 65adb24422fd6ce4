"""One call at a time on a session: within this process, and among all of them where a Coordinator says so."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from offprompt.errors import BackendError, ConflictError
from offprompt.protocols import Coordinator
from offprompt.records import Scope, canonical

LEASE_S: Final = 30.0
"""A killed process keeps others from its session for so long. A call that takes longer may meet another one; then the
session's revision lets only one of them be stored."""


class SessionLock:
    """The lock of one session object.

    coordinator  None: other processes are noticed only when one of the two calls is stored.
    """

    def __init__(self, scope: Scope, coordinator: Coordinator | None) -> None:
        self._scope, self._coordinator = scope, coordinator
        self._key = f"session {canonical(scope.key)}"
        self._own = threading.Lock()

    @contextmanager
    def held(self) -> Generator[None]:
        """Within it no other call works on the session.

        Raises   ConflictError if one does.
        """
        if not self._own.acquire(blocking=False):
            raise self._busy()
        try:
            with self._leased():
                yield
        finally:
            self._own.release()

    @contextmanager
    def _leased(self) -> Generator[None]:
        coordinator, holder = self._coordinator, secrets.token_hex(8)
        if coordinator is None:
            yield
            return
        try:
            number = coordinator.lease(self._key, holder, seconds=LEASE_S)
        except BackendError:
            # A word in time is all that is missing: the revision still keeps the session whole.
            yield
            return
        if number is None:
            raise self._busy()
        try:
            yield
        finally:
            with suppress(BackendError):
                coordinator.release(self._key, holder)

    def _busy(self) -> ConflictError:
        return ConflictError(
            f"another call works on session {self._scope.session!r} now; wait for it, or open a session of its own "
            "for each conversation that runs at the same time"
        )
